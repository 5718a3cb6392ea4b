// The loops where a run's time goes: products, sums of rows, bends. In WebAssembly, four numbers at a time,
// on arrays that lie in its memory; in plain JavaScript on others. Both round after each step to single
// precision, as ONNX Runtime does, and give the same (exponentials: to a last bit or two).

import { assemble, both, define, either, FOUR, get, isBelow, loop, minus, number, ONE, plus, raise, set, times, whileBelow } from "./assembler.js";

const { fround } = Math;
const BLOCK = 8; // columns at a time, of four rows: their 32 sums stay in registers
const WIDE = 4; // bytes of a number
const PAGES = 256; // 16 MB, of which a browser gives what is used

/** The memory and the loops on it; null where WebAssembly is missing or the page's rules forbid it. */
export function openKernels() {
  try {
    const memory = new WebAssembly.Memory({ initial: PAGES });
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(assemble(module())), { at: { memory } });
    return { memory, ...exports };
  } catch {
    return null;
  }
}

/** Plain JavaScript, on any arrays. */
export const PLAIN = {
  /** a [rows, inner] times b [inner, columns], plus a row if there is one, into out. */
  product(a, b, row, out, rows, inner, columns) {
    for (let i = 0, to = 0; i < rows; i++, to += columns) {
      for (let j = 0; j < columns; j++) out[to + j] = row ? row[j] : 0;
      for (let k = 0, at = 0; k < inner; k++, at += columns) {
        const x = a[i * inner + k];
        for (let j = 0; j < columns; j++) out[to + j] += fround(x * b[at + j]);
      }
    }
  },

  /** `count` rows of `length`, from these places on: x and y go on by their steps, and stay at one number
   *  where they repeat it. */
  combine(operation, x, y, out, { count, length, right, down }, atX, atY, to) {
    const work = ARITHMETIC[operation];
    for (let i = 0; i < count; i++, atX += down[0], atY += down[1]) {
      for (let k = 0; k < length; k++) out[to++] = work(x[atX + k * right[0]], y[atY + k * right[1]]);
    }
  },

  relu(data) {
    for (let i = 0; i < data.length; i++) data[i] = Math.max(data[i], 0);
  },

  hardSwish(data) {
    for (let i = 0; i < data.length; i++) {
      const x = data[i];
      data[i] = fround(x * Math.min(Math.max(fround(x + 3), 0), 6)) / 6;
    }
  },

  exp(data) {
    for (let i = 0; i < data.length; i++) data[i] = data[i] > LEAST ? Math.exp(data[i]) : 0;
  },
};

const ARITHMETIC = { add: (x, y) => x + y, subtract: (x, y) => x - y, multiply: (x, y) => x * y, divide: (x, y) => x / y, least: Math.min, most: Math.max };

/** The same by the loops in WebAssembly, on arrays in their memory. */
export function onMemory(kernels, scratch) {
  const combinations = Object.fromEntries(Object.keys(ARITHMETIC).map((name) => [name, ["", "ByOne", "OneBy"].map((how) => kernels[name + how])]));
  const bend = (name) => (data) => kernels[name](data.byteOffset, data.byteOffset + WIDE * data.length);
  return {
    product(a, b, row, out, rows, inner, columns) {
      if (columns < BLOCK) return narrowProduct(this, scratch, a, b, row, out, rows, inner, columns);
      if (row) kernels.productPlus(a.byteOffset, b.byteOffset, row.byteOffset, out.byteOffset, rows, WIDE * inner, WIDE * columns);
      else kernels.product(a.byteOffset, b.byteOffset, 0, out.byteOffset, rows, WIDE * inner, WIDE * columns);
    },

    combine(operation, x, y, out, { count, length, right, down }, atX, atY, to) {
      const work = combinations[operation][right[0] === right[1] ? 0 : right[0] ? 1 : 2];
      const a = x.byteOffset + WIDE * atX, b = y.byteOffset + WIDE * atY, c = out.byteOffset + WIDE * to;
      work(a, b, c, count, WIDE * length, WIDE * down[0], WIDE * down[1]);
    },

    relu: bend("relu"),
    hardSwish: bend("hardSwish"),
    exp: bend("exp"),
  };
}

// Of few columns: as many of zeros beside them as make a block.
function narrowProduct(wide, scratch, a, b, row, out, rows, inner, columns) {
  const padded = scratch(inner * BLOCK).fill(0), found = scratch(rows * BLOCK), first = row && scratch(BLOCK).fill(0);
  if (row) first.set(row);
  for (let k = 0; k < inner; k++) for (let j = 0; j < columns; j++) padded[k * BLOCK + j] = b[k * columns + j];
  wide.product(a, padded, first, found, rows, inner, BLOCK);
  for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) out[i * columns + j] = found[i * BLOCK + j];
}

// Products: four rows and eight columns at a time. Rows beyond the last one are the last one again, and
// the last columns may overlap those before them: what is computed twice is the same.

const [A, B, ROW, OUT, ROWS, INNER, COLUMNS] = [0, 1, 2, 3, 4, 5, 6]; // addresses; sizes of rows in bytes
const [I, J, K, AT_B, LAST, EDGE] = [7, 8, 9, 10, 11, 12];
const FROM = [13, 14, 15, 16], TO = [17, 18, 19, 20]; // where four rows of a and of the product lie
const B0 = 21, B1 = 22, X = 23, SUMS = [24, 25, 26, 27, 28, 29, 30, 31];
const EACH = [0, 1, 2, 3], HALVES = [0, 1];

