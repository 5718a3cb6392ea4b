// What is known of the parameters, in the user's units.

import { AlineError } from "../errors.js";
import { Mixture } from "./mixtures.js";
import { logVolume } from "./priors.js";

/** One parameter: mean, std and interval are numbers, as the service has them. */
export class Marginal {
  #mixture;
  #scale;
  #quadrature;

  constructor(mixture, scale, quadrature, level) {
    this.#mixture = mixture;
    this.#scale = scale;
    this.#quadrature = quadrature;
    [this.mean, this.std] = mixture.moments(scale.toUser, quadrature);
    this.interval = tails(level).map((p) => this.quantile(p));
  }

  /** The value below which the parameter lies with probability p. */
  quantile(p) {
    if (!(p >= 0 && p <= 1)) throw new AlineError(422, `p must be a probability in [0, 1], got ${p}`);
    if (p === 0 || p === 1) return this.#scale.support[p];
    return this.#scale.toUser(this.#mixture.quantile(p));
  }

  /** Mean and standard deviation of a function of the parameter. */
  moments(work) {
    return this.#mixture.moments((z) => work(this.#scale.toUser(z)), this.#quadrature);
  }

  /** The density at a value, or at each value of a list; 0 outside the support. */
  pdf(value) {
    if (Array.isArray(value) || ArrayBuffer.isView(value)) return Array.from(value, (one) => this.pdf(one));
    const [low, high] = this.#scale.support;
    if (!(value >= low && value <= high)) return 0;
    const z = this.#scale.toNetwork(value);
    return this.#mixture.pdf(z) * Math.exp(-logVolume(this.#scale, z));
  }
}

/** Whether something is what an experiment's `posterior` returned. */
export function isPosterior(value) {
  const parts = value && typeof value === "object" ? Object.values(value) : [];
  return parts.length > 0 && parts.every((one) => one instanceof Marginal);
}

/** The probabilities that a central interval of this level leaves below it and reaches. */
export function tails(level) {
  if (!(level > 0 && level < 1)) throw new AlineError(422, `level must lie between 0 and 1, got ${level}: 0.95 for 95 %`);
  return [(1 - level) / 2, (1 + level) / 2];
}

/** The marginals by name, of a graph's outputs for one experiment. */
export function posteriorOf(model, outputs, level) {
  if (!model.coordinates.length) return {};
  const [log_weight, mean, std] = ["log_weight", "mean", "std"].map((part) => outputs[`posterior_${part}`]);
  const components = mean.shape[2];
  const row = (tensor, i) => tensor.data.subarray(i * components, (i + 1) * components);
  return Object.fromEntries(model.coordinates.map(({ name, scale }, i) => {
    const mixture = Mixture.of({ log_weight: row(log_weight, i), mean: row(mean, i), std: row(std, i) });
    return [name, new Marginal(mixture, scale, model.quadrature, level)];
  }));
}
