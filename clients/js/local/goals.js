// What an experiment wants to know: parameters, predictions, or both.

import { AlineError } from "../errors.js";

const PREDICTIONS = "predictions";

/** Targets as plain data, checked; all parameters by default. */
export function readTarget(model, target) {
  const names = Object.keys(model.task.parameters);
  const listed = target == null ? (names.length ? names : [PREDICTIONS]) : [target].flat();
  if (!listed.length) throw new AlineError(422, `a target must name at least one of ${names.join(", ")}, got none`);
  goalOf(model, listed);
  return listed;
}

/** Which coordinates are wanted, at which points predictions are, and both in turns. */
export function goalOf(model, targets) {
  const inTurn = targets.find((one) => one?.in_turn);
  if (inTurn) return goalInTurn(model, inTurn.in_turn, targets.length);
  const parameters = model.coordinates.map(() => false);
  const points = [];
  for (const one of targets) {
    if (one === PREDICTIONS) points.push(...model.spread);
    else if (typeof one === "string") coordinatesOf(model, one).forEach((i) => (parameters[i] = true));
    else points.push(...pointsOf(model, one));
  }
  const whole = { parameters, points };
  return { ...whole, turns: turnsOf(model, whole) };
}

function goalInTurn(model, parts, among) {
  if (among > 1) throw new AlineError(422, "in_turn is a whole target: put everything into its parts");
  if (!(parts.length >= 2)) throw new AlineError(422, "in_turn takes at least two parts");
  const lists = parts.map((part) => [part].flat());
  const whole = goalOf(model, [...new Set(lists.flat())]);
  return { ...whole, turns: lists.map((part) => goalOf(model, part)) };
}

/** The goal that is pursued after so many observations. */
export const pursued = (goal, observed) => (goal.turns.length ? goal.turns[observed % goal.turns.length] : goal);

function coordinatesOf(model, name) {
  const found = model.coordinates.flatMap((one, i) => (one.owner === name || one.name === name ? [i] : []));
  if (found.length) return found;
  const known = [...Object.keys(model.task.parameters), PREDICTIONS];
  throw new AlineError(422, `a target is one of ${known.join(", ")}, got ${JSON.stringify(name)}`);
}

function pointsOf(model, one) {
  const { design, spread } = model;
  if (one?.predictions) return design.read(one.predictions).map((point) => design.toNetwork(point));
  if (!one?.region) throw new AlineError(422, `a target is a name, {predictions: designs} or {region: bounds}, got ${JSON.stringify(one)}`);
  const ends = design.names.map((name, i) => one.region[name] ?? [design.low[i], design.high[i]]);
  const unknown = Object.keys(one.region).filter((name) => !design.names.includes(name));
  if (unknown.length) throw new AlineError(422, `designs have the axes ${design.names.join(", ")}, got ${unknown.join(", ")}: a region is of some of these`);
  const corner = (end) => design.toNetwork(design.readOne(Object.fromEntries(design.names.map((name, i) => [name, ends[i][end]]))));
  const [low, high] = [corner(0), corner(1)];
  if (!design.points) return spread.map((row) => row.map((x, i) => low[i] + ((x + 1) / 2) * (high[i] - low[i])));
  const points = design.points.map((point) => design.toNetwork(point));
  const within = points.filter((row) => row.every((x, i) => x >= low[i] && x <= high[i]));
  if (!within.length) throw new AlineError(422, "no design of the pool lies in the region: take a larger one");
  const count = Math.min(64, within.length); // evenly, as episodes/goals.py has it
  return Array.from({ length: count }, (_, i) => within[Math.trunc((i * (within.length - 1)) / Math.max(1, count - 1))]);
}

// The parts of a goal that trained goals hold, if none of these holds all of it: a policy knows
// what to do for each part, and would have to guess for the whole (docs/notes/goals.md).
function turnsOf(model, goal) {
  const size = model.coordinates.length;
  const wanted = goal.parameters.flatMap((is, i) => (is ? [i] : []));
  if (goal.points.length) wanted.push(size);
  const parts = new Map(); // of columns, as text -> how many trials in a row
  for (const [names] of model.task.targets) {
    const columns = names.flatMap((name) => (name === PREDICTIONS ? [size] : coordinatesOf(model, name)));
    const part = wanted.filter((i) => columns.includes(i)).join();
    const row = (model.task.turns ?? []).find(([own]) => own.join() === names.join())?.[1] ?? 1;
    parts.set(part, Math.max(parts.get(part) ?? 1, row));
  }
  const sets = [...parts.keys()].map((text) => (text ? text.split(",").map(Number) : []));
  const isWithin = (a, b) => a.length < b.length && a.every((i) => b.includes(i));
  const largest = sets.filter((part) => !sets.some((other) => isWithin(part, other)));
  const covered = new Set(largest.flat());
  if (largest.length < 2 || covered.size !== wanted.length) return [];
  return largest.flatMap((part) => new Array(parts.get(part.join())).fill(partOf(goal, part, size)));
}

function partOf(goal, part, size) {
  return { parameters: goal.parameters.map((_, i) => part.includes(i)), points: part.includes(size) ? goal.points : [], turns: [] };
}
