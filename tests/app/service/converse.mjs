// Has the conversation with a service, or with models in a folder, and prints what it hears.

import { readFileSync } from "node:fs";
const [, , folder, url, token, file] = process.argv;
const { AlineError, Client, Experiment, load, LocalClient, LocalExperiment } = await import(`${folder}/aline.js`);
const local = async () => {
  const stored = new Map(); // what a browser's storage does
  const storage = {
    getItem: (key) => stored.get(key) ?? null, setItem: (key, text) => stored.set(key, text),
    key: (place) => [...stored.keys()][place], get length() { return stored.size; },
  };
  const loaded = (model) => load(`${url}/${model}`, { read: (name) => new Uint8Array(readFileSync(`${url}/${model}/${name}`)) });
  const models = {};
  for (const model of ["psychometric", "detection", "survey"]) models[model] = await loaded(model);
  return new LocalClient(models, { storage });
};
const client = url.startsWith("http") ? new Client(url, { token: token || null, timeout: 60000 }) : await local();
const kept = {};
const heard = [];
const plain = (value) => {
  if (value instanceof Experiment || value instanceof LocalExperiment) return value.name;
  return value instanceof Uint8Array ? new TextDecoder().decode(value) : value;
};
for (const step of JSON.parse(readFileSync(file))) {
  const on = step.on === "client" ? client : kept[step.on];
  const given = step.with.map((a) => (`${a}`.startsWith("$") ? kept[a.slice(1)] : a));
  try {
    const found = await on[step.do](...given);
    if (step.as) kept[step.as] = found;
    heard.push(["change", "close"].includes(step.do) ? null : plain(found));
  } catch (error) {
    if (!(error instanceof AlineError)) throw error;
    heard.push({ status: error.status, detail: error.message });
  }
}
console.log(JSON.stringify(heard));
