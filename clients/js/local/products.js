// Matrix products, where most of a run's time goes: in WebAssembly where the browser has it.
//
// The WebAssembly is put together here, from a dozen instructions, so that nothing has to be built. It
// takes two numbers at a time in double precision, as JavaScript computes, so both give the same.

const BLOCK = 4; // rows and columns at a time: their 16 sums stay in registers
const FEW = 512; // multiplications below which copying the numbers there and back takes longer
const PAGE = 65536; // bytes
const WIDE = 8; // bytes of a number

/** a [rows, inner] times b [inner, columns], plus a row if there is one, into out. */
export function product(a, b, row, out, rows, inner, columns) {
  if (fast === undefined) fast = openFast();
  if (fast && rows * inner * columns >= FEW) fast.product(a, b, row, out, rows, inner, columns);
  else plainProduct(a, b, row, out, rows, inner, columns);
}

let fast; // undefined until it was tried, null where it cannot be

/** The same in plain JavaScript: two rows by four columns at a time. A last row without a partner is
 *  its own. */
export function plainProduct(a, b, row, out, rows, inner, columns) {
  const fours = columns - (columns % 4);
  for (let i = 0; i < rows; i += 2) {
    const partner = i + 1 < rows ? 1 : 0;
    const top = i * inner, bottom = top + partner * inner;
    const to = i * columns, below = to + partner * columns;
    for (let j = 0; j < fours; j += 4) {
      let s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      if (row) { s0 = row[j]; s1 = row[j + 1]; s2 = row[j + 2]; s3 = row[j + 3]; }
      let t0 = s0, t1 = s1, t2 = s2, t3 = s3;
      for (let k = 0, at = j; k < inner; k++, at += columns) {
        const x = a[top + k], y = a[bottom + k];
        const b0 = b[at], b1 = b[at + 1], b2 = b[at + 2], b3 = b[at + 3];
        s0 += x * b0; s1 += x * b1; s2 += x * b2; s3 += x * b3;
        t0 += y * b0; t1 += y * b1; t2 += y * b2; t3 += y * b3;
      }
      out[to + j] = s0; out[to + j + 1] = s1; out[to + j + 2] = s2; out[to + j + 3] = s3;
      out[below + j] = t0; out[below + j + 1] = t1; out[below + j + 2] = t2; out[below + j + 3] = t3;
    }
  }
  for (let j = fours; j < columns; j++) {
    for (let i = 0; i < rows; i++) {
      let sum = row ? row[j] : 0;
      for (let k = 0; k < inner; k++) sum += a[i * inner + k] * b[k * columns + j];
      out[i * columns + j] = sum;
    }
  }
}

/** Products in WebAssembly, or null where it is missing or the page's rules forbid it. */
export function openFast() {
  try {
    return new Fast();
  } catch {
    return null;
  }
}

/** Its memory holds the matrices of the product at hand. Columns come in blocks there: the last one is
 *  filled up with whatever is there, and nobody reads what comes of it. */
class Fast {
  constructor() {
    this.memory = new WebAssembly.Memory({ initial: 16 });
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(MODULE), { at: { memory: this.memory } });
    this.run = exports.product;
    this.numbers = new Float64Array(this.memory.buffer);
  }

  product(a, b, row, out, rows, inner, columns) {
    const wide = Math.ceil(columns / BLOCK) * BLOCK;
    const atA = wide, atB = atA + rows * inner, atOut = atB + inner * wide; // the row is at 0
    this.reach(atOut + rows * wide);
    const { numbers } = this;
    if (row) numbers.set(row);
    else numbers.fill(0, 0, wide);
    numbers.set(a, atA);
    copyRows(b, 0, columns, numbers, atB, wide, inner, columns);
    this.run(WIDE * atA, WIDE * atB, 0, WIDE * atOut, rows, WIDE * inner, WIDE * wide);
    copyRows(numbers, atOut, wide, out, 0, columns, rows, columns);
  }

  reach(count) {
    const missing = WIDE * count - this.memory.buffer.byteLength;
    if (missing <= 0) return;
    this.memory.grow(Math.ceil(missing / PAGE));
    this.numbers = new Float64Array(this.memory.buffer);
  }
}

