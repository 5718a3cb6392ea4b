// What the nodes of an exported graph do. https://onnx.ai/onnx/operators says it in words.

import { erf } from "./normal.js";
import { loopsFor, take } from "./memory.js";
import { around, axisOf, binary, broadcastShape, combine, expand, LONG, matmul, sizeOf, strided, stridesOf, unary } from "./tensors.js";

function numbers({ data }) {
  const found = new Array(data.length);
  for (let i = 0; i < data.length; i++) found[i] = data[i];
  return found;
}

const each = (work) => ([x]) => unary(x, work);
const arithmetic = (operation) => ([a, b]) => combine(operation, a, b);
const both = (work) => ([a, b]) => binary(a, b, work);
const FLOATS = [1, 11], BOOL = 9; // of Cast

/** By type: (inputs, attributes, how many outputs) to a tensor, or to a list of them. */
export const OPERATORS = {
  Abs: each(Math.abs),
  Add: arithmetic("add"),
  And: both((x, y) => (x && y ? 1 : 0)),
  ArgMax: (inputs, attributes) => placeOfBest(inputs, attributes, (x, y) => x > y),
  ArgMin: (inputs, attributes) => placeOfBest(inputs, attributes, (x, y) => x < y),
  Asinh: each(Math.asinh),
  Cast: ([x], { to }) => (FLOATS.includes(to) ? x : unary(x, to === BOOL ? (v) => (v ? 1 : 0) : Math.trunc)),
  Clip: clip,
  Concat: (parts, { axis }) => concat(parts, axis),
  ConstantOfShape: ([shape], { value }) => filled(numbers(shape), value?.data[0] ?? 0),
  Cos: each(Math.cos),
  Div: arithmetic("divide"),
  Equal: both((x, y) => (x === y ? 1 : 0)),
  Erf: each(erf),
  Exp: ([x]) => bent("exp", copyOf(x)),
  EyeLike: ([x], { k = 0 }) => eyeLike(x, k),
  Expand: ([x, shape]) => expand(x, broadcastShape(x.shape, numbers(shape))),
  Floor: each(Math.floor),
  Gather: ([x, index], { axis = 0 }) => gather(x, index, axis),
  GatherElements: gatherElements,
  GatherND: gatherByPlaces,
  Gemm: gemm,
  Greater: both((x, y) => (x > y ? 1 : 0)),
  GreaterOrEqual: both((x, y) => (x >= y ? 1 : 0)),
  HardSwish: ([x]) => bent("hardSwish", copyOf(x)),
  Identity: ([x]) => x,
  LayerNormalization: layerNorm,
  Less: both((x, y) => (x < y ? 1 : 0)),
  LessOrEqual: both((x, y) => (x <= y ? 1 : 0)),
  Log: each(Math.log),
  LogSoftmax: ([x], { axis = -1 }) => softmax(x, axis, true),
  MatMul: ([a, b], { row, bend }) => bent(bend, matmul(a, b, row?.data)),
  Max: (parts) => parts.reduce((a, b) => combine("most", a, b)),
  Min: (parts) => parts.reduce((a, b) => combine("least", a, b)),
  Mul: arithmetic("multiply"),
  Neg: each((x) => -x),
  Not: each((x) => (x ? 0 : 1)),
  Or: both((x, y) => (x || y ? 1 : 0)),
  Pad: pad,
  Pow: ([a, b]) => power(a, b),
  Reciprocal: each((x) => 1 / x),
  ReduceLogSumExp: reduced(logSumAlong),
  ReduceMax: reduced(mostAlong),
  ReduceSum: reduced(sumAlong),
  Relu: ([x]) => bent("relu", copyOf(x)),
  Reshape: reshape,
  Round: each(roundToEven),
  ScatterElements: scatter,
  Shape: ([x], { start = 0, end }) => listOf(x.shape.slice(start, end)),
  Sigmoid: each((x) => 1 / (1 + Math.exp(-x))),
  Sign: each(Math.sign),
  Sin: each(Math.sin),
  Sinh: each(Math.sinh),
  Slice: slice,
  Softmax: ([x], { axis = -1 }) => softmax(x, axis, false),
  Softplus: each((x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)))),
  Split: split,
  Sqrt: each(Math.sqrt),
  Squeeze: squeeze,
  Sub: arithmetic("subtract"),
  Tanh: each(Math.tanh),
  Tile: ([x, repeats]) => tile(x, numbers(repeats)),
  Transpose: transpose,
  Unsqueeze: unsqueeze,
  Where: where,
};

