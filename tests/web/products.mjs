// Multiplies random matrices, [rows, inner, columns] each, in WebAssembly and in plain JavaScript.

import { readFileSync } from "node:fs";

const [, , library, file] = process.argv;
const { openFast, plainProduct } = await import(`${library}/local/products.js`);
const { Generator } = await import(`${library}/local/random.js`);
const fast = openFast(), generator = new Generator(1);
const random = (count) => Float64Array.from(generator.uniform(count), (x) => x - 0.5);
const differences = JSON.parse(readFileSync(file)).flatMap(([rows, inner, columns]) => [null, random(columns)].map((row) => {
  const a = random(rows * inner), b = random(inner * columns);
  const [one, other] = [plainProduct, fast.product.bind(fast)].map((multiply) => {
    const out = new Float64Array(rows * columns);
    multiply(a, b, row, out, rows, inner, columns);
    return out;
  });
  return Math.max(...one.map((x, i) => Math.abs(x - other[i])));
}));
console.log(JSON.stringify({ hasWebAssembly: fast !== null, differences }));
