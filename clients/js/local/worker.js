// Runs a graph beside the page.

import { Runtime } from "./runtime.js";

let runtime = null;

const WORK = {
  open(bytes) {
    runtime = new Runtime(bytes);
    const { inputs, outputs, metadata } = runtime;
    return { inputs, outputs, metadata };
  },
  run: (given) => runtime.run(given),
};

self.onmessage = ({ data: { number, what, value } }) => {
  try {
    self.postMessage({ number, found: WORK[what](value) });
  } catch (error) {
    self.postMessage({ number, failure: error.message });
  }
};
self.postMessage("ready");
