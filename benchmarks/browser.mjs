// How long a run of an exported graph takes in JavaScript, beside ONNX Runtime Web, in one process.
//
//   cd SOMEWHERE && npm install onnxruntime-web
//   node benchmarks/browser.mjs SOMEWHERE/node_modules/onnxruntime-web results/browser.json
//
// Medians of processor time, in turns. 200 candidates, 30 observations, one point.

import { execSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { gzipSync } from "node:zlib";
import { Runtime } from "../clients/js/local/runtime.js";

const [, , folder, output] = process.argv;
const root = new URL("..", import.meta.url).pathname;
const ort = await import(`${folder}/dist/ort.wasm.min.mjs`);
const SIZES = { detection: [1, 4], psychometric: [1, 4], location: [2, 2] }; // design axes, parameters
const ROUNDS = 40, WARM = 60;
const FLAGS = ["mask", "points_mask", "parameters"];
ort.env.wasm.numThreads = 1;

const started = Date.now();
const numbers = (shape, value) => ({ shape, data: Array.from({ length: shape.reduce((a, b) => a * b) }, value) });
const any = () => 2 * Math.random() - 1;

function inputs(axes, parameters) {
  return {
    designs: numbers([1, 30, axes], any), outcomes: numbers([1, 30], () => Math.sign(any())), mask: numbers([1, 30], () => 1),
    points: numbers([1, 1, axes], any), points_mask: numbers([1, 1], () => 0),
    parameters: numbers([1, parameters], (_, i) => (i < 2 ? 1 : 0)), candidates: numbers([1, 200, axes], any),
    prior: numbers([1, parameters, 2], (_, i) => i % 2), // N(0, 1): as it was trained
  };
}

function tensors(given) {
  return Object.fromEntries(Object.entries(given).map(([name, { shape, data }]) => {
    const isFlag = FLAGS.includes(name);
    return [name, new ort.Tensor(isFlag ? "bool" : "float32", isFlag ? Uint8Array.from(data) : Float32Array.from(data), shape)];
  }));
}

async function milliseconds(work) {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
const row = (task, method, metric, value) => ({ task, method, target: null, metric, step: null, value, ci95: null, n: ROUNDS, published: null });

async function measure(name) {
  const bytes = new Uint8Array(readFileSync(`${root}src/aline/zoo/${name}/graph.onnx`));
  const own = new Runtime(bytes);
  const other = await ort.InferenceSession.create(bytes, { executionProviders: ["wasm"] });
  const all = inputs(...SIZES[name]);
  const given = Object.fromEntries(own.inputs.map((one) => [one, all[one]]));
  const methods = { "aline.js": async () => own.run(given), "onnxruntime-web": () => other.run(tensors(given)) };
  const times = Object.fromEntries(Object.keys(methods).map((method) => [method, []]));
  for (let round = -WARM; round < ROUNDS; round++) {
    for (const [method, work] of Object.entries(methods)) {
      const spent = await milliseconds(work);
      if (round >= 0) times[method].push(spent);
    }
  }
  const found = Object.entries(times).map(([method, values]) => row(name, method, "milliseconds", median(values)));
  return [...found, row(name, "aline.js", "ratio", found[0].value / found[1].value)];
}

const size = (files) => files.reduce((total, file) => total + gzipSync(readFileSync(file), { level: 9 }).length, 0);
const library = execSync("git ls-files 'clients/js/*.js' 'clients/js/local/*.js'", { cwd: root, encoding: "utf8" }).trim().split("\n");
const rows = [
  ...(await measure("detection")), ...(await measure("psychometric")), ...(await measure("location")),
  row(null, "aline.js", "compressed_bytes", size(library.map((file) => root + file))),
  row(null, "onnxruntime-web", "compressed_bytes", size(["ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"].map((file) => `${folder}/dist/${file}`))),
  row("psychometric", "model", "compressed_bytes", size([`${root}src/aline/zoo/psychometric/graph.onnx`])),
];
const commit = execSync("git rev-parse --short HEAD", { cwd: root, encoding: "utf8" }).trim();
const machine = `${cpus()[0].model}, one thread, Node ${process.version}`;
const result = { bench: "browser", command: "node benchmarks/browser.mjs node_modules/onnxruntime-web results/browser.json", commit, machine, seconds: (Date.now() - started) / 1000, rows };
writeFileSync(output, `${JSON.stringify(result, null, 1)}\n`);
for (const { task, method, metric, value } of rows) console.log(task ?? "", method, metric, Number(value.toPrecision(3)));
