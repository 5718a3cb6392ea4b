// An adaptive experiment that runs in this page, with the methods of one on a service.

import { AlineError } from "../errors.js";
import { choose, predict } from "./choice.js";
import { toCsv } from "./csv.js";
import { browserStorage, eventsIn, Journal } from "./journal.js";
import { checkUnknown, knowledgeWarnings, knownPart, knownValues, priorPart, readKnowledge } from "./knowledge.js";
import { together } from "./outcomes.js";
import { posteriorOf } from "./posterior.js";
import { checkCount, checkNote, readLearnable, readRestriction, readSettings, readStop } from "./settings.js";
import { State } from "./state.js";

const VERSION = 1; // of the journal, as in experiment/journals.py
const now = () => new Date().toISOString();
const quoted = (name) => JSON.stringify(name);

/** Runs trials with a loaded model. With a `name`, every event is in the browser's storage before its
 *  method returns, and `LocalExperiment.resume` goes on after a reload. */
export class LocalExperiment {
  /** Start one: { target, trials, stop, seed, candidates, metadata, known, prior, units, name, storage },
   *  all optional. `known` are values of parameters, { guess: 0.5 }; `prior` priors other than the
   *  task's, { threshold: Normal(-1, 0.4) }, or an earlier posterior; `units` a range of designs. */
  constructor(model, { units, ...settings } = {}) {
    if (units !== undefined) model = model.inUnits(units);
    const { name, storage, ...chosen } = readSettings(model, settings);
    if (name !== undefined && eventsIn(storage, name).length) {
      throw new AlineError(409, `an experiment ${quoted(name)} is there already: go on with it, LocalExperiment.resume, or take another name`);
    }
    const created = {
      event: "created", version: VERSION, aline: model.data.aline, time: now(), task: model.name,
      model: { source: model.data.source ?? null, digest: model.digest, ...(model.units && { units: model.units }) }, ...chosen, standardise: false, noise: null,
    };
    const journal = new Journal(name ?? `${model.name}-1`, name === undefined ? null : storage);
    journal.append(created);
    if (name === undefined) journal.problem = null; // nobody asked to store it
    this.begin(model, journal);
  }

  /** Go on with one in the browser's storage, after a reload. */
  static resume(model, name, { storage = browserStorage() } = {}) {
    const events = eventsIn(storage, name);
    if (!events.length) throw new AlineError(404, `there is no experiment ${quoted(name)} in this browser: start one, new LocalExperiment(model, { name: ${quoted(name)} })`);
    return LocalExperiment.of(model, new Journal(name, storage, events));
  }

  /** Go on with one of that name, or start it. */
  static open(model, settings) {
    const storage = settings.storage ?? browserStorage();
    return eventsIn(storage, settings.name).length ? LocalExperiment.resume(model, settings.name, { storage }) : new LocalExperiment(model, settings);
  }

  /** One that `toJSON` wrote, on any machine; it is kept in memory. */
  static from(model, { name, journal }) {
    const kept = new Journal(name, null, journal);
    kept.problem = null;
    return LocalExperiment.of(model, kept);
  }

  static of(model, journal) {
    const [created] = journal.events;
    if (created.event !== "created" || created.version > VERSION) throw new AlineError(0, `experiment ${quoted(journal.name)} was written by a newer aline: use a newer aline.js`);
    if (created.model.digest !== model.digest) throw new AlineError(409, `experiment ${quoted(journal.name)} was run with another model of task ${quoted(created.task)}: load that one, or start another experiment`);
    const experiment = Object.create(LocalExperiment.prototype), { units } = created.model;
    const trained = model.trained ?? model; // its units are those that the experiment began in
    experiment.begin(units ? trained.inUnits(units) : trained, journal);
    return experiment;
  }

  begin(model, journal) {
    const [created, ...events] = journal.events;
    Object.assign(this, { model, journal, name: journal.name });
    this.state = new State(model, created);
    for (const event of events) this.state.apply(event);
    this.looked = null; // the choice and the posterior after the last event
    this.last = Promise.resolve(); // calls wait for each other
  }

  /** Why answers are not stored, in a sentence for whoever sits there; null where they are. */
  get problem() {
    return this.journal.problem;
  }

  /** The experiment as plain data; `LocalExperiment.from` reads it, and so does Python. */
  toJSON() {
    return { aline: this.model.data.aline, name: this.name, journal: [...this.journal.events] };
  }

  /** Everything about it: told, horizon, finished, target, trials, … */
  status() {
    return this.inTurn(() => this.describe());
  }

  /** The next trial: { number, design, … }. */
  ask() {
    return this.inTurn(async () => {
      await this.checkUnfinished();
      const { design } = await this.look();
      return this.commit({ event: "asked", trial: this.state.trials.length, design });
    });
  }

