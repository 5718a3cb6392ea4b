// Draws numbers: [{ text, seed }] to a checksum and draws.

import { readFileSync } from "node:fs";

const [, , library, file] = process.argv;
const { crc32, Generator } = await import(`${library}/local/random.js`);
const found = JSON.parse(readFileSync(file)).map(({ text, seed }) => {
  const generator = new Generator(seed);
  return {
    crc32: crc32(text), uniform: generator.uniform(700),
    normal2: generator.normal(2), normal3: generator.normal(3), normal40: generator.normal(40),
  };
});
console.log(JSON.stringify(found));