const listOf = (values) => ({ shape: [values.length], data: Float32Array.from(values) });

const filled = (shape, value) => ({ shape, data: take(sizeOf(shape)).fill(value) });

function eyeLike({ shape: [rows, columns] }, k) {
  const found = filled([rows, columns], 0);
  for (let i = Math.max(0, -k); i < rows && i + k < columns; i++) found.data[i * columns + i + k] = 1;
  return found;
}

/** The same numbers in a place of their own. */
export function copyOf({ shape, data }) {
  const out = take(data.length);
  out.set(data);
  return { shape, data: out };
}

/** In place: it gets numbers that nobody else has. */
function bent(name, found) {
  if (name) loopsFor(found.data)[name](found.data);
  return found;
}

function clip([x, low, high]) {
  const raised = low ? combine("most", x, low) : x;
  return high ? combine("least", raised, high) : raised;
}

// A square and a power of one positive number, without the price of a general power.
function power(a, b) {
  if (b.data.length === 1 && b.data[0] === 2) return combine("multiply", a, a);
  if (a.data.length > 1 || a.data[0] <= 0) return binary(a, b, Math.pow);
  return bent("exp", combine("multiply", b, filled([1], Math.log(a.data[0]))));
}

function roundToEven(x) {
  const nearest = Math.round(x);
  return nearest - x === 0.5 && nearest % 2 ? nearest - 1 : nearest;
}

// Shapes: the numbers stay where they are.

function reshape([x, wanted], { allowzero = 0 }) {
  const shape = numbers(wanted).map((n, i) => (n === 0 && !allowzero ? x.shape[i] : n));
  const open = shape.indexOf(-1);
  if (open >= 0) shape[open] = x.data.length / -sizeOf(shape);
  return { shape, data: x.data };
}

function squeeze([x, axes]) {
  const dropped = axes && numbers(axes).map((axis) => axisOf(axis, x.shape.length));
  return { shape: x.shape.filter((n, i) => (dropped ? !dropped.includes(i) : n !== 1)), data: x.data };
}

function unsqueeze([x, axes]) {
  const rank = x.shape.length + axes.data.length;
  const shape = [...x.shape];
  for (const axis of numbers(axes).map((one) => axisOf(one, rank)).sort((a, b) => a - b)) shape.splice(axis, 0, 1);
  return { shape, data: x.data };
}

// Parts and orders.

function transpose([x], { perm }) {
  const strides = stridesOf(x.shape);
  return strided(perm.map((axis) => x.shape[axis]), x.data, 0, perm.map((axis) => strides[axis]));
}

function slice([x, starts, ends, axes, steps]) {
  const shape = [...x.shape], strides = stridesOf(x.shape);
  let offset = 0;
  numbers(starts).forEach((given, i) => {
    const axis = axisOf(axes ? axes.data[i] : i, shape.length), length = x.shape[axis];
    const step = steps ? steps.data[i] : 1;
    const inside = (at) => Math.min(Math.max(axisOf(at, length), 0), length);
    const start = inside(given);
    shape[axis] = Math.max(0, Math.ceil((inside(ends.data[i]) - start) / step));
    offset += start * strides[axis];
    strides[axis] *= step;
  });
  return strided(shape, x.data, offset, strides);
}

function split([x, sizes], { axis = 0 }, count) {
  const along = axisOf(axis, x.shape.length), strides = stridesOf(x.shape);
  const even = Math.ceil(x.shape[along] / count);
  let start = 0;
  return Array.from({ length: count }, (_, i) => {
    const size = sizes ? sizes.data[i] : Math.min(even, x.shape[along] - start);
    const part = strided(x.shape.map((n, a) => (a === along ? size : n)), x.data, start * strides[along], strides);
    start += size;
    return part;
  });
}

function concat(parts, axis) {
  const along = axisOf(axis, parts[0].shape.length);
  const shape = [...parts[0].shape];
  shape[along] = parts.reduce((total, part) => total + part.shape[along], 0);
  const [outer] = around(shape, along), row = sizeOf(shape.slice(along));
  const out = take(sizeOf(shape));
  let start = 0;
  for (const part of parts) {
    const own = sizeOf(part.shape.slice(along));
    for (let i = 0; i < outer; i++) out.set(part.data.subarray(i * own, (i + 1) * own), i * row + start);
    start += own;
  }
  return { shape, data: out };
}

