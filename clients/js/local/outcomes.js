// What a measurement returns, by kind: how it is checked, shown to the network, and predicted.
//
// A kind has `read(value)`, one outcome as plain data or a refusal; `toNetwork(plain)`, numbers; and
// `belief(parts)`, of a graph's outputs at one point, which can be asked what to `expect()` on the
// network's scale and for a `summary(level)` in the user's units.

import { AlineError } from "../errors.js";
import { Mixture, weightsOf } from "./mixtures.js";
import { tails } from "./posterior.js";

const shown = (value) => JSON.stringify(value) ?? String(value);
const refuse = (message) => { throw new AlineError(422, message); };
const dot = (a, b) => a.reduce((total, x, i) => total + x * b[i], 0);
const NOTHING = { mean: null, std: null, interval: null, probabilities: null };

/** The outcome that plain data describe; `model` has the quadrature and how far numbers reach. */
export function outcomeOf(data, model, name = "outcome") {
  const make = KINDS[data.kind];
  if (!make) throw new AlineError(0, `this aline.js does not know outcomes of kind ${shown(data.kind)}: take a newer one`);
  return make(data, model, name);
}

const KINDS = {
  binary: () => new Binary(),
  categorical: (data) => new Labelled(data.labels, null),
  ordinal: (data) => new Labelled(data.levels, data.levels.map((one, i) => (typeof one === "string" ? i + 1 : one))),
  real: (data, model, name) => new Real(data, model, name),
  count: (data) => new Count(data),
  several: (data, model) => new Several(data, model),
};

/** A list of summaries, one a point, as a summary of lists. */
export function together(summaries) {
  const [first] = summaries;
  if (first.parts) {
    const names = Object.keys(first.parts);
    return { parts: Object.fromEntries(names.map((name) => [name, together(summaries.map((one) => one.parts[name]))])) };
  }
  const column = (key) => (first[key] === null ? null : summaries.map((one) => one[key]));
  const labels = first.probabilities && Object.keys(first.probabilities);
  const probabilities = labels && Object.fromEntries(labels.map((l) => [l, summaries.map((one) => one.probabilities[l])]));
  return { mean: column("mean"), std: column("std"), interval: column("interval"), probabilities };
}

// Of finitely many values, in the order in which the network counts them.

class Finite {
  constructor(kind, weights) {
    Object.assign(this, { kind, weights });
  }

  expect() {
    return this.kind.values[this.weights.indexOf(Math.max(...this.weights))];
  }

  summary(level) {
    const { labels, numbers, hasInterval } = this.kind, { weights } = this;
    const probabilities = labels && Object.fromEntries(labels.map((label, i) => [label, weights[i]]));
    if (!numbers) return { ...NOTHING, probabilities };
    const mean = dot(weights, numbers);
    const std = Math.sqrt(dot(weights, numbers.map((x) => (x - mean) ** 2)));
    return { mean, std, interval: hasInterval ? tails(level).map((p) => this.quantile(p)) : null, probabilities };
  }

  quantile(p) {
    let reached = 0;
    const place = this.weights.findIndex((w) => (reached += w) >= p);
    return this.kind.numbers[place < 0 ? this.weights.length - 1 : place];
  }
}

class Binary {
  labels = ["no", "yes"];
  numbers = [0, 1];
  values = [-1, 1];
  hasInterval = false;

  read(value) {
    const number = typeof value === "boolean" ? Number(value) : value;
    if (number !== 0 && number !== 1) refuse(`a binary outcome must be 0 or 1 (or false or true), got ${shown(value)}`);
    return number;
  }

  toNetwork(plain) {
    return [2 * plain - 1];
  }

  belief({ logit }) {
    const yes = 1 / (1 + Math.exp(-logit[0]));
    return new Finite(this, [1 - yes, yes]);
  }

  averaged(beliefs, weights) {
    return averagedFinite(this, beliefs, weights);
  }
}

/** One of several labels, or a level of several in order, which have numbers. */
class Labelled {
  hasInterval = true;

  constructor(levels, numbers) {
    this.levels = levels;
    this.labels = levels.map(String);
    this.numbers = numbers;
    this.values = levels.map((_, i) => i);
  }

