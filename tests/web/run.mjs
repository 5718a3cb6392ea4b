// Runs graphs: [{ graph, given }] to their outputs. With "plain" as in a page that forbids WebAssembly.

import { readFileSync } from "node:fs";

const [, , library, file, how] = process.argv;
if (how === "plain") delete globalThis.WebAssembly;
const { Runtime } = await import(`${library}/local/runtime.js`);
const found = JSON.parse(readFileSync(file)).map(({ graph, given }) => {
  const outputs = new Runtime(new Uint8Array(readFileSync(graph))).run(given);
  return Object.fromEntries(Object.entries(outputs).map(([name, { shape, data }]) => [name, { shape, data: [...data] }]));
});
console.log(JSON.stringify(found));
