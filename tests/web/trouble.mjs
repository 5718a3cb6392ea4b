// Things that go wrong in a page, each as [what, the sentence].

import { readFileSync } from "node:fs";

const [, , library, file] = process.argv;
const { load, LocalExperiment } = await import(`${library}/aline.js`);
const { folder, other, cut } = JSON.parse(readFileSync(file));
const bytes = (name, from = folder) => new Uint8Array(readFileSync(`${from}/${name}`));
const changed = (changes) => new TextEncoder().encode(JSON.stringify({ ...JSON.parse(readFileSync(`${folder}/model.json`)), ...changes }));

async function sentence(work) {
  try {
    await work();
    return null;
  } catch (error) {
    return error.name === "AlineError" ? error.message : `not a sentence: ${error.stack}`;
  }
}

const files = (read) => () => load("study/", { read });
const heard = {
  html: await sentence(files(() => new TextEncoder().encode("<!doctype html>"))),
  foreign: await sentence(files(() => new TextEncoder().encode('{"name": "app"}'))),
  newer: await sentence(files((name) => (name === "model.json" ? changed({ format: 99 }) : bytes(name)))),
  mixed: await sentence(files((name) => (name === "model.json" ? bytes(name) : bytes(name, other)))),
  short: await sentence(files((name) => (name === "model.json" ? bytes(name) : bytes(name).subarray(0, 1000)))),
  interrupted: await sentence(() => load(cut, {})),
};

const model = await load(folder, { read: (name) => bytes(name) });
const experiment = (settings) => new LocalExperiment(model, settings);
for (const setting of ["known", "prior", "units", "colour"]) heard[setting] = await sentence(async () => experiment({ [setting]: {} }));

/** What a browser's storage does, up to a number of entries. */
function storageOf(most) {
  const kept = new Map();
  return {
    kept, getItem: (key) => kept.get(key) ?? null, key: (i) => [...kept.keys()][i], get length() { return kept.size; },
    setItem(key, text) {
      if (kept.size >= this.most) throw Object.assign(new Error("full"), { name: "QuotaExceededError" });
      kept.set(key, text);
    },
    most,
  };
}

// A storage that is full takes what comes later, and nothing is lost meanwhile.
const full = storageOf(3), one = experiment({ name: "one", storage: full });
for (const outcome of [1, 0]) await one.tell(await one.ask(), outcome);
heard.full = one.problem;
heard.inMemory = (await one.status()).told;
full.most = 100;
await one.tell(await one.ask(), 1);
heard.afterwards = one.problem;
heard.resumed = (await LocalExperiment.resume(model, "one", { storage: full }).status()).told;
heard.taken = await sentence(async () => experiment({ name: "one", storage: full }));
heard.nobody = await sentence(async () => LocalExperiment.resume(model, "nobody", { storage: full }));

// Two tabs with one experiment: the second to write is refused.
const tab = LocalExperiment.resume(model, "one", { storage: full });
await tab.ask();
heard.tabs = await sentence(() => one.ask());

// Without any storage.
const off = experiment({ name: "off" });
await off.tell(await off.ask(), 1);
heard.off = off.problem;
heard.unnamed = experiment({}).problem;
console.log(JSON.stringify(heard));
