// Where a graph runs: in a worker, so that no frame is dropped, or in the page's own thread.

import { AlineError } from "../errors.js";

/** A runtime with an asynchronous `run`. */
export async function startRuntime(bytes, inWorker) {
  const worker = inWorker ? await openWorker() : null;
  if (worker) return WorkerRuntime.start(worker, bytes);
  const { Runtime } = await import("./runtime.js"); // a page with workers never waits for it
  const runtime = new Runtime(bytes);
  const { inputs, outputs, metadata } = runtime;
  return { inputs, outputs, metadata, run: async (given) => runtime.run(given) };
}

// Node has no workers of this kind, and some pages may not start any: their own thread will do.
function openWorker() {
  if (typeof Worker === "undefined") return null;
  return new Promise((resolve) => {
    let worker;
    try {
      worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    } catch {
      return resolve(null);
    }
    worker.onerror = () => resolve(null);
    worker.onmessage = () => resolve(worker);
  });
}

class WorkerRuntime {
  static async start(worker, bytes) {
    const runtime = new WorkerRuntime();
    runtime.worker = worker;
    runtime.waiting = new Map(); // the number of a call -> what to do with its answer
    runtime.calls = 0;
    worker.onmessage = ({ data }) => runtime.receive(data);
    worker.onerror = (event) => runtime.fail(event.message);
    return Object.assign(runtime, await runtime.call("open", bytes));
  }

  run(given) {
    return this.call("run", given);
  }

  call(what, value) {
    return new Promise((resolve, reject) => {
      this.waiting.set(++this.calls, { resolve, reject });
      this.worker.postMessage({ number: this.calls, what, value });
    });
  }

  receive({ number, found, failure }) {
    const { resolve, reject } = this.waiting.get(number);
    this.waiting.delete(number);
    if (failure) reject(new AlineError(0, failure));
    else resolve(found);
  }

  fail(message) {
    for (const { reject } of this.waiting.values()) reject(new AlineError(0, `the network stopped (${message}): reload the page, no answer is lost`));
    this.waiting.clear();
  }
}
