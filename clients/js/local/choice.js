// The next design, chosen as policies/learned.py does: the same draws, the same rounds.

import { AlineError } from "../errors.js";
import { pursued } from "./goals.js";
import { crc32, Generator } from "./random.js";

const REFINEMENTS = 2; // where designs have several axes: 200 draws lie close to any point of one
const clamp = (x) => Math.min(Math.max(x, -1), 1);

/** The next design in the user's units, and what the network said of the data on the way. */
export async function choose(model, state) {
  const generator = new Generator(crc32(`${state.seed}:${state.trials.length}`));
  const data = await believed(model, state);
  const goal = pursued(state.goal, data.observations.length);
  const offer = offered(state);
  const run = (candidates) => model.run(data, goal, [], candidates);
  const pick = model.policy === "box" ? byProposal : byScores;
  const { x, outputs } = await pick(model, state, offer, run, generator);
  return { design: offer ? nearest(state.allowed, x) : model.design.toUser(x), outputs };
}

// Where trials are open, the policy looks at the data as if each had given what is expected of it.
async function believed(model, state) {
  let { data } = state;
  for (const x of state.open.values()) {
    const [belief] = await predict(model, data, [x]);
    data = { ...data, observations: [...data.observations, [x, [belief.expect()].flat()]] };
  }
  return data;
}

/** Beliefs about outcomes at points, all on the network's scale. */
export async function predict(model, data, points) {
  const outputs = await model.run(data, null, points);
  const parts = Object.entries(outputs).filter(([name]) => name.startsWith("prediction_"));
  return points.map((_, i) => model.outcome.belief(Object.fromEntries(parts.map(([name, { data: all }]) => {
    const size = all.length / points.length;
    return [name.slice("prediction_".length), all.subarray(i * size, (i + 1) * size)];
  }))));
}

// Of finitely many points those that may be asked: not those that are open while there are others.
function offered({ allowed, open, observations }) {
  if (!allowed.points) return null;
  const taken = [...open.values(), ...(allowed.repeats ? [] : observations.map(([x]) => x))];
  const same = (a, b) => a.every((v, i) => Math.abs(v - b[i]) < 1e-5);
  const free = allowed.points.filter((point) => !taken.some((other) => same(point, other)));
  if (free.length || allowed.repeats) return free.length ? free : allowed.points;
  throw new AlineError(409, `all ${allowed.points.length} designs on offer are measured or open: restrict({ repeats: true }) allows repeats`);
}

async function byScores(model, state, offer, run, generator) {
  const { design } = model, axes = design.names.length, count = state.candidates;
  const drawn = offer ?? (state.allowed.box ? inBox(design, state.allowed.box, count, generator) : design.draw(count, generator));
  let { x, outputs } = await best(drawn, run);
  if (offer || state.allowed.box || axes === 1) return { x, outputs };
  for (let round = 0; round < REFINEMENTS; round++) {
    const spread = 2 / count ** (1 / axes) / 4 ** round, around = Math.floor(count / 4);
    const noise = generator.normal(around * axes);
    const near = Array.from({ length: around }, (_, i) => x.map((v, axis) => Math.fround(clamp(v + spread * noise[i * axes + axis]))));
    ({ x } = await best([x, ...near], run));
  }
  return { x, outputs };
}

async function best(candidates, run) {
  const outputs = await run(candidates);
  const scores = outputs.scores.data;
  let most = 0;
  for (let i = 1; i < candidates.length; i++) if (scores[i] > scores[most]) most = i;
  return { x: candidates[most], outputs };
}

function inBox(design, box, count, generator) {
  const shares = generator.uniform(count * design.names.length);
  return Array.from({ length: count }, (_, row) => design.toNetwork(Object.fromEntries(design.names.map((name, i) => {
    const [low, high] = box[name] ?? [design.low[i], design.high[i]];
    return [name, low + shares[row * design.names.length + i] * (high - low)];
  }))));
}

// A box policy proposes a point and a spread around it: it learned with that spread.
async function byProposal(model, state, offer, run, generator) {
  const outputs = await run([]);
  const { proposal_mean: mean, proposal_log_std: spread } = outputs;
  const noise = generator.normal(mean.data.length);
  const point = Array.from(mean.data, (m, i) => Math.fround(clamp(m + Math.exp(spread.data[i]) * noise[i])));
  const { box } = state.allowed;
  const among = offer ?? (box ? inBox(model.design, box, state.candidates, generator) : null);
  return { x: among ? closest(among, point) : point, outputs };
}

function closest(points, x) {
  const distance = (point) => point.reduce((sum, v, i) => sum + (v - x[i]) ** 2, 0);
  return points.reduce((nearest, point) => (distance(point) < distance(nearest) ? point : nearest));
}

function nearest({ points, values }, x) {
  return { ...values[points.indexOf(closest(points, x))] };
}
