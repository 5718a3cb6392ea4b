// A model that `aline export MODEL --web FOLDER` wrote.

import { AlineError } from "../errors.js";
import { DesignSpace } from "./designs.js";
import { outcomeOf } from "./outcomes.js";
import { scaleOf } from "./priors.js";
import { crc32 } from "./random.js";
import { startRuntime } from "./threads.js";

const FORMAT = 1;
const GRAPH = "graph.onnx";
const TRIES = 3;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Load a folder. `read(name)` gives a file's bytes where they do not come from the web; with
 *  `worker: false` the network runs in the page's own thread. */
export async function load(folder, { read, worker = true } = {}) {
  const take = read ?? ((name) => download(new URL(name, folderUrl(folder))));
  const data = readDescription(await take("model.json"), folder);
  const bytes = await take(GRAPH);
  const expected = data.files[GRAPH];
  if (bytes.length !== expected.bytes || crc32(bytes) !== expected.crc32) {
    throw new AlineError(0, `${folder}${GRAPH} is not the file that model.json was written with (${bytes.length} of ${expected.bytes} bytes): reload the page; if that does not help, export the model again and upload the whole folder`);
  }
  return new Model(data, await startRuntime(bytes, worker));
}

const folderUrl = (folder) => new URL(folder.endsWith("/") ? folder : `${folder}/`, globalThis.location?.href);

async function download(url) {
  for (let left = TRIES - 1, wait = 300; ; left--, wait *= 3) {
    let failure;
    try {
      const reply = await fetch(url);
      if (reply.ok) return new Uint8Array(await reply.arrayBuffer());
      failure = new AlineError(reply.status, `${url} is not there (${reply.status}): aline export MODEL --web writes it, and the whole folder must be uploaded`);
      if (reply.status < 500) throw failure;
    } catch (error) {
      if (error instanceof AlineError) throw error;
      failure = new AlineError(0, `${url} could not be downloaded (${error.message}): check the connection and reload the page`);
    }
    if (!left) throw failure;
    await pause(wait);
  }
}

function readDescription(bytes, folder) {
  let data;
  try {
    data = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw new AlineError(0, `${folder}model.json is no JSON: it was cut off, or is another file; reload the page, or export the model again`);
  }
  if (typeof data.format !== "number" || !data.task) {
    throw new AlineError(0, `${folder}model.json is not what aline export MODEL --web writes: export the model again`);
  }
  if (data.format !== FORMAT) {
    throw new AlineError(0, `${folder} was written by aline ${data.aline} in format ${data.format}, and this aline.js reads format ${FORMAT}: use the aline folder that was exported with it`);
  }
  return data;
}

/** Everything about a model that does not change. */
export class Model {
  constructor(data, runtime) {
    const { task, policy, digest, form, spread, quadrature, reach } = data;
    Object.assign(this, { data, task, policy, digest, form, spread, quadrature, reach, runtime });
    if (runtime.metadata.digest !== digest) {
      throw new AlineError(0, "graph.onnx and model.json are of different models: export the model again and upload the whole folder");
    }
    this.name = task.name;
    this.design = new DesignSpace(task.design);
    this.outcome = outcomeOf(task.outcome, this);
    this.coordinates = data.coordinates.map((one) => ({ ...one, scale: scaleOf(one.scale) }));
  }

  /** How to ask for an outcome, and what else a page wants to know, as the service's list of models. */
  describe(name = this.name) {
    const { design, task } = this;
    const axes = design.names.map((axis, i) => ({ name: axis, unit: task.units?.[axis] ?? null, low: design.low[i], high: design.high[i] }));
    const targets = task.targets.map(([names]) => names);
    return { name, parameters: Object.keys(task.parameters), axes, outcome: task.outcome.kind, form: this.form, horizon: task.horizon, targets, can_simulate: false, facts: {} };
  }

  /** Whether values may be known, and priors chosen, at run time. */
  get takesPriors() {
    return this.runtime.inputs.includes("prior");
  }

  /** The same model for another range of designs, { stimulus: [-40, 0] }, with parameters in the same
   *  units: for tasks that are the same on any axis. */
  inUnits(ranges) {
    const { in_units: units, task } = this.data, [[axis, ends] = []] = Object.entries(ranges ?? {});
    if (!units || Object.keys(ranges ?? {}).join() !== units.axis) {
      throw new AlineError(422, `units are for a task whose axis may have any range, as detection's stimulus, got ${Object.keys(ranges ?? {}).join(", ") || "nothing"} for ${this.name}: train it with the range that you need`);
    }
    const [low, high] = Array.isArray(ends) ? ends.map(Number) : [];
    if (!(low < high)) throw new AlineError(422, `a range goes from low to high, got ${JSON.stringify(ends)} for ${axis}`);
    const bounds = { ...task.design.bounds, [axis]: [low, high] };
    const coordinates = this.data.coordinates.map((one) => {
      const follows = units.bounds[one.name];
      if (!follows) return one;
      const [first, last] = follows.map(([a, b]) => Math.fround(a * low + b * high));
      return { ...one, scale: { ...one.scale, low: first, high: last } };
    });
    const found = new Model({ ...this.data, coordinates, task: { ...task, design: { ...task.design, bounds } } }, this.runtime);
    return Object.assign(found, { units: { [axis]: [low, high] }, trained: this.trained ?? this });
  }

  /** One run: data as { observations, prior } on the network's scale, a goal, points, candidates. */
  run(data, goal, points = [], candidates = []) {
    return this.runtime.run(this.inputs(data, goal, points, candidates));
  }

  // No axis of a graph may be empty: where there is nothing, one row that a mask hides.
  inputs({ observations, prior }, goal, points, candidates) {
    const axes = this.design.names.length;
    const event = this.outcome.names?.length ?? 1;
    const known = Math.max(1, observations.length);
    const wanted = points.length ? points : goal?.points ?? [];
    const given = {
      designs: tensor([1, known, axes], observations.map(([x]) => x)),
      outcomes: tensor(this.outcome.names ? [1, known, event] : [1, known], observations.map(([, y]) => y)),
      mask: tensor([1, known], observations.map(() => 1)),
      points: tensor([1, Math.max(1, wanted.length), axes], wanted),
      points_mask: tensor([1, Math.max(1, wanted.length)], wanted.map(() => 1)),
      parameters: tensor([1, this.coordinates.length], goal ? goal.parameters.map(Number) : []),
      candidates: tensor([1, Math.max(1, candidates.length), axes], candidates),
      prior: tensor([1, this.coordinates.length, 2], prior),
    };
    return Object.fromEntries(this.runtime.inputs.map((name) => [name, given[name]]));
  }
}

function tensor(shape, rows) {
  const data = new Float64Array(shape.reduce((a, b) => a * b, 1));
  data.set(rows.flat());
  return { shape, data };
}