function tile(x, repeats) {
  let found = x;
  repeats.forEach((times, axis) => {
    if (times !== 1) found = concat(new Array(times).fill(found), axis);
  });
  return found;
}

function pad([x, pads, value, axes]) {
  const rank = x.shape.length, half = pads.data.length / 2;
  const before = new Array(rank).fill(0), shape = [...x.shape];
  for (let i = 0; i < half; i++) {
    const axis = axisOf(axes ? axes.data[i] : i, rank);
    before[axis] = pads.data[i];
    shape[axis] += pads.data[i] + pads.data[i + half];
  }
  const out = take(sizeOf(shape)).fill(value?.data[0] ?? 0);
  const strides = stridesOf(shape), row = x.shape[rank - 1], own = stridesOf(x.shape);
  for (let from = 0; from < x.data.length; from += row) {
    let to = before[rank - 1];
    for (let axis = 0; axis < rank - 1; axis++) {
      to += ((Math.floor(from / own[axis]) % x.shape[axis]) + before[axis]) * strides[axis];
    }
    out.set(x.data.subarray(from, from + row), to);
  }
  return { shape, data: out };
}

function gather(x, index, axis) {
  const along = axisOf(axis, x.shape.length);
  const [outer, length, inner] = around(x.shape, along);
  const count = index.data.length, out = take(outer * count * inner);
  for (let i = 0; i < outer; i++) {
    for (let j = 0; j < count; j++) {
      const from = (i * length + axisOf(index.data[j], length)) * inner;
      out.set(x.data.subarray(from, from + inner), (i * count + j) * inner);
    }
  }
  return { shape: [...x.shape.slice(0, along), ...index.shape, ...x.shape.slice(along + 1)], data: out };
}

function scatter([x, index, updates], { axis = 0 }) {
  const out = copyOf(x).data, place = elementsOf(x, index, axis);
  for (let i = 0; i < index.data.length; i++) out[place(i)] = updates.data[i];
  return { shape: x.shape, data: out };
}

function gatherElements([x, index], { axis = 0 }) {
  const out = take(index.data.length), place = elementsOf(x, index, axis);
  for (let i = 0; i < out.length; i++) out[i] = x.data[place(i)];
  return { shape: index.shape, data: out };
}

/** Where in x an index points to: along one axis as it says, along the others as it lies itself. */
function elementsOf(x, index, axis) {
  const along = axisOf(axis, x.shape.length), strides = stridesOf(x.shape), own = stridesOf(index.shape);
  return (i) => own.reduce((at, stride, a) => {
    const place = a === along ? axisOf(index.data[i], x.shape[along]) : Math.floor(i / stride) % index.shape[a];
    return at + place * strides[a];
  }, 0);
}

// The last axis of an index holds a place along each of the next axes of x; batches lie side by side.
function gatherByPlaces([x, index], { batch_dims: batch = 0 }) {
  const depth = index.shape.at(-1), count = index.data.length / depth, strides = stridesOf(x.shape);
  const perBatch = count / sizeOf(x.shape.slice(0, batch)), inner = sizeOf(x.shape.slice(batch + depth));
  const out = take(count * inner);
  for (let i = 0; i < count; i++) {
    let from = batch ? Math.floor(i / perBatch) * strides[batch - 1] : 0;
    for (let k = 0; k < depth; k++) from += axisOf(index.data[i * depth + k], x.shape[batch + k]) * strides[batch + k];
    out.set(x.data.subarray(from, from + inner), i * inner);
  }
  return { shape: [...index.shape.slice(0, -1), ...x.shape.slice(batch + depth)], data: out };
}

function where([condition, a, b]) {
  const shape = broadcastShape(condition.shape, broadcastShape(a.shape, b.shape));
  const [chosen, x, y] = [condition, a, b].map((one) => expand(one, shape).data);
  const out = take(x.length);
  for (let i = 0; i < out.length; i++) out[i] = chosen[i] ? x[i] : y[i];
  return { shape, data: out };
}

// Along axes.

function placeOfBest([{ shape, data }], { axis = 0, keepdims = 1 }, isBetter) {
  const along = axisOf(axis, shape.length), [outer, length, inner] = around(shape, along);
  const out = take(outer * inner);
  for (let i = 0; i < out.length; i++) {
    const first = Math.floor(i / inner) * length * inner + (i % inner);
    let best = 0;
    for (let n = 1; n < length; n++) if (isBetter(data[first + n * inner], data[first + best * inner])) best = n;
    out[i] = best;
  }
  return { shape: keepdims ? shape.map((n, i) => (i === along ? 1 : n)) : shape.filter((_, i) => i !== along), data: out };
}

