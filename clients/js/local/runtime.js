// Runs an exported graph in plain JavaScript.
//
// ONNX Runtime Web does the same in WebAssembly: docs/notes/browser.md has both, measured.

import { AlineError } from "../errors.js";
import { readOnnx } from "./onnx.js";
import { OPERATORS } from "./operators.js";

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
    this.steps = this.foldConstants(graph.nodes);
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
  (Array.isArray(found) ? found : [found]).forEach((tensor, i) => values.set(node.outputs[i], tensor));
}
