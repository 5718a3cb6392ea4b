// What a user sets, checked, as the plain data that a journal keeps.

import { AlineError } from "../errors.js";
import { readTarget } from "./goals.js";
import { browserStorage } from "./journal.js";
import { checkUnknown, readKnowledge, unknownNames } from "./knowledge.js";

const SETTINGS = ["target", "trials", "horizon", "stop", "seed", "candidates", "metadata", "known", "prior", "name", "storage"];
const NOTE_BYTES = 4000;

const shown = (value) => (typeof value === "number" ? String(value) : JSON.stringify(value) ?? String(value)); // NaN as NaN

export function readSettings(model, settings) {
  for (const name of Object.keys(settings)) {
    if (!SETTINGS.includes(name)) throw new AlineError(422, `an experiment has the settings ${[...SETTINGS, "units"].join(", ")}, got ${name}`);
  }
  const { target, trials, horizon = trials, stop, seed = 0, candidates = 200, metadata = {}, known, prior, name, storage } = settings;
  const knowledge = readKnowledge(model, known, prior);
  if (name !== undefined && (typeof name !== "string" || !name || name.includes(":"))) {
    throw new AlineError(422, `an experiment's name must be a text without a colon, got ${shown(name)}`);
  }
  if (!Number.isInteger(seed)) throw new AlineError(422, `seed must be a whole number, got ${shown(seed)}`);
  return {
    target: readLearnable(model, target, knowledge),
    horizon: checkCount("trials", horizon ?? model.task.horizon),
    stop: readStop(model, stop),
    seed,
    candidates: checkCount("candidates", candidates),
    metadata: plain("metadata", metadata),
    ...(Object.keys(knowledge).length ? { prior: knowledge } : {}),
    name,
    storage: storage ?? (name === undefined ? null : browserStorage()),
  };
}

/** A target of what is not known yet. */
export function readLearnable(model, target, knowledge) {
  const found = readTarget(model, target ?? unknownNames(model, knowledge));
  checkUnknown(knowledge, found);
  return found;
}

export function checkCount(what, value) {
  if (!Number.isInteger(value) || value < 1) throw new AlineError(422, `${what} must be a whole number, at least 1, got ${shown(value)}`);
  return value;
}

/** A stopping rule: name -> width of the 95 % interval. */
export function readStop(model, stop) {
  const names = model.coordinates.map((one) => one.name);
  for (const [name, width] of Object.entries(stop ?? {})) {
    if (!names.includes(name)) throw new AlineError(422, `stop takes widths of ${names.join(", ")}, got ${shown(name)}`);
    if (!(Number.isFinite(width) && width > 0)) throw new AlineError(422, `the width to stop at for ${name} must be positive, got ${shown(width)}`);
  }
  return { ...stop };
}

export function readRestriction({ design }, { candidates = null, box = null, repeats = true }) {
  if (candidates && box) throw new AlineError(422, "a restriction is candidates or a box, got both: give one");
  if (candidates && !design.read(candidates).length) throw new AlineError(422, "candidates must hold at least one design, got none");
  for (const [name, [low, high]] of Object.entries(box ?? {})) {
    const axis = design.names.indexOf(name);
    if (axis < 0) throw new AlineError(422, `designs have the axes ${design.names.join(", ")}, got ${name}: restrict some of these`);
    if (!(low < high) || low < design.low[axis] || high > design.high[axis]) {
      throw new AlineError(422, `${name} must lie in [${design.low[axis]}, ${design.high[axis]}], got (${low}, ${high}): a restriction only narrows the task's bounds`);
    }
  }
  return { candidates, box, repeats: Boolean(repeats) };
}

/** { note }, if there is one. */
export function checkNote(note) {
  if (note == null) return {};
  const found = plain("a note", note);
  const size = new TextEncoder().encode(JSON.stringify(found)).length;
  if (size > NOTE_BYTES) throw new AlineError(422, `a note must have at most ${NOTE_BYTES} bytes as JSON, got ${size}: keep large data elsewhere, and its name here`);
  return Object.keys(found).length ? { note: found } : {};
}

function plain(what, value) {
  const isObject = value && typeof value === "object" && !Array.isArray(value);
  if (!isObject) throw new AlineError(422, `${what} maps names to values, got ${shown(value)}`);
  return JSON.parse(JSON.stringify(value));
}
