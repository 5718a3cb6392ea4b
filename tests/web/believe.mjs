// Reads outputs of graphs as outcomes: [{ outcome, reach, quadrature, parts, told, level }] to what is
// expected, a summary, and what is told on the network's scale.

import { readFileSync } from "node:fs";

const [, , library, file] = process.argv;
const { outcomeOf } = await import(`${library}/local/outcomes.js`);
const refusal = (work) => { try { work(); return null; } catch (error) { return error.message; } };
const found = JSON.parse(readFileSync(file)).map(({ outcome, reach, quadrature, parts, good, bad, level }) => {
  const kind = outcomeOf(outcome, { reach, quadrature });
  const belief = kind.belief(Object.fromEntries(Object.entries(parts).map(([name, values]) => [name, Float64Array.from(values)])));
  return {
    expected: [belief.expect()].flat(), summary: belief.summary(level),
    told: good.map((value) => kind.toNetwork(kind.read(value))), refused: bad.map((value) => refusal(() => kind.read(value))),
  };
});
console.log(JSON.stringify(found));
