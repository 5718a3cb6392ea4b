// Things that go wrong in a page, each as [what, the sentence].

import { readFileSync } from "node:fs";

const [, , library, file] = process.argv;
const { load, LocalExperiment, Normal, Uniform } = await import(`${library}/aline.js`);
const { folder, other, detection, cut } = JSON.parse(readFileSync(file));
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
heard.colour = await sentence(async () => experiment({ colour: {} }));
heard["no count"] = await sentence(async () => experiment({ trials: Number("many") }));
heard["not trained for it"] = await sentence(async () => experiment({ known: { guess: 0.5 } }));
heard["no other units"] = await sentence(async () => experiment({ units: { stimulus: [0, 1] } }));

// What is known, said wrongly.
const detecting = await load(detection, { read: (name) => bytes(name, detection) });
const mistakes = {
  "unknown name": { known: { gues: 0.5 } },
  outside: { known: { guess: 0.95 } },
  "no number": { known: { guess: "half" } },
  "no names": { known: 0.5 },
  "no prior": { prior: { slope: 0.5 } },
  "no family": { prior: { slope: { family: "Cauchy", loc: 0, scale: 1 } } },
  "no distribution": { prior: { slope: Uniform(0.2, 0.1) } },
  "prior outside": { prior: { slope: Normal(0.2, 1) } },
  both: { known: { guess: 0.5 }, prior: { guess: Uniform(0.2, 0.3) } },
  "known target": { known: { guess: 0.5 }, target: ["guess"] },
  "all known": { known: { threshold: 0.5, slope: 0.1, guess: 0.5, lapse: 0.02 } },
  backwards: { units: { stimulus: [0, -40] } },
};
for (const [what, settings] of Object.entries(mistakes)) heard[what] = await sentence(async () => new LocalExperiment(detecting, settings));
const knowing = new LocalExperiment(detecting, { known: { guess: 0.5 }, prior: { threshold: Uniform(0.001, 0.0011), slope: Uniform(0.02, 0.4) } });
heard["known later"] = await sentence(() => knowing.change({ known: { threshold: 0.3 } }));
heard.knownAfterRefusal = (await knowing.status()).known;
[heard.edge] = await knowing.warnings();
heard.shape = (await new LocalExperiment(detecting, { prior: { slope: Uniform(0.1, 0.2) } }).warnings()).join();
const earlier = new LocalExperiment(detecting, {});
for (const outcome of [1, 0, 1]) await earlier.tell(await earlier.ask(), outcome);
const next = new LocalExperiment(detecting, { prior: await earlier.posterior() });
heard.earlierMean = (await earlier.posterior()).threshold.mean;
heard.nextMean = (await next.posterior()).threshold.mean;

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

// What was stored is of a later aline, or damaged.
const [first, ...more] = full.kept.keys(), created = full.kept.get(first);
full.kept.set(first, JSON.stringify({ ...JSON.parse(created), version: 99 }));
heard.later = await sentence(async () => LocalExperiment.resume(model, "one", { storage: full }));
full.kept.set(first, created);
full.kept.set(more[0], '{"event": "as');
heard.damaged = await sentence(async () => LocalExperiment.resume(model, "one", { storage: full }));

// Without any storage.
const off = experiment({ name: "off" });
await off.tell(await off.ask(), 1);
heard.off = off.problem;
heard.unnamed = experiment({}).problem;
console.log(JSON.stringify(heard));