  /** Record what a trial gave; `design` says where, if not at the design proposed; `note` is an object
   *  of your own that is kept with the trial, such as { rt: 0.41 }. */
  tell(trial, outcome, design, note) {
    return this.inTurn(() => {
      const number = this.existing(trial);
      this.checkState(number, "told", ["asked"]);
      const told = { event: "told", trial: number, outcome: this.model.outcome.read(outcome), ...checkNote(note) };
      const other = design == null ? null : this.model.design.readOne(design);
      const same = other && JSON.stringify(other) === JSON.stringify(this.state.trials[number].design);
      const found = this.commit(other && !same ? { ...told, design: other } : told);
      this.look().catch(() => {}); // while the participant rests; whoever asks hears of a failure
      return found;
    });
  }

  /** Give a trial up; if it was told, its outcome leaves the posterior. */
  abandon(trial) {
    return this.inTurn(() => {
      const number = this.existing(trial);
      this.checkState(number, "abandoned", ["asked", "told"]);
      return this.commit({ event: "abandoned", trial: number });
    });
  }

  /** Ask a trial's design again. */
  redo(trial) {
    return this.inTurn(async () => {
      const number = this.existing(trial), isOpen = this.state.open.has(number);
      await this.checkUnfinished(isOpen);
      const asked = { event: "asked", trial: this.state.trials.length, design: this.state.trials[number].design };
      return this.commit(isOpen ? { ...asked, redo: number } : asked);
    });
  }

  /** Take the last told trial back and ask it again. */
  undo() {
    return this.inTurn(() => {
      const { rows, trials, open } = this.state;
      const last = rows.findLast((number) => trials[number].source === "asked");
      if (last === undefined) throw new AlineError(409, "no trial was told yet: there is nothing to take back");
      const { proposed, design } = trials[last];
      return this.commit({ event: "asked", trial: trials.length, design: proposed ?? design, abandons: [...open.keys(), last] });
    });
  }

  /** Add data measured earlier: a list an axis, and the outcomes in the same order. */
  attach(designs, outcomes) {
    return this.inTurn(() => {
      const { design, outcome } = this.model, first = this.state.trials.length;
      const rows = design.read(designs), values = Array.from(outcomes, (one) => outcome.read(one));
      if (values.length !== rows.length || !values.length) throw new AlineError(422, `attach takes one outcome a design, at least one, got ${rows.length} designs and ${values.length} outcomes`);
      const columns = Object.fromEntries(design.names.map((name) => [name, rows.map((row) => row[name])]));
      this.commit({ event: "attached", designs: columns, outcomes: values, trial: first });
      return structuredClone(this.state.trials.slice(first));
    });
  }

  /** Ask only for { candidates } or within a { box } from now on; with repeats false none twice. */
  restrict(restriction = {}) {
    return this.inTurn(() => this.commit({ event: "restricted", ...readRestriction(this.model, restriction) }));
  }

  /** Aim at something else, plan more or fewer trials, or say what else is known: { target, trials, stop,
   *  known, prior }. `known` and `prior` replace what was said of either before; null is nothing. */
  change({ target, trials, horizon = trials, stop, known, prior }) {
    return this.inTurn(() => {
      const changes = { event: "changed" };
      const knowledge = this.changedKnowledge(known, prior);
      if (target !== undefined) changes.target = readLearnable(this.model, target, knowledge);
      else checkUnknown(knowledge, this.state.target);
      if (known !== undefined || prior !== undefined) changes.prior = knowledge;
      if (horizon !== undefined) changes.horizon = checkCount("trials", horizon);
      if (stop !== undefined) changes.stop = readStop(this.model, stop);
      this.commit(changes);
      return this.describe();
    });
  }

  /** Why not to believe what the model says, a sentence each. Outcomes are not checked against the model
   *  here: Python does that with the exported file. */
  async warnings() {
    const { observations, knowledge } = this.state, { horizon } = this.model.task;
    const beyond = `${observations.length} observations are more than the ${horizon} that the model was trained for: its intervals may be wrong.`;
    return [...(observations.length > horizon ? [beyond] : []), ...knowledgeWarnings(this.model, knowledge)];
  }

  /** What is known of each parameter by itself: name -> { mean, std, interval, quantile(p), pdf(values) }.
   *  How parameters depend on each other is not in the exported graph: Python says it, of the file that
   *  `export` gives. */
  posterior(level = 0.95, refined = false) {
    if (refined) throw new AlineError(422, "refined posteriors need the task's likelihood, which pages do not have: replay the data in Python, experiment.refined()");
    return this.inTurn(async () => posteriorOf(this.model, await this.beliefs(), level));
  }

  /** What would be measured at designs: { mean, std, interval, probabilities }, lists in their order;
   *  of several outcomes { parts }, these for each name. */
  predict(designs, level = 0.95) {
    return this.inTurn(async () => {
      const points = this.model.design.read(designs).map((one) => this.model.design.toNetwork(one));
      const beliefs = await predict(this.model, this.state.data, points);
      return together(beliefs.map((one) => one.summary(level)));
    });
  }

