// Runs an exported graph in plain JavaScript.
//
// ONNX Runtime Web does the same in WebAssembly: docs/notes/browser.md has both, measured.

import { AlineError } from "../errors.js";
import { readOnnx } from "./onnx.js";
import { OPERATORS } from "./operators.js";

const FUSED = { Relu: "relu", HardSwish: "hardSwish" };

/** A graph that is ready to run. */
export class Runtime {
  constructor(bytes) {
    const graph = readOnnx(bytes);
    const unknown = [...new Set(graph.nodes.map((node) => node.type))].filter((type) => !(type in OPERATORS));
    if (unknown.length) {
      throw new AlineError(0, `the graph has operators that this aline.js does not know (${unknown.join(", ")}): use the aline.js of the version that exported it`);
    }
    Object.assign(this, { inputs: graph.inputs, outputs: graph.outputs, metadata: graph.metadata });
    this.constants = graph.constants;
    this.steps = fuse(this.foldConstants(graph.nodes), this.constants, graph.outputs);
  }

  /** Computes what depends on no input, once; the rest remains to be done at each run. */
  foldConstants(nodes) {
    return nodes.filter((node) => {
      const isConstant = node.inputs.every((name) => !name || this.constants.has(name));
      if (isConstant) compute(node, this.constants);
      return !isConstant;
    });
  }

  /** All outputs by name, of inputs by name: { shape, data } each. */
  run(given) {
    const values = new Map(this.constants);
    for (const name of this.inputs) {
      if (!given[name]) throw new AlineError(0, `the graph has an input ${name} that this aline.js does not fill: use the aline.js of the version that exported it`);
      values.set(name, { shape: given[name].shape, data: Float64Array.from(given[name].data) });
    }
    for (const node of this.steps) compute(node, values);
    return Object.fromEntries(this.outputs.map((name) => [name, values.get(name)]));
  }
}

function compute(node, values) {
  const found = OPERATORS[node.type](
    node.inputs.map((name) => (name ? values.get(name) : undefined)), node.attributes, node.outputs.length,
  );
  if (Array.isArray(found)) found.forEach((tensor, i) => values.set(node.outputs[i], tensor));
  else values.set(node.outputs[0], found);
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
    absorb(node, sum, { row: row.data });
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