function reduced(along) {
  return ([x, axes], { keepdims = 1 }) => {
    const rank = x.shape.length;
    const gone = axes ? numbers(axes).map((axis) => axisOf(axis, rank)) : x.shape.map((_, i) => i);
    let found = x;
    for (const axis of gone) found = along(found, axis);
    return keepdims ? found : { shape: found.shape.filter((_, i) => !gone.includes(i)), data: found.data };
  };
}

function sumAlong({ shape, data }, axis) {
  const [outer, length, inner] = around(shape, axis);
  const out = take(outer * inner).fill(0), loops = loopsFor(data, out);
  const row = { count: 1, length: inner, right: [1, 1], down: [0, 0] };
  for (let i = 0, from = 0; i < out.length; i += inner) {
    for (const end = from + length * inner; from < end; from += inner) {
      if (inner >= LONG) loops.combine("add", out, data, out, row, i, from, i);
      else for (let k = 0; k < inner; k++) out[i + k] += data[from + k];
    }
  }
  return { shape: shape.map((n, i) => (i === axis ? 1 : n)), data: out };
}

function mostAlong({ shape, data }, axis) {
  const [outer, length, inner] = around(shape, axis), out = take(outer * inner).fill(-Infinity);
  for (let i = 0; i < out.length; i++) {
    const first = Math.floor(i / inner) * length * inner + (i % inner), end = first + length * inner;
    for (let at = first; at < end; at += inner) if (data[at] > out[i]) out[i] = data[at];
  }
  return { shape: shape.map((n, i) => (i === axis ? 1 : n)), data: out };
}

function logSumAlong({ shape, data }, axis) {
  const [outer, length, inner] = around(shape, axis), out = take(outer * inner);
  for (let i = 0; i < out.length; i++) {
    const first = Math.floor(i / inner) * length * inner + (i % inner), end = first + length * inner;
    let most = -Infinity, total = 0;
    for (let at = first; at < end; at += inner) if (data[at] > most) most = data[at];
    const from = Number.isFinite(most) ? most : 0; // of nothing but zeros the logarithm is -Infinity
    for (let at = first; at < end; at += inner) total += Math.exp(data[at] - from);
    out[i] = from + Math.log(total);
  }
  return { shape: shape.map((n, i) => (i === axis ? 1 : n)), data: out };
}

function softmax(x, axis, isLog) {
  const [outer, length, inner] = around(x.shape, axisOf(axis, x.shape.length));
  const data = x.data, out = take(data.length);
  for (let i = 0; i < outer; i++) {
    for (let k = 0; k < inner; k++) {
      const first = i * length * inner + k, end = first + length * inner;
      let most = -Infinity, total = 0;
      for (let at = first; at < end; at += inner) if (data[at] > most) most = data[at];
      for (let at = first; at < end; at += inner) total += out[at] = Math.exp(data[at] - most);
      const log = most + Math.log(total);
      for (let at = first; at < end; at += inner) out[at] = isLog ? data[at] - log : out[at] / total;
    }
  }
  return { shape: x.shape, data: out };
}

function layerNorm([{ shape, data }, { data: scale }, shift], { epsilon = 1e-5 }) {
  const width = shape.at(-1), out = take(data.length), raise = shift?.data ?? new Float32Array(width);
  for (let row = 0; row < data.length; row += width) {
    let mean = 0, square = 0;
    for (let i = row; i < row + width; i++) mean += data[i];
    mean /= width;
    for (let i = row; i < row + width; i++) {
      const off = data[i] - mean;
      square += off * off;
    }
    const over = 1 / Math.sqrt(square / width + epsilon);
    for (let i = 0; i < width; i++) out[row + i] = (data[row + i] - mean) * over * scale[i] + raise[i];
  }
  return { shape, data: out };
}

function gemm([a, b, c], { alpha = 1, beta = 1, transA = 0, transB = 0 }) {
  const turned = (x, is) => (is ? transpose([x], { perm: [1, 0] }) : x);
  const found = unary(matmul(turned(a, transA), turned(b, transB)), (x) => alpha * x);
  return c ? combine("add", found, unary(c, (x) => beta * x)) : found;
}
