// Run adaptive experiments on an aline service from a browser, or from Node 18 and newer.
//
//   import { Client } from "./aline.js";
//   const experiment = await new Client("http://127.0.0.1:8000").create("psychometric");
//   while (!(await experiment.status()).finished) {
//     const trial = await experiment.ask(); // trial.design.stimulus
//     await experiment.tell(trial, await respond(trial.design.stimulus));
//   }
//   const { threshold } = await experiment.posterior(); // { mean, std, interval }
//
// When the service does not answer, or its answer is cut short, a call is repeated with the same key
// until it does: it counts once, so nothing is lost and nothing is doubled. A page of another site
// needs `aline serve --origin https://that.site`.

import { AlineError } from "./errors.js";

// No whole reply; too many at once; a proxy whose service is away, restarts, or is slow.
const WORTH_REPEATING = [0, 429, 502, 503, 504];

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function newKey() {
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// A page says how many trials, as LocalExperiment has it; a service says horizon.
const withHorizon = ({ trials, ...settings }) => (trials === undefined ? settings : { horizon: trials, ...settings });

const numberOf = (trial) => (typeof trial === "number" ? trial : trial.number);

/** A service. `patience` is how many milliseconds to repeat a call that gets no reply. */
export class Client {
  constructor(url = "http://127.0.0.1:8000", { token = null, timeout = 10000, patience = 30000 } = {}) {
    this.url = `${url.replace(/\/+$/, "")}/api/v1`;
    Object.assign(this, { token, timeout, patience });
  }

  /** The models on offer. */
  async models() {
    return (await this.call("GET", "/models")).models;
  }

  /** The experiments, the newest first. */
  async experiments({ start = 0, limit = 50 } = {}) {
    return (await this.call("GET", `/experiments?start=${start}&limit=${limit}`)).experiments;
  }

  /** Start an experiment: { target, trials, stop, name, seed, metadata, known, prior, units }, all optional. */
  async create(model, settings = {}) {
    const { name } = await this.call("POST", "/experiments", { model, ...withHorizon(settings) });
    return new Experiment(this, name);
  }

  /** An experiment that is there already. */
  async open(name) {
    const experiment = new Experiment(this, name);
    await experiment.status(); // says so if it is not
    return experiment;
  }

  async call(method, path, body, raw = false) {
    const headers = { Accept: "application/json" };
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    const options = { method, headers };
    if (method !== "GET") {
      headers["Content-Type"] = "application/json";
      headers["Idempotency-Key"] = newKey();
      options.body = JSON.stringify(body ?? {});
    }
    return this.repeat(this.url + path, options, raw);
  }

  async repeat(url, options, raw) {
    const giveUp = Date.now() + this.patience;
    for (let wait = 100; ; wait = Math.min(2 * wait, 2000)) {
      let failure;
      try {
        const reply = await fetch(url, { ...options, signal: AbortSignal.timeout(this.timeout) });
        if (reply.ok) return raw ? new Uint8Array(await reply.arrayBuffer()) : await reply.json();
        const { detail } = await reply.json().catch(() => ({}));
        failure = new AlineError(reply.status, detail ?? reply.statusText);
      } catch (error) {
        failure = new AlineError(0, `the service does not answer (${error.message})`);
      }
      if (!WORTH_REPEATING.includes(failure.status) || Date.now() + wait > giveUp) throw failure;
      await pause(wait);
    }
  }
}

/** One experiment of a service. */
export class Experiment {
  constructor(client, name) {
    this.client = client;
    this.name = name;
    this.path = `/experiments/${encodeURIComponent(name)}`;
  }

  /** Everything about it: told, horizon, finished, target, trials, … */
  status() {
    return this.client.call("GET", this.path);
  }

  /** Aim at something else, plan more or fewer trials, or say what else is known: { target, trials, stop,
   *  known, prior }. `known` and `prior` replace what was said of either before; null is nothing. */
  change(settings) {
    return this.client.call("PATCH", this.path, withHorizon(settings));
  }

  /** The next trial: { number, design, … }. */
  ask() {
    return this.post("/ask");
  }

  /** Record what a trial gave: 0 or 1, a number, a label, or an object of several by name, as the
   *  model's `form` says; `design` says where, if not at the design proposed; `note` is an object
   *  of your own that is kept with the trial, such as { rt: 0.41 }. */
  tell(trial, outcome, design, note) {
    return this.post(`/trials/${numberOf(trial)}/tell`, { outcome, design, note });
  }

  /** Give a trial up; if it was told, its outcome leaves the posterior. */
  abandon(trial) {
    return this.post(`/trials/${numberOf(trial)}/abandon`);
  }

  /** Ask a trial's design again. */
  redo(trial) {
    return this.post(`/trials/${numberOf(trial)}/redo`);
  }

  /** Take the last told trial back and ask it again. */
  undo() {
    return this.post("/undo");
  }

  /** Add data measured earlier: a list an axis, and the outcomes in the same order. */
  async attach(designs, outcomes) {
    return (await this.post("/attach", { designs, outcomes })).trials;
  }

  /** Ask only for { candidates }, or in a { box }, from now on; {} is anywhere again. */
  restrict(restriction = {}) {
    return this.post("/restrict", restriction);
  }

  /** What is known: name -> { mean, std, interval }. */
  async posterior(level = 0.95, refined = false) {
    const path = `${this.path}/posterior?level=${level}&refined=${refined}`;
    return (await this.client.call("GET", path)).parameters;
  }

  /** Why not to believe it, a sentence each: outcomes that do not fit the model, and such. */
  async warnings() {
    return (await this.client.call("GET", `${this.path}/posterior`)).warnings;
  }

  /** What would be measured at designs: { mean, std, interval }, lists in their order; of labels
   *  { probabilities }, a list for each; of several outcomes { parts }, these for each name. */
  predict(designs, level = 0.95) {
    return this.post("/predict", { designs, level });
  }

  /** The experiment as the bytes of a file: json, csv or netcdf. */
  export(format = "json") {
    return this.client.call("GET", `${this.path}/export?format=${format}`, undefined, true);
  }

  /** End it for good. */
  close() {
    return this.post("/close");
  }

  post(path, body) {
    return this.client.call("POST", this.path + path, body);
  }
}
