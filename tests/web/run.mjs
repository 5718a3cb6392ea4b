// Runs graphs: [{ graph, given }] to their outputs.

import { readFileSync } from "node:fs";

const [, , library, file] = process.argv;
const { Runtime } = await import(`${library}/local/runtime.js`);
const found = JSON.parse(readFileSync(file)).map(({ graph, given }) => {
  const outputs = new Runtime(new Uint8Array(readFileSync(graph))).run(given);
  return Object.fromEntries(Object.entries(outputs).map(([name, { shape, data }]) => [name, { shape, data: [...data] }]));
});
console.log(JSON.stringify(found));