function copyRows(from, start, stride, to, place, wide, rows, columns) {
  if (stride === wide) return to.set(from.subarray(start, start + rows * wide), place);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) to[place + i * wide + j] = from[start + i * stride + j];
  }
}

// The module: https://webassembly.github.io/spec/core/binary

const count = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...count(n >> 7)]);
const section = (id, ...parts) => [id, ...sized([parts.length, ...parts.flat()])];
const sized = (bytes) => [...count(bytes.length), ...bytes];
const text = (name) => sized([...new TextEncoder().encode(name)]);

const I32 = 0x7f, V128 = 0x7b;
const get = (local) => [0x20, local], set = (local) => [0x21, local];
const number = (n) => [0x41, n]; // of at most 63
const plus = [0x6a], times = [0x6c], isBelow = [0x49], either = [0x1b];
const again = (...body) => [0x03, 0x40, ...body.flat(), 0x0b]; // a loop; the body says when
const whileBelow = (local, end) => [...get(local), ...get(end), ...isBelow, 0x0d, 0];
const raise = (local, by) => [...get(local), ...by, ...plus, ...set(local)];
const load = (offset) => [0xfd, 0x00, 3, offset], loadTwice = [0xfd, 0x0a, 3, 0], store = (offset) => [0xfd, 0x0b, 3, offset];
const plusTwo = [0xfd, 0xf0, 0x01], timesTwo = [0xfd, 0xf2, 0x01];

const [A, B, ROW, OUT, ROWS, INNER, COLUMNS] = [0, 1, 2, 3, 4, 5, 6]; // addresses; sizes of rows in bytes
const [I, J, K, AT_B, LAST] = [7, 8, 9, 10, 11];
const FROM = [12, 13, 14, 15], TO = [16, 17, 18, 19]; // where four rows of a and of the product lie
const B0 = 20, B1 = 21, X = 22, SUMS = [23, 24, 25, 26, 27, 28, 29, 30];
const FOUR = [0, 1, 2, 3];

// Rows beyond the last one are the last one again.
const rowNumber = (n) => [...get(I), ...number(n), ...plus, ...get(LAST), ...get(I), ...number(n), ...plus, ...get(ROWS), ...isBelow, ...either];
const rowPlace = (n, base, size) => [...get(base), ...rowNumber(n), ...get(size), ...times, ...plus];

const addProduct = (sum, b) => [...get(sum), ...get(X), ...get(b), ...timesTwo, ...plusTwo, ...set(sum)];
const inner = again(
  get(AT_B), load(0), set(B0), get(AT_B), load(16), set(B1),
  ...FOUR.map((n) => [
    ...get(FROM[n]), ...get(K), ...plus, ...loadTwice, ...set(X), ...addProduct(SUMS[2 * n], B0), ...addProduct(SUMS[2 * n + 1], B1),
  ]),
  raise(AT_B, get(COLUMNS)), raise(K, number(8)), whileBelow(K, INNER),
);
const firstSum = (half) => [...get(ROW), ...get(J), ...plus, ...load(16 * half)];
const columns = again(
  ...FOUR.map((n) => [...firstSum(0), ...set(SUMS[2 * n]), ...firstSum(1), ...set(SUMS[2 * n + 1])]),
  get(B), get(J), plus, set(AT_B), number(0), set(K), inner,
  ...FOUR.map((n) => [0, 1].flatMap((half) => [...get(TO[n]), ...get(J), ...plus, ...get(SUMS[2 * n + half]), ...store(16 * half)])),
  raise(J, number(32)), whileBelow(J, COLUMNS),
);
const body = [
  get(ROWS), number(1), [0x6b], set(LAST),
  again(
    ...FOUR.map((n) => [...rowPlace(n, A, INNER), ...set(FROM[n]), ...rowPlace(n, OUT, COLUMNS), ...set(TO[n])]),
    number(0), set(J), columns, raise(I, number(4)), whileBelow(I, ROWS),
  ),
].flat();
const locals = [2, 13, I32, 11, V128]; // I to TO, then the rest

const MODULE = Uint8Array.from([
  0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
  ...section(1, [0x60, ...sized(new Array(7).fill(I32)), 0]),
  ...section(2, [...text("at"), ...text("memory"), 2, 0, 1]),
  ...section(3, [0]),
  ...section(7, [...text("product"), 0, 0]),
  ...section(10, sized([...locals, ...body, 0x0b])),
]);