  /** The experiment as the bytes of a file: json or csv. */
  export(format = "json") {
    return this.inTurn(async () => {
      if (format === "csv") return new TextEncoder().encode(toCsv(this.model, this.state.trials, this.journal.events));
      if (format !== "json") throw new AlineError(422, `a page exports json or csv, got ${quoted(format)}`);
      const parameters = posteriorOf(this.model, await this.beliefs(), 0.95);
      const posterior = { sequence: this.journal.events.length, level: 0.95, parameters, correlation: null };
      const everything = { aline: this.model.data.aline, experiment: await this.describe(), posterior, journal: this.journal.events };
      return new TextEncoder().encode(`${JSON.stringify(everything, null, 2)}\n`);
    });
  }

  /** End it for good. */
  close() {
    return this.inTurn(() => {
      if (!this.state.closed) this.commit({ event: "closed" });
      return this.describe();
    });
  }

  // How it works inside.

  inTurn(work) {
    const turn = this.last.then(work);
    this.last = turn.catch(() => {}); // whoever called hears of it; the next call goes on
    return turn;
  }

  changedKnowledge(known, prior) {
    const { model, state: { knowledge } } = this;
    const values = known === undefined ? knownPart(knowledge) : readKnowledge(model, known, null);
    const priors = prior === undefined ? priorPart(knowledge) : readKnowledge(model, null, prior);
    return { ...priors, ...values };
  }

  /** Store an event, then show it. Returns the trial that it is about. */
  commit(event) {
    if (this.state.closed) throw new AlineError(409, `experiment ${quoted(this.name)} is closed: start a new one`);
    const full = { ...event, time: now() };
    this.journal.append(full);
    this.state.apply(full);
    this.looked = null;
    return structuredClone(this.state.trials[event.trial] ?? null);
  }

  /** The next design: it and the posterior share one run of the network. */
  look() {
    this.looked ??= choose(this.model, this.state);
    return this.looked;
  }

  /** What the network says of the data alone. */
  async beliefs() {
    const { open, data, observations, allowed } = this.state;
    const isShared = !open.size && (allowed.repeats || !allowed.points);
    const outputs = isShared ? (await this.look()).outputs : await this.model.run(data, null);
    if (!outputs.posterior_mean?.data.every(Number.isFinite) && this.model.coordinates.length) {
      throw new AlineError(409, `the posterior is not finite after ${observations.length} observations: abandon the trial whose outcome is far beyond all others`);
    }
    return outputs;
  }

  async isNarrow() {
    const widths = Object.entries(this.state.stop);
    if (!widths.length) return false;
    const known = posteriorOf(this.model, await this.beliefs(), 0.95);
    return widths.every(([name, width]) => known[name].interval[1] - known[name].interval[0] < width);
  }

  async describe() {
    const { target, horizon, stop, told, closed, trials, knowledge } = this.state, [created] = this.journal.events;
    return {
      name: this.name, task: this.model.name, model: this.model.name, created: created.time, target, horizon, stop, known: knownValues(knowledge), told,
      finished: closed || told >= horizon || (await this.isNarrow()), closed, metadata: created.metadata,
      sequence: this.journal.events.length, trials: structuredClone(trials),
    };
  }

  async checkUnfinished(replacing = false) {
    const { told, horizon, open, closed } = this.state, name = quoted(this.name);
    if (closed) throw new AlineError(409, `experiment ${name} is closed: start a new one`);
    if (told >= horizon) throw new AlineError(409, `experiment ${name} is finished, ${told} of ${horizon} trials are told: change({ trials }) to go on`);
    if (told + open.size - (replacing ? 1 : 0) >= horizon) {
      throw new AlineError(409, `the last of ${horizon} trials are open (${[...open.keys()].join(", ")}): tell or abandon them, or change({ trials })`);
    }
    if (await this.isNarrow()) throw new AlineError(409, `experiment ${name} is finished, its stopping rule holds: change({ stop: {} }) to go on`);
  }

  existing(trial) {
    const number = typeof trial === "number" ? trial : trial?.number;
    const { trials } = this.state;
    if (!Number.isInteger(number)) throw new AlineError(422, `a trial is what ask() returned or its number, got ${JSON.stringify(trial)}`);
    if (trials[number]) return number;
    throw new AlineError(404, trials.length ? `trials are numbered from 0 to ${trials.length - 1}, got ${number}` : `there are no trials yet, got ${number}: ask() first`);
  }

  checkState(number, verb, allowed) {
    const now = this.state.trials[number].state;
    if (!allowed.includes(now)) throw new AlineError(409, `trial ${number} cannot be ${verb}, it is ${now} already; open trials: ${[...this.state.open.keys()].join(", ") || "none"}`);
  }
}
