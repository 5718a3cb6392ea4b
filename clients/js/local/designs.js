// Where measurements can be taken: between bounds, or at given points.

import { AlineError } from "../errors.js";

const f32 = Math.fround;

export class DesignSpace {
  constructor({ bounds, points, relative, linear_within }) {
    this.names = Object.keys(bounds);
    this.low = this.names.map((name) => bounds[name][0]);
    this.high = this.names.map((name) => bounds[name][1]);
    this.within = linear_within;
    this.pairs = Object.entries(relative ?? {}).map((pair) => pair.map((name) => this.names.indexOf(name)));
    this.points = points && points.map((row) => this.name(row));
  }

  /** A design in the user's units, as the network sees it. */
  toNetwork(values) {
    const x = this.names.map((name, i) => (2 * (values[name] - this.low[i])) / (this.high[i] - this.low[i]) - 1);
    for (const [axis, to] of this.pairs) {
      const apart = values[this.names[axis]] - values[this.names[to]];
      x[axis] = Math.asinh(apart / this.within) / this.reach(axis, to);
    }
    return x.map(f32);
  }

  /** Back to the user's units, never outside the bounds. */
  toUser(x) {
    const cut = (value, i) => Math.min(Math.max(value, this.low[i]), this.high[i]);
    const span = x.map((v, i) => this.low[i] + ((v + 1) / 2) * (this.high[i] - this.low[i]));
    for (const [axis, to] of this.pairs) {
      span[axis] = cut(span[to], to) + this.within * Math.sinh(x[axis] * this.reach(axis, to));
    }
    return this.name(span.map(cut));
  }

  reach(axis, to) {
    const most = Math.max(this.high[axis] - this.low[to], this.high[to] - this.low[axis]);
    return Math.asinh(most / this.within);
  }

  /** Numbers by name, with as few digits as tell them apart in single precision. */
  name(values) {
    return Object.fromEntries(this.names.map((name, i) => [name, shortest(values[i])]));
  }

  /** Points of the whole space that a generator draws, as the network sees them. */
  draw(count, generator) {
    const width = this.names.length, numbers = generator.uniform(count * width);
    return Array.from({ length: count }, (_, i) => {
      const x = numbers.slice(i * width, (i + 1) * width).map((u) => f32(f32(u * 2) - 1));
      if (!this.pairs.length) return x;
      const plain = x.map((v, axis) => this.low[axis] + ((v + 1) / 2) * (this.high[axis] - this.low[axis]));
      return this.toNetwork(Object.fromEntries(this.names.map((name, axis) => [name, plain[axis]])));
    });
  }

  /** A user's designs, a list an axis, checked: a list of designs. */
  read(designs) {
    const given = designs && typeof designs === "object" ? Object.keys(designs) : [];
    if (given.length !== this.names.length || !this.names.every((name) => given.includes(name))) {
      throw new AlineError(422, `a design must name exactly ${this.names.join(", ")}, got ${given.join(", ") || "nothing"}`);
    }
    const columns = this.names.map((name, i) => this.readAxis(name, i, designs[name]));
    if (new Set(columns.map((column) => column.length)).size > 1) {
      throw new AlineError(422, `all design axes must have one length, got ${columns.map((c) => c.length).join(", ")}`);
    }
    return columns[0].map((_, row) => Object.fromEntries(this.names.map((name, i) => [name, columns[i][row]])));
  }

  /** One design, checked. */
  readOne(design) {
    const found = this.read(design);
    if (found.length !== 1) throw new AlineError(422, `a trial has one design, got ${found.length}: give one number an axis`);
    return found[0];
  }

  readAxis(name, i, value) {
    const column = Array.isArray(value) || ArrayBuffer.isView(value) ? Array.from(value) : [value];
    const slack = 1e-5 * (this.high[i] - this.low[i]);
    const wrong = column.find((v) => !(typeof v === "number" && v >= this.low[i] - slack && v <= this.high[i] + slack));
    if (wrong !== undefined || column.some((v) => v === undefined)) {
      throw new AlineError(422, `${name} must lie in [${this.low[i]}, ${this.high[i]}], got ${JSON.stringify(wrong)}: pass design values in the task's units`);
    }
    return column;
  }
}

/** 0.1, as an author wrote it, not 0.10000000149011612. */
export function shortest(value) {
  const single = f32(value);
  for (let digits = 1; digits < 10; digits++) {
    const short = Number(single.toPrecision(digits));
    if (f32(short) === single) return short;
  }
  return single;
}
