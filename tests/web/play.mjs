// Plays experiments step by step and prints what each step gave, as JSON.
//
// node play.mjs LIBRARY SCENES: scenes are { folder, settings, steps: [[method, ...arguments], …] }.

import { readFileSync } from "node:fs";

const [, , library, file] = process.argv;
const aline = await import(`${library}/aline.js`);

async function play({ folder, settings, steps }) {
  const read = (name) => new Uint8Array(readFileSync(`${folder}/${name}`));
  const model = await aline.load(folder, { read });
  const experiment = new aline.LocalExperiment(model, settings);
  const heard = [];
  for (const [method, ...given] of steps) heard.push(await experiment[method](...given));
  return { heard, state: experiment.toJSON() };
}

const played = [];
for (const scene of JSON.parse(readFileSync(file))) played.push(await play(scene));
console.log(JSON.stringify(played));
