// Mixtures of normals: what is believed of a number.

import { erfc, LOG_SQRT_2PI, ndtr, ndtri } from "./normal.js";

const STEPS = 200; // of the search for a quantile, of which it needs ten

/** Weights that sum to one, from their logarithms. */
export function weightsOf(logs) {
  const most = Math.max(...logs), raised = Array.from(logs, (x) => Math.exp(x - most));
  const total = raised.reduce((a, b) => a + b, 0);
  return raised.map((x) => x / total);
}

const dot = (a, b) => a.reduce((total, x, i) => total + x * b[i], 0);

export class Mixture {
  constructor(weights, means, stds) {
    Object.assign(this, { weights, means: Array.from(means), stds: Array.from(stds) });
  }

  /** Of an output's parts: log_weight, mean, std. */
  static of({ log_weight, mean, std }) {
    return new Mixture(weightsOf(log_weight), mean, std);
  }

  /** Several mixtures as one, each with a weight. */
  static averaged(mixtures, weights) {
    const all = (part) => mixtures.flatMap((one) => one[part]);
    return new Mixture(mixtures.flatMap((one, i) => one.weights.map((w) => w * weights[i])), all("means"), all("stds"));
  }

  get mean() {
    return dot(this.weights, this.means);
  }

  get std() {
    const mean = this.mean;
    return Math.sqrt(dot(this.weights, this.means.map((m, i) => (m - mean) ** 2 + this.stds[i] ** 2)));
  }

  /** The probability of at most x. */
  cdf(x) {
    return dot(this.weights, this.means.map((m, i) => ndtr((x - m) / this.stds[i])));
  }

  /** The probability of more than x. */
  beyond(x) {
    return dot(this.weights, this.means.map((m, i) => ndtr((m - x) / this.stds[i])));
  }

  pdf(x) {
    const one = (m, i) => Math.exp(-0.5 * ((x - m) / this.stds[i]) ** 2 - LOG_SQRT_2PI) / this.stds[i];
    return dot(this.weights, this.means.map(one));
  }

  /** Mean and standard deviation of a function of the number, by quadrature. */
  moments(work, [nodes, shares]) {
    const values = this.means.map((m, i) => nodes.map((node) => work(m + this.stds[i] * node)));
    const average = (f) => dot(this.weights, values.map((row) => dot(row.map(f), shares)));
    const mean = average((x) => x);
    return [mean, Math.sqrt(average((x) => (x - mean) ** 2))];
  }

  /** The value that lies above with probability 1 - p, for 0 < p < 1: Newton's method on the probit
   *  of the distribution function, with bisection wherever a step would leave the bracket. */
  quantile(p) {
    const { weights, means, stds } = this, goal = probit(p), widest = 9 * Math.max(...stds);
    let low = Math.min(...means) - widest, high = Math.max(...means) + widest;
    const enough = 1e-3 * Math.min(...stds);
    let z = this.mean + goal * this.std;
    for (let step = 0; step < STEPS && high - low > 1e-6 * enough; step++) {
      if (!(low < z && z < high)) z = (low + high) / 2;
      const away = means.map((m, i) => ((m - z) / stds[i]) * Math.SQRT1_2);
      const reached = probit(dot(weights, away.map(erfc)) / 2);
      if (reached > goal) high = z;
      else low = z;
      const density = weights.reduce((total, w, i) => total + (w / stds[i]) * Math.exp(-(away[i] ** 2)), 0);
      const change = ((reached - goal) * Math.exp(-0.5 * reached ** 2)) / Math.max(density, 1e-300);
      z -= change;
      if (Math.abs(change) < enough) break; // what is left is of the order of the step squared
    }
    return Math.min(Math.max(z, low), high);
  }
}

// Nine standard deviations stand for all that lies beyond.
const probit = (p) => ndtri(Math.min(Math.max(p, 1e-18), 1 - 1e-16));
