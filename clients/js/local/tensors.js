// Tensors of an exported graph: { shape, data }, rows last, all numbers in double precision.
//
// JavaScript computes in double precision: arrays of it need no conversion on the way, which is
// quicker than arrays of single precision, and rounds less.

import { product } from "./products.js";

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
  const out = new Float64Array(sizeOf(shape));
  const last = shape.length - 1;
  if (last < 0) {
    out[0] = data[offset];
    return { shape, data: out };
  }
  const length = shape[last], step = strides[last], index = new Array(last).fill(0);
  for (let to = 0, from = offset; to < out.length; ) {
    for (let i = 0, at = from; i < length; i++, at += step) out[to++] = data[at];
    for (let axis = last - 1; axis >= 0; axis--) {
      from += strides[axis];
      if (++index[axis] < shape[axis]) break;
      from -= shape[axis] * strides[axis];
      index[axis] = 0;
    }
  }
  return { shape, data: out };
}

/** The shape that two shapes broadcast to. */
export function broadcastShape(a, b) {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, i) => {
    const m = a[a.length - rank + i] ?? 1, n = b[b.length - rank + i] ?? 1;
    return m === 1 ? n : m;
  });
}

/** A tensor repeated along the axes where it has length one. */
export function expand(tensor, shape) {
  if (sameShape(tensor.shape, shape)) return tensor;
  const missing = shape.length - tensor.shape.length;
  const own = stridesOf(tensor.shape);
  const strides = shape.map((_, i) => (i < missing || tensor.shape[i - missing] === 1 ? 0 : own[i - missing]));
  return strided(shape, tensor.data, 0, strides);
}

const sameShape = (a, b) => a.length === b.length && a.every((n, i) => n === b[i]);

/** Two tensors in one shape, of which the second may be a row that repeats: [shape, a, b]. */
function aligned(a, b) {
  const shape = broadcastShape(a.shape, b.shape);
  const first = sameShape(a.shape, shape) ? a.data : expand(a, shape).data;
  const own = b.shape.slice(b.shape.findIndex((n) => n !== 1));
  const repeats = b.data.length === 1 || sameShape(own, shape.slice(shape.length - own.length));
  return [shape, first, repeats ? b.data : expand(b, shape).data];
}

/** Adds: half of all operations, so it has a loop of its own. */
export function add(a, b) {
  if (a.data.length < b.data.length) [a, b] = [b, a];
  const [shape, x, y] = aligned(a, b);
  const out = new Float64Array(x.length);
  for (let start = 0; start < x.length; start += y.length) {
    for (let i = 0; i < y.length; i++) out[start + i] = x[start + i] + y[i];
  }
  return { shape, data: out };
}

export function multiply(a, b) {
  if (a.data.length < b.data.length) [a, b] = [b, a];
  const [shape, x, y] = aligned(a, b);
  const out = new Float64Array(x.length);
  for (let start = 0; start < x.length; start += y.length) {
    for (let i = 0; i < y.length; i++) out[start + i] = x[start + i] * y[i];
  }
  return { shape, data: out };
}

export function subtract(a, b) {
  const [shape, x, y] = aligned(a, b);
  const out = new Float64Array(x.length);
  for (let start = 0; start < x.length; start += y.length) {
    for (let i = 0; i < y.length; i++) out[start + i] = x[start + i] - y[i];
  }
  return { shape, data: out };
}

export function divide(a, b) {
  const [shape, x, y] = aligned(a, b);
  const out = new Float64Array(x.length);
  for (let start = 0; start < x.length; start += y.length) {
    for (let i = 0; i < y.length; i++) out[start + i] = x[start + i] / y[i];
  }
  return { shape, data: out };
}

/** Any function of two numbers. */
export function binary(a, b, work) {
  const [shape, x, y] = aligned(a, b);
  const out = new Float64Array(x.length);
  for (let start = 0; start < x.length; start += y.length) {
    for (let i = 0; i < y.length; i++) out[start + i] = work(x[start + i], y[i]);
  }
  return { shape, data: out };
}

/** Any function of one number. */
export function unary({ shape, data }, work) {
  const out = new Float64Array(data.length);
  for (let i = 0; i < data.length; i++) out[i] = work(data[i]);
  return { shape, data: out };
}

/** Matrix products over leading axes that broadcast, plus a row if there is one. */
export function matmul(a, b, row = null) {
  const rows = a.shape.at(-2), inner = a.shape.at(-1), columns = b.shape.at(-1);
  const lead = a.shape.slice(0, -2), others = b.shape.slice(0, -2);
  if (sizeOf(others) === 1) {
    const all = sizeOf(lead) * rows, out = new Float64Array(all * columns);
    product(a.data, b.data, row, out, all, inner, columns);
    const ones = new Array(Math.max(0, others.length - lead.length)).fill(1);
    return { shape: [...ones, ...lead, rows, columns], data: out };
  }
  const batch = broadcastShape(lead, others), out = new Float64Array(sizeOf(batch) * rows * columns);
  const left = expand(a, [...batch, rows, inner]), right = expand(b, [...batch, inner, columns]);
  const part = (data, i, size) => data.subarray(i * size, (i + 1) * size);
  for (let i = 0; i < sizeOf(batch); i++) {
    product(part(left.data, i, rows * inner), part(right.data, i, inner * columns), row, part(out, i, rows * columns), rows, inner, columns);
  }
  return { shape: [...batch, rows, columns], data: out };
}
