// The normal distribution in double precision.

const ROOT_PI = Math.sqrt(Math.PI);
export const LOG_SQRT_2PI = 0.5 * Math.log(2 * Math.PI);
const FAR = 2.5; // beyond it the fraction converges quickly, before it the series does

export function erf(x) {
  return Math.abs(x) < FAR ? series(x) : Math.sign(x) * (1 - fraction(Math.abs(x)));
}

export function erfc(x) {
  if (Math.abs(x) < FAR) return 1 - series(x);
  return x > 0 ? fraction(x) : 2 - fraction(-x);
}

// All terms have one sign, so that nothing cancels.
function series(x) {
  let term = x, total = x;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(total); n++) total += term *= (2 * x * x) / (2 * n + 1);
  return (2 / ROOT_PI) * Math.exp(-x * x) * total;
}

function fraction(x) {
  let rest = 0;
  for (let n = 60; n > 0; n--) rest = n / 2 / (x + rest);
  return Math.exp(-x * x) / (ROOT_PI * (x + rest));
}

/** The standard normal's distribution function. */
export const ndtr = (z) => 0.5 * erfc(-z * Math.SQRT1_2);

/** Its inverse, for 0 < p < 1. */
export function ndtri(p) {
  if (p > 0.5) return -ndtri(1 - p);
  let z = start(p);
  for (let i = 0; i < 2; i++) { // Halley's step: what is off by 1e-3 is off by 1e-9, then 1e-27
    const off = (ndtr(z) - p) * Math.exp(0.5 * z * z + LOG_SQRT_2PI);
    z -= off / (1 + 0.5 * z * off);
  }
  return z;
}

// For p up to a half, to 5e-4 (Abramowitz and Stegun, 26.2.23).
function start(p) {
  const t = Math.sqrt(-2 * Math.log(p));
  const above = 2.515517 + t * (0.802853 + t * 0.010328);
  const below = 1 + t * (1.432788 + t * (0.189269 + t * 0.001308));
  return above / below - t;
}
