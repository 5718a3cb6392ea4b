// Plays experiments step by step and prints what each step gave, as JSON.
//
// node play.mjs LIBRARY SCENES: scenes are { folder, settings, steps: [[method, ...arguments], …] }.

import { readFileSync } from "node:fs";

const [, , library, file] = process.argv;
const aline = await import(`${library}/aline.js`);

const LEVELS = [0.01, 0.3, 0.5, 0.9]; // of quantiles, and of where to take densities

async function play({ folder, settings, steps }) {
  const read = (name) => new Uint8Array(readFileSync(`${folder}/${name}`));
  const model = await aline.load(folder, { read });
  const experiment = new aline.LocalExperiment(model, settings);
  const heard = [];
  for (const [method, ...given] of steps) heard.push(await experiment[method](...given));
  const state = experiment.toJSON(), again = aline.LocalExperiment.from(model, JSON.parse(JSON.stringify(state)));
  const known = Object.entries(await experiment.posterior()).map(([name, one]) => {
    const values = LEVELS.map((p) => one.quantile(p));
    return [name, { values, density: one.pdf(values) }];
  });
  const both = await Promise.all([experiment, again].map(async (one) => [await one.status(), await one.posterior()]));
  const file = new TextDecoder().decode(await experiment.export("json"));
  return { heard, state, file, known: Object.fromEntries(known), both, warnings: await experiment.warnings() };
}

const played = [];
for (const scene of JSON.parse(readFileSync(file))) played.push(await play(scene));
console.log(JSON.stringify(played));
