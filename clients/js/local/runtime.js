// Runs an exported graph.
//
// ONNX Runtime Web does the same in WebAssembly: docs/notes/browser.md has both, measured.

import { AlineError } from "../errors.js";
import { give, inMemory, keep } from "./memory.js";
import { readOnnx } from "./onnx.js";
import { copyOf, OPERATORS } from "./operators.js";

const FUSED = { Relu: "relu", HardSwish: "hardSwish" };

/** A graph that is ready to run. */
export class Runtime {
  constructor(bytes) {
    const graph = readOnnx(bytes);
    const unknown = [...new Set(graph.nodes.map((node) => node.type))].filter((type) => !(type in OPERATORS));
    if (unknown.length) {
      throw new AlineError(0, `the graph has operators that this aline.js does not know (${unknown.join(", ")}): use the aline folder that was exported with it, or a service`);
    }
    Object.assign(this, { inputs: graph.inputs, outputs: graph.outputs, metadata: graph.metadata });
    this.constants = graph.constants;
    this.steps = fuse(this.foldConstants(graph.nodes), this.constants, graph.outputs);
    this.keepConstants();
    this.number(lastUses(this.steps, [...this.constants.keys(), ...graph.outputs]));
  }

  /** Only those that a run reads, each from its own place. */
  keepConstants() {
    const read = new Set([...this.outputs, ...this.steps.flatMap((node) => node.inputs)]);
    for (const name of this.constants.keys()) if (!read.has(name)) this.constants.delete(name);
    keep([...this.constants.values(), ...this.steps.flatMap(({ attributes: { row } }) => row ?? [])]);
  }

  /** Numbers in place of names, constants first: a run looks up thousands. */
  number(last) {
    const numbers = new Map(), numberOf = (name) => (name && !numbers.has(name) ? numbers.set(name, numbers.size) : numbers).get(name);
    [...this.constants.keys(), ...this.inputs].forEach(numberOf);
    this.steps.forEach((node, i) => Object.assign(node, { from: node.inputs.map(numberOf), to: node.outputs.map(numberOf), last: last[i].map(numberOf) }));
    this.found = this.outputs.map(numberOf);
    this.given = this.inputs.map(numberOf);
  }

  /** Computes what depends on no input, once; the rest remains to be done at each run. */
  foldConstants(nodes) {
    return nodes.filter((node) => {
      const isConstant = node.inputs.every((name) => !name || this.constants.has(name));
      if (isConstant) resultsOf(node, node.inputs.map((name) => this.constants.get(name))).forEach((found, i) => this.constants.set(node.outputs[i], found));
      return !isConstant;
    });
  }

  /** All outputs by name, of inputs by name: { shape, data } each. */
  run(given) {
    for (const name of this.inputs) {
      if (!given[name]) throw new AlineError(0, `the graph has an input ${name} that this aline.js does not fill: use the aline.js of the version that exported it`);
    }
    return inMemory(() => {
      const values = new Values(this.constants.values());
      this.inputs.forEach((name, i) => values.set(this.given[i], copyOf(given[name])));
      for (const node of this.steps) {
        const found = resultsOf(node, node.from.map((number) => values.tensors[number]));
        for (let i = 0; i < found.length; i++) values.set(node.to[i], found[i]);
        for (const number of node.last) values.drop(number);
      }
      return Object.fromEntries(this.outputs.map((name, i) => {
        const { shape, data } = values.tensors[this.found[i]];
        return [name, { shape, data: Float64Array.from(data) }];
      }));
    });
  }
}

/** Tensors by number. Several may be the same numbers in other shapes: who drops the last gives them back. */
class Values {
  constructor(constants) {
    this.tensors = [...constants];
    this.uses = new Map();
  }

  set(number, tensor) {
    if (number === undefined) return; // nobody wants it
    this.tensors[number] = tensor;
    this.uses.set(tensor.data, (this.uses.get(tensor.data) ?? 0) + 1);
  }

  drop(number) {
    const { data } = this.tensors[number], left = this.uses.get(data) - 1;
    this.tensors[number] = undefined;
    this.uses.set(data, left);
    if (!left) give(data);
  }
}

function resultsOf(node, inputs) {
  const found = OPERATORS[node.type](inputs, node.attributes, node.outputs.length);
  return Array.isArray(found) ? found : [found];
}

/** After each step the names that nobody reads any more. */
function lastUses(steps, needed) {
  const seen = new Set(needed);
  return steps.map((node) => [...node.inputs, ...node.outputs]).reverse().map((names) => {
    const found = [...new Set(names)].filter((name) => name && !seen.has(name));
    found.forEach((name) => seen.add(name));
    return found;
  }).reverse();
}

/** A product, the row that is added to it and the bend that follows are one step: the numbers are
 *  written once. Only where nobody else wants what lies between. */
function fuse(nodes, constants, outputs) {
  const readers = new Map(outputs.map((name) => [name, [null]]));
  for (const node of nodes) for (const name of node.inputs) readers.set(name, [...(readers.get(name) ?? []), node]);
  const onlyReader = (node) => {
    const found = readers.get(node.outputs[0]) ?? [];
    return found.length === 1 ? found[0] : null;
  };
  const gone = new Set();
  for (const node of nodes) {
    if (node.type !== "MatMul") continue;
    const sum = onlyReader(node);
    const row = sum?.type === "Add" && constants.get(sum.inputs.find((name) => name !== node.outputs[0]));
    const columns = constants.get(node.inputs[1])?.shape.at(-1);
    if (!row || row.shape.length !== 1 || row.data.length !== columns) continue;
    absorb(node, sum, { row: { data: row.data } });
    gone.add(sum);
    const bend = onlyReader(node);
    if (!bend || !(bend.type in FUSED)) continue;
    absorb(node, bend, { bend: FUSED[bend.type] });
    gone.add(bend);
  }
  return nodes.filter((node) => !gone.has(node));
}

function absorb(node, next, attributes) {
  Object.assign(node.attributes, attributes);
  node.outputs = next.outputs;
}
