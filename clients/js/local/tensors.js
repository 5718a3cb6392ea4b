// Tensors of an exported graph: { shape, data }, rows last, all numbers in single precision.

import { loopsFor, take } from "./memory.js";

export const LONG = 16; // numbers from which on a row is worth a call

export const sizeOf = (shape) => shape.reduce((size, n) => size * n, 1);

/** Distances between neighbours along each axis. */
export function stridesOf(shape) {
  const strides = new Array(shape.length);
  for (let axis = shape.length - 1, step = 1; axis >= 0; axis--) {
    strides[axis] = step;
    step *= shape[axis];
  }
  return strides;
}

/** An axis counted from the start, where a negative one counts from the end. */
export const axisOf = (axis, rank) => (axis < 0 ? axis + rank : axis);

/** What lies before, on and behind an axis: [outer, length, inner]. */
export function around(shape, axis) {
  return [sizeOf(shape.slice(0, axis)), shape[axis], sizeOf(shape.slice(axis + 1))];
}

/** A tensor of this shape, read from data at an offset with these strides. */
export function strided(shape, data, offset, strides) {
  const out = take(sizeOf(shape));
  const last = shape.length - 1;
  if (last < 0) {
    out[0] = data[offset];
    return { shape, data: out };
  }
  const length = shape[last], step = strides[last], index = new Array(last).fill(0);
  for (let to = 0, from = offset; to < out.length; to += length) {
    copyRow(data, from, step, out, to, length);
    for (let axis = last - 1; axis >= 0; axis--) {
      from += strides[axis];
      if (++index[axis] < shape[axis]) break;
      from -= shape[axis] * strides[axis];
      index[axis] = 0;
    }
  }
  return { shape, data: out };
}

function copyRow(data, from, step, out, to, length) {
  if (step === 1 && length >= LONG) out.set(data.subarray(from, from + length), to);
  else if (step === 0) out.fill(data[from], to, to + length);
  else for (let i = 0; i < length; i++, from += step) out[to + i] = data[from];
}

/** The shape that two shapes broadcast to. */
export function broadcastShape(a, b) {
  const rank = Math.max(a.length, b.length), shape = new Array(rank);
  for (let axis = 0; axis < rank; axis++) {
    const m = a[a.length - rank + axis] ?? 1, n = b[b.length - rank + axis] ?? 1;
    shape[axis] = m === 1 ? n : m;
  }
  return shape;
}

/** A tensor repeated along the axes where it has length one. */
export function expand(tensor, shape) {
  if (sameShape(tensor.shape, shape)) return tensor;
  return strided(shape, tensor.data, 0, repeating(tensor.shape, shape));
}

/** The strides of a shape that repeats to another: none along an axis that it lacks. */
function repeating(own, shape) {
  const strides = stridesOf(own), missing = shape.length - own.length;
  return shape.map((_, axis) => (axis < missing || own[axis - missing] === 1 ? 0 : strides[axis - missing]));
}

function sameShape(a, b) {
  if (a.length !== b.length) return false;
  for (let axis = 0; axis < a.length; axis++) if (a[axis] !== b[axis]) return false;
  return true;
}

/** "add", "subtract", "multiply", "divide", "least" or "most" of two tensors, of which either may repeat. */
export function combine(operation, a, b) {
  const shape = broadcastShape(a.shape, b.shape), size = sizeOf(shape), out = take(size), loops = loopsFor(a.data, b.data, out);
  const isWhole = a.data.length === size, one = isWhole ? b.data.length : a.data.length;
  if ((isWhole || b.data.length === size) && (one === size || one === 1)) { // nine of ten
    loops.combine(operation, a.data, b.data, out, { count: 1, length: size, right: [isWhole ? 1 : 0, b.data.length === size ? 1 : 0], down: STAY }, 0, 0, 0);
    return { shape, data: out };
  }
  const axes = merged(shape, repeating(a.shape, shape), repeating(b.shape, shape));
  const [length, ...right] = axes.pop(), [count, ...down] = axes.pop() ?? [1, 0, 0];
  const rows = { count, length, right, down }, index = axes.map(() => 0), places = [0, 0];
  for (let to = 0; to < size; to += count * length) {
    loops.combine(operation, a.data, b.data, out, rows, places[0], places[1], to);
    next(axes, index, places);
  }
  return { shape, data: out };
}

const STAY = [0, 0];

/** Axes as [length, stride of a, stride of b], with those in one that follow each other in both. */
function merged(shape, a, b) {
  const found = [];
  for (let axis = 0; axis < shape.length; axis++) {
    const last = found.at(-1), n = shape[axis];
    if (n === 1) continue;
    if (last && last[1] === n * a[axis] && last[2] === n * b[axis]) found[found.length - 1] = [last[0] * n, a[axis], b[axis]];
    else found.push([n, a[axis], b[axis]]);
  }
  return found; // the last axis is one along which a or b goes on: elsewhere there is one number in all
}

/** Go on to the next place, the last axis first. */
function next(axes, index, places) {
  for (let i = axes.length - 1; i >= 0; i--) {
    const [length, a, b] = axes[i];
    places[0] += a;
    places[1] += b;
    if (++index[i] < length) return;
    places[0] -= length * a;
    places[1] -= length * b;
    index[i] = 0;
  }
}

/** Any function of two numbers. */
export function binary(a, b, work) {
  const shape = broadcastShape(a.shape, b.shape), out = take(sizeOf(shape));
  const x = expand(a, shape).data, y = expand(b, shape).data;
  for (let i = 0; i < out.length; i++) out[i] = work(x[i], y[i]);
  return { shape, data: out };
}

/** Any function of one number. */
export function unary({ shape, data }, work) {
  const out = take(data.length);
  for (let i = 0; i < data.length; i++) out[i] = work(data[i]);
  return { shape, data: out };
}

/** Matrix products over leading axes that broadcast, plus a row if there is one. */
export function matmul(a, b, row = null) {
  const rows = a.shape.at(-2), inner = a.shape.at(-1), columns = b.shape.at(-1);
  const lead = a.shape.slice(0, -2), others = b.shape.slice(0, -2);
  if (sizeOf(others) === 1) {
    const all = sizeOf(lead) * rows, out = take(all * columns);
    loopsFor(a.data, b.data, out, row ?? out).product(a.data, b.data, row, out, all, inner, columns);
    const ones = new Array(Math.max(0, others.length - lead.length)).fill(1);
    return { shape: [...ones, ...lead, rows, columns], data: out };
  }
  const batch = broadcastShape(lead, others), out = take(sizeOf(batch) * rows * columns);
  const left = expand(a, [...batch, rows, inner]), right = expand(b, [...batch, inner, columns]);
  const part = (data, i, size) => data.subarray(i * size, (i + 1) * size);
  const loops = loopsFor(left.data, right.data, out, row ?? out);
  for (let i = 0; i < sizeOf(batch); i++) {
    loops.product(part(left.data, i, rows * inner), part(right.data, i, inner * columns), row, part(out, i, rows * columns), rows, inner, columns);
  }
  return { shape: [...batch, rows, columns], data: out };
}