  read(value) {
    const first = this.numbers ? 1 : 0; // levels count from 1, labels from 0
    let place = this.levels.indexOf(value);
    if (place < 0 && typeof this.levels[0] === "string" && Number.isInteger(value)) place = value - first;
    if (!(place >= 0 && place < this.levels.length)) {
      refuse(`an outcome must be one of ${this.labels.join(", ")}, got ${shown(value)}: use one of these`);
    }
    return this.levels[place];
  }

  toNetwork(plain) {
    return [this.levels.indexOf(plain)];
  }

  belief({ log_weight }) {
    return new Finite(this, weightsOf(log_weight));
  }

  averaged(beliefs, weights) {
    return averagedFinite(this, beliefs, weights);
  }
}

function averagedFinite(kind, beliefs, weights) {
  return new Finite(kind, kind.values.map((_, i) => dot(weights, beliefs.map((one) => one.weights[i]))));
}

// Numbers.

class Real {
  constructor({ loc, scale, linear_within: within, limits }, { quadrature, reach }, name) {
    Object.assign(this, { loc, scale, within, limits, quadrature, reach: limits ?? reach[name] });
    this.cut = limits ? limits.map((limit) => this.toNetwork(limit)[0]) : [-Infinity, Infinity];
  }

  read(value) {
    if (typeof value !== "number" || !Number.isFinite(value)) {
      refuse(`an outcome must be a finite number, got ${shown(value)}: abandon the trial if it was not measured`);
    }
    const [low, high] = this.reach, slack = this.limits ? 1e-5 * (high - low) : 0;
    if (value < low - slack || value > high + slack) {
      refuse(`an outcome of this task must lie in [${low}, ${high}], got ${value}: check its units, or abandon the trial`);
    }
    return Math.min(Math.max(value, low), high);
  }

  toNetwork(plain) {
    const bent = this.within == null ? plain : Math.asinh(plain / this.within);
    return [(bent - this.loc) / this.scale];
  }

  toUser(y) {
    const bent = this.loc + this.scale * y;
    return this.within == null ? bent : this.within * Math.sinh(bent);
  }

  clamp(y) {
    return Math.min(Math.max(y, this.cut[0]), this.cut[1]);
  }

  belief(parts) {
    return new Measured(this, Mixture.of(parts));
  }

  averaged(beliefs, weights) {
    return new Measured(this, Mixture.averaged(beliefs.map((one) => one.mixture), weights));
  }
}

class Measured {
  constructor(kind, mixture) {
    Object.assign(this, { kind, mixture });
  }

  expect() {
    return this.kind.clamp(this.mixture.mean);
  }

  summary(level) {
    const { kind, mixture } = this;
    const [mean, std] = mixture.moments((y) => kind.toUser(kind.clamp(y)), kind.quadrature);
    return { mean, std, interval: tails(level).map((p) => kind.toUser(kind.clamp(mixture.quantile(p)))), probabilities: null };
  }
}

const SINGLE = 64, GROWTH = 1.07, MOST = 1e9; // cells of counts, as spaces/outcomes/count.py has them

class Count {
  hasInterval = true;

  constructor({ maximum }) {
    this.maximum = maximum ?? null;
    this.numbers = this.values = maximum == null ? null : Array.from({ length: maximum + 1 }, (_, i) => i);
    this.cells = cellsUpTo(maximum ?? MOST);
  }

  read(value) {
    if (!Number.isInteger(value) || value < 0) refuse(`a count must be a whole number, at least 0, got ${shown(value)}`);
    if (this.maximum !== null && value > this.maximum) {
      refuse(`a count must be at most ${this.maximum}, got ${value}: more than the maximum is reported as the maximum`);
    }
    return value;
  }

  toNetwork(plain) {
    return [plain];
  }

  /** The count that log(1 + count) falls to. */
  countOf(latent) {
    return Math.min(Math.max(Math.floor(Math.expm1(latent) + 0.5), 0), this.maximum ?? Infinity);
  }

  belief(parts) {
    return new Counted(this, Mixture.of(parts));
  }

  averaged(beliefs, weights) {
    return new Counted(this, Mixture.averaged(beliefs.map((one) => one.mixture), weights));
  }
}

class Counted {
  constructor(kind, mixture) {
    Object.assign(this, { kind, mixture });
  }

