// An experiment as its journal of events leaves it. Events are those of Python's journals.

import { AlineError } from "../errors.js";
import { goalOf } from "./goals.js";
import { networkPrior } from "./knowledge.js";

const HANDLERS = {
  asked: "ask", told: "tell", attached: "attach", abandoned: "abandon", restricted: "restrict", changed: "change", closed: "close",
};

export class State {
  constructor(model, created) {
    this.model = model;
    this.trials = [];
    this.rows = []; // the trial of each observation
    this.observations = []; // [design, outcome] each, on the network's scale
    this.open = new Map(); // the number of a trial -> its design, on the network's scale
    this.closed = false;
    Object.assign(this, { seed: created.seed, candidates: created.candidates });
    this.restrict({ candidates: null, box: null, repeats: true });
    this.change({ prior: {}, ...created });
  }

  /** What the network reads, on its scale. */
  get data() {
    return { observations: this.observations, prior: this.prior };
  }

  /** Trials that count towards the horizon. */
  get told() {
    return this.rows.filter((number) => this.trials[number].source === "asked").length;
  }

  /** Take in one more event. */
  apply(event) {
    const handler = HANDLERS[event.event];
    if (!handler) throw new AlineError(0, `the journal holds an event ${JSON.stringify(event.event)} that this aline.js does not know: use a newer one`);
    this[handler](event);
  }

  ask({ design, redo, abandons = [] }) {
    for (const other of redo === undefined ? abandons : [redo]) this.abandon({ trial: other });
    const number = this.trials.length;
    this.trials.push({ number, state: "asked", source: "asked", design: { ...design }, proposed: null, outcome: null, note: null });
    this.open.set(number, this.model.design.toNetwork(design));
  }

  tell({ trial: number, outcome, design, note = null }) {
    const trial = this.trials[number];
    const x = design ? this.model.design.toNetwork(design) : this.open.get(number);
    Object.assign(trial, { outcome, note, state: "told" }, design && { proposed: trial.design, design: { ...design } });
    this.open.delete(number);
    this.observe(number, outcome, x);
  }

  observe(number, outcome, x) {
    this.rows.push(number);
    this.observations.push([x, this.model.outcome.toNetwork(outcome).map(Math.fround)]);
  }

  attach({ designs, outcomes }) {
    const { design } = this.model;
    outcomes.forEach((outcome, i) => {
      const number = this.trials.length;
      const own = Object.fromEntries(design.names.map((name) => [name, designs[name][i]]));
      this.trials.push({ number, state: "told", source: "attached", design: own, proposed: null, outcome, note: null });
      this.observe(number, outcome, design.toNetwork(own));
    });
  }

  abandon({ trial }) {
    this.trials[trial].state = "abandoned";
    if (this.open.delete(trial)) return;
    const row = this.rows.indexOf(trial);
    this.rows.splice(row, 1);
    this.observations.splice(row, 1);
  }

  restrict({ candidates, box, repeats }) {
    const { design } = this.model;
    const values = candidates ? design.read(candidates) : design.points;
    const within = (value) => design.names.every((name) => !box?.[name] || (value[name] >= box[name][0] && value[name] <= box[name][1]));
    const kept = values?.filter(within);
    this.allowed = { box, repeats, values: kept, points: kept?.map((value) => design.toNetwork(value)) };
  }

  change({ target, horizon, stop, prior }) {
    if (target !== undefined) Object.assign(this, { target, goal: goalOf(this.model, target) });
    if (horizon !== undefined) this.horizon = horizon;
    if (stop !== undefined) this.stop = stop;
    if (prior !== undefined) Object.assign(this, { knowledge: prior, prior: networkPrior(this.model, prior) });
  }

  close() {
    this.closed = true;
  }
}
