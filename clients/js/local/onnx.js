// Reads an ONNX file: protocol buffers, of which only what `aline export` writes is understood.

import { AlineError } from "../errors.js";

const FLOAT = 1, INT32 = 6, INT64 = 7, BOOL = 9, DOUBLE = 11;
const text = new TextDecoder();

/** A file's graph: { nodes, constants, inputs, outputs, metadata }. */
export function readOnnx(bytes) {
  try {
    return modelOf(bytes);
  } catch (error) {
    if (error instanceof AlineError) throw error;
    throw new AlineError(0, `the graph is no ONNX file that aline wrote (${error.message}): export it again`);
  }
}

function modelOf(bytes) {
  const model = group(bytes);
  if (!model[7]) throw new RangeError("it has no graph");
  const graph = group(model[7][0]);
  const metadata = Object.fromEntries((model[14] ?? []).map(entryOf));
  const constants = new Map((graph[5] ?? []).map(tensorOf));
  const names = (key) => (graph[key] ?? []).map((one) => text.decode(group(one)[1][0]));
  return {
    nodes: (graph[1] ?? []).map(nodeOf),
    constants,
    inputs: names(11).filter((name) => !constants.has(name)),
    outputs: names(12),
    metadata,
  };
}

function nodeOf(bytes) {
  const node = group(bytes);
  const names = (key) => (node[key] ?? []).map((one) => text.decode(one));
  const attributes = Object.fromEntries((node[5] ?? []).map(attributeOf));
  return { type: text.decode(node[4][0]), inputs: names(1), outputs: names(2), attributes };
}

// By what is there: a float, a whole number, a text, a tensor, or whole numbers.
function attributeOf(bytes) {
  const found = group(bytes);
  const name = text.decode(found[1][0]);
  if (found[2]) return [name, floatOf(found[2][0])];
  if (found[4]) return [name, text.decode(found[4][0])];
  if (found[5]) return [name, tensorOf(found[5][0])[1]];
  if (found[8]) return [name, found[8].flatMap(wholeNumbers)];
  return [name, found[3] ? wholeNumbers(found[3][0])[0] : 0];
}

/** A tensor as [name, { shape, data }]: all numbers are kept in single precision. */
function tensorOf(bytes) {
  const found = group(bytes);
  const shape = (found[1] ?? []).flatMap(wholeNumbers);
  const name = found[8] ? text.decode(found[8][0]) : "";
  return [name, { shape, data: valuesOf(found, name) }];
}

function valuesOf(found, name) {
  const kind = found[2][0];
  if (found[9]) return Float32Array.from(rawValues(found[9][0], kind, name), Number);
  if (kind === FLOAT && found[4]) return Float32Array.from(found[4].flatMap(floats));
  return Float32Array.from((found[7] ?? found[5] ?? []).flatMap(wholeNumbers));
}

function rawValues(bytes, kind, name) {
  const whole = new Uint8Array(bytes); // a copy, at an address that suits every type
  if (kind === FLOAT) return new Float32Array(whole.buffer);
  if (kind === DOUBLE) return new Float64Array(whole.buffer);
  if (kind === BOOL) return whole;
  if (kind === INT32) return new Int32Array(whole.buffer);
  if (kind === INT64) return new BigInt64Array(whole.buffer);
  throw new AlineError(0, `the graph holds numbers of type ${kind} (${name}), which this aline.js does not know`);
}

function entryOf(bytes) {
  const entry = group(bytes);
  return [text.decode(entry[1][0]), text.decode(entry[2][0])];
}

// The wire format: a key says which field, and how long its value is.

function group(bytes) {
  const found = {};
  for (const place = { at: 0 }; place.at < bytes.length; ) {
    const key = Number(varint(bytes, place));
    (found[key >> 3] ??= []).push(fieldOf(bytes, place, key & 7));
  }
  return found;
}

function fieldOf(bytes, place, wire) {
  if (wire === 0) return varint(bytes, place);
  const length = wire === 2 ? Number(varint(bytes, place)) : { 1: 8, 5: 4 }[wire];
  if (length === undefined || place.at + length > bytes.length) throw new RangeError("it ends too soon");
  place.at += length;
  return bytes.subarray(place.at - length, place.at);
}

function varint(bytes, place) {
  let value = 0, weight = 1;
  for (let shift = 0; ; shift += 7) {
    const byte = bytes[place.at++];
    if (byte === undefined) throw new RangeError("it ends too soon");
    if (shift >= 49) return longVarint(bytes, place, byte, value, shift);
    value += (byte & 127) * weight;
    if (byte < 128) return value;
    weight *= 128;
  }
}

// Negative numbers are two's complements of 64 bits.
function longVarint(bytes, place, byte, start, shift) {
  let value = BigInt(start);
  for (let at = BigInt(shift); ; at += 7n, byte = bytes[place.at++]) {
    value |= BigInt(byte & 127) << at;
    if (byte < 128) return Number(BigInt.asIntN(64, value));
  }
}

function wholeNumbers(field) {
  if (typeof field === "number") return [field];
  const found = [];
  for (const place = { at: 0 }; place.at < field.length; ) found.push(varint(field, place));
  return found;
}

function floats(field) {
  return Array.from({ length: field.length / 4 }, (_, i) => floatOf(field.subarray(4 * i)));
}

function floatOf(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, 4).getFloat32(0, true);
}