  expect() {
    return this.kind.countOf(this.mixture.mean);
  }

  summary(level) {
    const [values, edges] = this.kind.cells;
    const below = [0, ...edges.map((edge) => this.mixture.cdf(edge))];
    const weights = edges.map((_, i) => Math.max(below[i + 1] - below[i], 0));
    weights.push(this.mixture.beyond(edges.at(-1))); // one less a sum would be rounding times a billion squared
    const mean = dot(weights, values), std = Math.sqrt(dot(weights, values.map((x) => (x - mean) ** 2)));
    return { mean, std, interval: tails(level).map((p) => this.kind.countOf(this.mixture.quantile(p))), probabilities: null };
  }
}

/** Counts that stand for cells, and log(1 + count) at the edges between them. */
function cellsUpTo(last) {
  const starts = Array.from({ length: Math.min(last, SINGLE) + 1 }, (_, i) => i);
  while (starts.at(-1) < last) starts.push(Math.min(last, Math.max(starts.at(-1) + 1, Math.trunc(GROWTH * starts.at(-1)))));
  const values = starts.map((start, i) => (i + 1 < starts.length ? (start + starts[i + 1] - 1) / 2 : start));
  return [values, starts.slice(1).map((start) => Math.log(start + 0.5))];
}

// Several by name.

const COMBINATIONS = 16; // of finite parts for which the others are believed one by one

class Several {
  constructor({ parts }, model) {
    this.names = Object.keys(parts);
    this.parts = Object.fromEntries(this.names.map((name) => [name, outcomeOf(parts[name], model, name)]));
    const finite = this.names.filter((name) => this.parts[name].values);
    const count = finite.reduce((product, name) => product * this.parts[name].values.length, 1);
    this.tied = count <= COMBINATIONS ? finite : [];
    this.rest = this.names.filter((name) => !this.tied.includes(name));
    this.combinations = this.tied.reduce(
      (rows, name) => rows.flatMap((row) => this.parts[name].values.map((value) => ({ ...row, [name]: value }))), [{}],
    );
  }

  read(value) {
    const given = value && typeof value === "object" ? Object.keys(value) : null;
    if (!given || given.length !== this.names.length || !this.names.every((name) => given.includes(name))) {
      refuse(`an outcome must be an object with ${this.names.join(", ")}, got ${shown(value)}`);
    }
    return Object.fromEntries(this.names.map((name) => [name, this.readPart(name, value[name])]));
  }

  readPart(name, value) {
    try {
      return this.parts[name].read(value);
    } catch (error) {
      throw new AlineError(error.status, `${name}: ${error.message}`);
    }
  }

  toNetwork(plain) {
    return this.names.flatMap((name) => this.parts[name].toNetwork(plain[name]));
  }

  /** `parts` holds log_weight of the combinations, and "NAME.mean" and so on, a combination after another. */
  belief(parts) {
    const weights = weightsOf(parts.log_weight), count = weights.length;
    const given = Object.fromEntries(this.rest.map((name) => [name, weights.map((_, i) => {
      const own = Object.entries(parts).filter(([key]) => key.startsWith(`${name}.`));
      const share = (values) => values.subarray((i * values.length) / count, ((i + 1) * values.length) / count);
      return this.parts[name].belief(Object.fromEntries(own.map(([key, values]) => [key.slice(name.length + 1), share(values)])));
    })]));
    return new Joint(this, weights, given);
  }
}

class Joint {
  constructor(kind, weights, given) {
    Object.assign(this, { kind, weights, given });
  }

  expect() {
    const likeliest = this.weights.indexOf(Math.max(...this.weights)), { kind } = this;
    return kind.names.map((name) => (name in this.given ? this.given[name][likeliest].expect() : kind.combinations[likeliest][name]));
  }

  summary(level) {
    return { parts: Object.fromEntries(this.kind.names.map((name) => [name, this.part(name).summary(level)])) };
  }

  /** What is believed of one part, whatever the others are. */
  part(name) {
    const kind = this.kind.parts[name];
    if (name in this.given) return kind.averaged(this.given[name], this.weights);
    const share = (value) => this.weights.reduce((sum, w, i) => sum + (this.kind.combinations[i][name] === value ? w : 0), 0);
    return new Finite(kind, kind.values.map(share));
  }
}
