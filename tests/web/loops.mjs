// The loops in WebAssembly beside those in plain JavaScript: the largest differences on random numbers.

import { readFileSync } from "node:fs";

const [, , library, file] = process.argv;
const { onMemory, openKernels, PLAIN } = await import(`${library}/local/kernels.js`);
const { Generator } = await import(`${library}/local/random.js`);
const { products, rows: sizes } = JSON.parse(readFileSync(file));
const kernels = openKernels(), generator = new Generator(1);
let end = 16;
function inMemory(values) {
  const found = new Float32Array(kernels.memory.buffer, end, values.length);
  end += 16 * Math.ceil(values.length / 4);
  found.set(values);
  return found;
}
const fast = onMemory(kernels, (count) => inMemory(new Float32Array(count)));
const random = (count) => Float32Array.from(generator.uniform(count), (x) => 8 * (x - 0.5));

/** Both do the same with arrays, of which the last is changed. */
function difference(work, arrays) {
  end = 16;
  const own = arrays.map((one) => one?.slice()), other = arrays.map((one) => one && inMemory(one));
  work(PLAIN, ...own);
  work(fast, ...other);
  const found = other.at(-1);
  return Math.max(...own.at(-1).map((x, i) => Math.abs(x - found[i]) / Math.max(1, Math.abs(x))));
}

const found = { hasWebAssembly: kernels !== null, product: [], combine: [], relu: [], hardSwish: [], exp: [] };
for (const [height, inner, columns] of products) {
  for (const row of [null, random(columns)]) {
    const arrays = [random(height * inner), random(inner * columns), row, new Float32Array(height * columns)];
    found.product.push(difference((loops, ...given) => loops.product(...given, height, inner, columns), arrays));
  }
}
for (const operation of ["add", "subtract", "multiply", "divide", "least", "most"]) {
  for (const [count, length] of sizes) {
    for (const right of [[1, 1], [1, 0], [0, 1]]) {
      const rows = { count, length, right, down: [length, 1] };
      const arrays = [random(count * length + 9), random(count * length + 9), new Float32Array(count * length + 9)];
      found.combine.push(difference((loops, x, y, out) => loops.combine(operation, x, y, out, rows, 1, 2, 3), arrays));
    }
  }
}
for (const name of ["relu", "hardSwish", "exp"]) {
  for (const [, length] of sizes) found[name].push(difference((loops, data) => loops[name](data), [random(length)]));
}
console.log(JSON.stringify(found));
