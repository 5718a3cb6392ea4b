// Where a run's numbers lie: in WebAssembly's memory, so that its loops read and write them in place.
// What is no longer needed is used again, which keeps a run within the processor's cache.

import { onMemory, openKernels, PLAIN } from "./kernels.js";

const PAGE = 65536; // bytes
const FULL = new Error("full");
const FIRST = 16; // arrays of JavaScript's own begin at 0

class Memory {
  constructor(kernels) {
    Object.assign(this, { memory: kernels.memory, kept: [], start: FIRST });
    this.loops = onMemory(kernels, (count) => this.take(count));
    this.clear();
  }

  /** Before a run: what was given back is taken again, as long as there is much room. */
  begin() {
    if (this.end > this.memory.buffer.byteLength / 2) this.clear();
  }

  /** Forget everything but what is kept. */
  clear() {
    Object.assign(this, { end: this.start, free: new Map() });
  }

  take(count) {
    const found = this.free.get(count)?.pop();
    if (found !== undefined) return found;
    const at = this.end;
    this.end += 16 * Math.ceil(count / 4);
    if (this.end > this.memory.buffer.byteLength) throw FULL;
    return new Float32Array(this.memory.buffer, at, count);
  }

  give(data) {
    if (data.byteOffset < this.start) return;
    if (!this.free.get(data.length)?.push(data)) this.free.set(data.length, [data]);
  }

  /** Move a tensor's numbers here for good. */
  keep(tensor) {
    const { data } = tensor, at = this.start;
    this.start += 16 * Math.ceil(data.length / 4);
    this.clear();
    if (this.start > this.memory.buffer.byteLength) this.grow();
    this.kept.push({ tensor, at, length: data.length });
    tensor.data = new Float32Array(this.memory.buffer, at, data.length);
    tensor.data.set(data);
  }

  grow() {
    this.memory.grow(this.memory.buffer.byteLength / PAGE); // twice as much
    this.clear(); // arrays of before are of no memory now
    for (const { tensor, at, length } of this.kept) tensor.data = new Float32Array(this.memory.buffer, at, length);
  }
}

let memory; // undefined until it was tried, null where it cannot be
let isOpen = false; // whether a run is on

/** Move constants to where a run reads them. */
export function keep(tensors) {
  if (memory === undefined) memory = makeMemory();
  if (memory) for (const tensor of tensors) memory.keep(tensor);
}

function makeMemory() {
  const kernels = openKernels();
  return kernels && new Memory(kernels);
}

/** A run: what it takes lies in the memory, and is gone when it ends. */
export function inMemory(work) {
  if (!memory) return work();
  memory.begin();
  isOpen = true;
  try {
    return work();
  } catch (error) {
    if (error !== FULL) throw error;
    memory.grow();
    return inMemory(work);
  } finally {
    isOpen = false;
  }
}

/** Room for numbers; what lies there is anything. */
export function take(count) {
  return isOpen ? memory.take(count) : new Float32Array(count);
}

/** Say that nobody needs them any more. */
export function give(data) {
  if (isOpen) memory.give(data);
}

/** The loops for these arrays. */
export function loopsFor(...arrays) {
  return isOpen && arrays.every((data) => data.byteOffset >= FIRST) ? memory.loops : PLAIN;
}
