// Puts WebAssembly together from its instructions, so that nothing has to be built.
// https://webassembly.github.io/spec/core/binary

const I32 = 0x7f, V128 = 0x7b;
const MEMORY = ["at", "memory"]; // what a module imports

const count = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...count(n >> 7)]);
const sized = (bytes) => [...count(bytes.length), ...bytes];
const text = (name) => sized([...new TextEncoder().encode(name)]);
const section = (id, parts) => [id, ...sized([...count(parts.length), ...parts.flat()])];

/** A function: its parameters are addresses and sizes in bytes, then come its own numbers. */
export const define = (parameters, numbers, vectors, ...body) => ({ parameters, numbers, vectors, body: body.flat() });

/** A module of functions by name, which share one memory. */
export function assemble(functions) {
  const all = Object.values(functions), names = Object.keys(functions);
  return Uint8Array.from([
    0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    ...section(1, all.map(({ parameters }) => [0x60, ...sized(new Array(parameters).fill(I32)), 0])),
    ...section(2, [[...MEMORY.flatMap(text), 2, 0, 1]]),
    ...section(3, all.map((_, i) => [i])),
    ...section(7, names.map((name, i) => [...text(name), 0, i])),
    ...section(10, all.map(({ numbers, vectors, body }) => sized([2, numbers, I32, vectors, V128, ...body, 0x0b]))),
  ]);
}

export const get = (local) => [0x20, local];
export const set = (local, ...value) => [...value.flat(), 0x21, local];
const signed = (n) => (n >= -64 && n < 64 ? [n & 127] : [(n & 127) | 128, ...signed(n >> 7)]);
export const number = (n) => [0x41, ...signed(n)];
export const plus = [0x6a], minus = [0x6b], times = [0x6c], both = [0x71], isBelow = [0x49], either = [0x1b];
export const raise = (local, ...by) => [...get(local), ...by.flat(), ...plus, ...set(local)];

/** A body that is done at least once, and again while one number is below another. */
export const whileBelow = (local, end, ...body) => [0x03, 0x40, ...body.flat(), ...get(local), ...get(end), ...isBelow, 0x0d, 0, 0x0b];
/** The same, or not at all. */
export const loop = (local, end, ...body) => [...get(local), ...get(end), ...isBelow, 0x04, 0x40, ...whileBelow(local, end, ...body), 0x0b];

const prefixed = (code) => [0xfd, ...count(code)];
const f32 = (value) => [...new Uint8Array(Float32Array.of(value).buffer)];
/** Four numbers, and one: each instruction under the same name. */
export const FOUR = {
  bytes: 16, load: (offset = 0) => [0xfd, 0x00, 2, offset], loadOne: [0xfd, 0x09, 2, 0], store: (offset = 0) => [0xfd, 0x0b, 2, offset],
  value: (x) => [0x43, ...f32(x), 0xfd, 0x13],
  whole: (n) => [0x41, ...signed(n), 0xfd, 0x11], toWhole: prefixed(0xf8), addWhole: prefixed(0xae), shiftLeft: prefixed(0xab), nearest: prefixed(0x6a), isAbove: [0xfd, 0x44], and: [0xfd, 0x4e],
  add: prefixed(0xe4), subtract: prefixed(0xe5), multiply: prefixed(0xe6), divide: prefixed(0xe7), least: prefixed(0xe8), most: prefixed(0xe9),
};
export const ONE = {
  bytes: 4, load: (offset = 0) => [0x2a, 2, offset], loadOne: [0x2a, 2, 0], store: (offset = 0) => [0x38, 2, offset],
  value: (x) => [0x43, ...f32(x)],
  add: [0x92], subtract: [0x93], multiply: [0x94], divide: [0x95], least: [0x96], most: [0x97],
};
