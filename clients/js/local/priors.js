// The scales on which every prior is a standard normal, and back: docs/notes/scales.md.

import { LOG_SQRT_2PI, ndtr, ndtri } from "./normal.js";

const TAIL = 1e-7; // beyond, single precision cannot tell a probability from 0 or 1
const BENT = {
  log: { bend: Math.log, unbend: Math.exp },
  logit: { bend: (x) => Math.log(x / (1 - x)), unbend: (y) => 1 / (1 + Math.exp(-y)) },
};

const inside = (x, low, high) => Math.min(Math.max(x, low), high);

/** { support, toUser(z), toNetwork(theta), logPrior(theta) } of plain data. */
export const scaleOf = (data) => SCALES[data.kind](data);

const SCALES = {
  uniform: ({ low, high }) => ({
    support: [low, high],
    toUser: (z) => inside(low + (high - low) * ndtr(z), low, high),
    toNetwork: (theta) => ndtri(inside((theta - low) / (high - low), TAIL, 1 - TAIL)),
    logPrior: () => -Math.log(high - low),
  }),
  normal: ({ loc, scale }) => ({
    support: [-Infinity, Infinity],
    toUser: (z) => loc + scale * z,
    toNetwork: (theta) => (theta - loc) / scale,
    logPrior: (theta) => -0.5 * ((theta - loc) / scale) ** 2 - LOG_SQRT_2PI - Math.log(scale),
  }),
  lognormal: ({ loc, scale }) => ({
    support: [0, Infinity],
    toUser: (z) => Math.exp(loc + scale * z),
    toNetwork: (theta) => (Math.log(Math.max(theta, 1e-30)) - loc) / scale,
    logPrior: (theta) =>
      -0.5 * ((Math.log(theta) - loc) / scale) ** 2 - LOG_SQRT_2PI - Math.log(scale) - Math.log(theta),
  }),
  table: ({ support: [low, high], bent, z, quantiles, density }) => ({
    support: [low, high ?? Infinity],
    toUser: (at) => BENT[bent].unbend(interpolate(at, z, quantiles)),
    toNetwork: (theta) => interpolate(BENT[bent].bend(theta), quantiles, z),
    logPrior: (x) => {
      const rest = density.log_rest ? density.log_rest * Math.log1p(-x) : 0;
      return density.log * Math.log(x) + rest + density.linear * x + density.square * x * x + density.constant;
    },
  }),
};

function interpolate(x, knots, values) {
  let low = 0, high = knots.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (knots[middle] < x) low = middle;
    else high = middle;
  }
  const share = (inside(x, knots[0], knots.at(-1)) - knots[low]) / (knots[high] - knots[low]);
  return values[low] + share * (values[high] - values[low]);
}

/** Log |d theta / d z|: subtract it from a log density in z to get one in the user's units. */
export function logVolume(scale, z) {
  return -0.5 * z * z - LOG_SQRT_2PI - scale.logPrior(scale.toUser(z));
}

// Priors that are chosen for an experiment, as plain data with torch's names for their numbers.

/** The numbers of each family. */
export const FAMILIES = {
  Uniform: ["low", "high"],
  Normal: ["loc", "scale"],
  LogNormal: ["loc", "scale"],
  Beta: ["concentration1", "concentration0"],
  Gamma: ["concentration", "rate"],
  Exponential: ["rate"],
  HalfNormal: ["scale"],
};

const maker = (family) => (...numbers) => ({ family, ...Object.fromEntries(FAMILIES[family].map((field, i) => [field, numbers[i]])) });
export const Uniform = maker("Uniform"), Normal = maker("Normal"), LogNormal = maker("LogNormal"), Beta = maker("Beta");
export const Gamma = maker("Gamma"), Exponential = maker("Exponential"), HalfNormal = maker("HalfNormal");

const QUANTILES = {
  Uniform: ({ low, high }) => (p) => low + (high - low) * p,
  Normal: ({ loc, scale }) => (p) => loc + scale * ndtri(p),
  LogNormal: ({ loc, scale }) => (p) => Math.exp(loc + scale * ndtri(p)),
  Exponential: ({ rate }) => (p) => -Math.log1p(-p) / rate,
  HalfNormal: ({ scale }) => (p) => scale * ndtri((1 + p) / 2),
  // On the logit's and the logarithm's axis, where both are smooth and have one peak.
  Beta: ({ concentration1: a, concentration0: b }) =>
    tabulated((u) => -a * Math.log1p(Math.exp(-u)) - b * Math.log1p(Math.exp(u)), Math.log(a / b), BENT.logit.unbend),
  Gamma: ({ concentration: a, rate }) => tabulated((u) => a * u - rate * Math.exp(u), Math.log(a / rate), Math.exp),
};

/** The values below which a prior has the shares `levels` of its mass. */
export const quantilesOf = (prior, levels) => levels.map(QUANTILES[prior.family](prior));

const STEPS = 4000;
const NOTHING = 40; // a log density so far below the peak's counts as zero

function tabulated(logDensity, peak, unbend) {
  const most = logDensity(peak);
  const reach = (step) => { while (most - logDensity(peak + step) < NOTHING) step *= 1.3; return step; };
  const low = peak + reach(-0.1), high = peak + reach(0.1), width = (high - low) / STEPS;
  const axis = Array.from({ length: STEPS + 1 }, (_, i) => low + i * width);
  const density = axis.map((u) => Math.exp(logDensity(u) - most));
  const shares = [0];
  for (let i = 1; i <= STEPS; i++) shares.push(shares[i - 1] + (density[i - 1] + density[i]) / 2);
  const total = shares[STEPS];
  return (p) => unbend(interpolate(p * total, shares, axis));
}
