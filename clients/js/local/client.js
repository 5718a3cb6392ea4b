// Models in this page, with the interface of a service: local or remote is one line.

import { AlineError } from "../errors.js";
import { LocalExperiment } from "./experiment.js";
import { browserStorage, eventsIn, namesIn } from "./journal.js";

/** `new LocalClient({ psychometric: await load("psychometric/") })`, in place of `new Client(url)`. */
export class LocalClient {
  constructor(models, { storage = browserStorage() } = {}) {
    Object.assign(this, { loaded: models, storage });
  }

  /** The models on offer. */
  async models() {
    return Object.entries(this.loaded).map(([name, model]) => model.describe(name));
  }

  /** The experiments in this browser, by name. */
  async experiments() {
    return namesIn(this.storage).map((name) => summary(name, eventsIn(this.storage, name)));
  }

  /** Start an experiment: { target, horizon, stop, name, seed, metadata }, all optional. */
  async create(model, settings = {}) {
    const { storage } = this, taken = namesIn(storage);
    const free = (number) => (taken.includes(`${model}-${number}`) ? free(number + 1) : `${model}-${number}`);
    return new LocalExperiment(this.modelNamed(model), { name: free(1), ...settings, storage });
  }

  /** An experiment that is there already. */
  async open(name) {
    const [created] = eventsIn(this.storage, name);
    const model = Object.values(this.loaded).find((one) => one.digest === created?.model.digest);
    if (created && !model) throw new AlineError(404, `the model of experiment ${JSON.stringify(name)} is not loaded: load it`);
    return LocalExperiment.resume(model, name, { storage: this.storage });
  }

  modelNamed(name) {
    if (this.loaded[name]) return this.loaded[name];
    throw new AlineError(404, `models are ${Object.keys(this.loaded).join(", ")}, got ${JSON.stringify(name)}`);
  }
}

/** An experiment in a list, from its journal alone. */
function summary(name, [created, ...events]) {
  const told = new Set(), found = { horizon: created.horizon, closed: false };
  for (const event of events) {
    if (event.event === "told") told.add(event.trial);
    if (event.event === "abandoned") told.delete(event.trial);
    if (event.event === "asked") (event.abandons ?? []).forEach((one) => told.delete(one));
    if (event.event === "closed") found.closed = true;
    if (event.event === "changed") found.horizon = event.horizon ?? found.horizon;
  }
  const changed = (events.at(-1) ?? created).time;
  return { name, task: created.task, created: created.time, changed, told: told.size, metadata: created.metadata, problem: null, ...found };
}