const rowNumber = (n) => [get(I), number(n), plus, get(LAST), get(I), number(n), plus, get(ROWS), isBelow, either].flat();
const rowPlace = (n, base, size) => [...get(base), ...rowNumber(n), ...get(size), ...times, ...plus];
const addProduct = (sum, b) => set(sum, get(sum), get(X), get(b), FOUR.multiply, FOUR.add);

const inner = whileBelow(
  K, INNER,
  set(B0, get(AT_B), FOUR.load()), set(B1, get(AT_B), FOUR.load(16)),
  ...EACH.map((n) => [...set(X, get(FROM[n]), get(K), plus, FOUR.loadOne), ...addProduct(SUMS[2 * n], B0), ...addProduct(SUMS[2 * n + 1], B1)]),
  raise(AT_B, get(COLUMNS)), raise(K, number(WIDE)),
);
const firstSums = (hasRow) => HALVES.flatMap((half) => EACH.flatMap((n) => {
  return set(SUMS[2 * n + half], hasRow ? [get(ROW), get(J), plus, FOUR.load(16 * half)].flat() : FOUR.value(0));
}));
const columns = (hasRow) => whileBelow(
  J, COLUMNS,
  set(J, get(J), get(EDGE), get(J), get(EDGE), isBelow, either),
  firstSums(hasRow), set(AT_B, get(B), get(J), plus), set(K, number(0)), inner,
  ...EACH.flatMap((n) => HALVES.map((half) => [get(TO[n]), get(J), plus, get(SUMS[2 * n + half]), FOUR.store(16 * half)].flat())),
  raise(J, number(WIDE * BLOCK)),
);
const productOf = (hasRow) => define(
  7, 14, 11,
  set(LAST, get(ROWS), number(1), minus), set(EDGE, get(COLUMNS), number(WIDE * BLOCK), minus), set(I, number(0)),
  loop(
    I, ROWS,
    ...EACH.flatMap((n) => [set(FROM[n], rowPlace(n, A, INNER)), set(TO[n], rowPlace(n, OUT, COLUMNS))]),
    set(J, number(0)), columns(hasRow), raise(I, number(4)),
  ),
);

// Rows combined: x and y are at 0 and 1, and go on by steps of their own. Of what is repeated, one number
// is read once a row.

const [COUNT, LENGTH, STEP_X, STEP_Y, DONE, AT, FOURS] = [3, 4, 5, 6, 7, 8, 9], ONES = [10, 11];
const MULTIPLE = number(-16); // all but the last four bits

function combination(operation, repeated) {
  const values = (kind, i) => (repeated === i ? (kind === FOUR ? get(ONES[i]) : [...get(i), ...kind.loadOne]) : [...get(i), ...get(AT), ...plus, ...kind.load()]);
  const step = (kind) => [
    ...get(2), ...get(AT), ...plus, ...values(kind, 0), ...values(kind, 1), ...kind[operation], ...kind.store(), ...raise(AT, number(kind.bytes)),
  ];
  return define(
    7, 3, 2,
    set(FOURS, get(LENGTH), MULTIPLE, both),
    loop(
      DONE, COUNT,
      repeated === null ? [] : set(ONES[repeated], get(repeated), FOUR.loadOne),
      set(AT, number(0)), loop(AT, FOURS, step(FOUR)), loop(AT, LENGTH, step(ONE)),
      raise(0, get(STEP_X)), raise(1, get(STEP_Y)), raise(2, get(LENGTH)), raise(DONE, number(1)),
    ),
  );
}
const everyWay = (operation) => ({ [operation]: combination(operation, null), [`${operation}ByOne`]: combination(operation, 1), [`${operation}OneBy`]: combination(operation, 0) });

// Bends, in place, from an address to an end; arrays are filled up to a multiple of four.

const bend = (...work) => define(2, 0, 3, loop(0, 1, get(0), set(2, get(0), FOUR.load()), work.flat(), FOUR.store(), raise(0, number(16))));
const clamped = [get(2), FOUR.value(3), FOUR.add, FOUR.value(0), FOUR.most, FOUR.value(6), FOUR.least].flat();

// e^x is 2^n e^r, with n whole and r at most half of log 2, where seven terms of the series are exact to the
// last bit or two. Below e^-80 it is 0: numbers that are nearly 0 take a processor many times as long.
const HALVES_OF_LOG_2 = [0.693359375, -2.12194440e-4]; // the first has few digits: n times it is exact
const [N, R] = [3, 4], LEAST = -80;
const series = [5040, 720, 120, 24, 6, 2, 1].flatMap((factorial, i) => (i ? [get(R), FOUR.multiply, FOUR.value(1 / factorial), FOUR.add] : [FOUR.value(1 / factorial)])).flat();
const exponential = [
  set(2, get(2), FOUR.value(LEAST), FOUR.most, FOUR.value(88), FOUR.least),
  set(N, get(2), FOUR.value(Math.LOG2E), FOUR.multiply, FOUR.nearest),
  set(R, get(2), ...HALVES_OF_LOG_2.flatMap((part) => [get(N), FOUR.value(part), FOUR.multiply, FOUR.subtract])),
  series, get(R), FOUR.multiply, FOUR.value(1), FOUR.add,
  get(N), FOUR.toWhole, FOUR.whole(127), FOUR.addWhole, number(23), FOUR.shiftLeft, FOUR.multiply,
  get(2), FOUR.value(LEAST), FOUR.isAbove, FOUR.and,
].flat();

const module = () => ({
  product: productOf(false),
  productPlus: productOf(true),
  ...Object.assign({}, ...Object.keys(ARITHMETIC).map(everyWay)),
  relu: bend(get(2), FOUR.value(0), FOUR.most),
  hardSwish: bend(get(2), clamped, FOUR.multiply, FOUR.value(6), FOUR.divide),
  exp: bend(exponential),
});
