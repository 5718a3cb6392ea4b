// Numbers drawn as PyTorch draws them, so that a seed gives the candidates that Python gets.

/** The checksum of bytes, or of a text: zlib's crc32. */
export function crc32(given) {
  const bytes = typeof given === "string" ? new TextEncoder().encode(given) : given;
  let crc = ~0;
  for (let i = 0; i < bytes.length; i++) crc = (crc >>> 8) ^ TABLE[(crc ^ bytes[i]) & 255];
  return ~crc >>> 0;
}

const TABLE = Int32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n;
});

const SIZE = 624, SHIFT = 397;
const FEW = 16; // normal numbers from which on PyTorch draws them another way

/** The Mersenne Twister. */
export class Generator {
  constructor(seed) {
    const state = (this.state = new Uint32Array(SIZE));
    state[0] = seed;
    for (let i = 1; i < SIZE; i++) state[i] = Math.imul(1812433253, state[i - 1] ^ (state[i - 1] >>> 30)) + i;
    this.at = SIZE;
    this.spare = null; // a normal number that was drawn together with the last one
  }

  /** 32 random bits. */
  bits() {
    if (this.at === SIZE) this.twist();
    let x = this.state[this.at++];
    x ^= x >>> 11;
    x ^= (x << 7) & 0x9d2c5680;
    x ^= (x << 15) & 0xefc60000;
    return (x ^ (x >>> 18)) >>> 0;
  }

  twist() {
    const s = this.state;
    for (let i = 0; i < SIZE; i++) {
      const mixed = (s[i] & 0x80000000) | (s[(i + 1) % SIZE] & 0x7fffffff);
      s[i] = s[(i + SHIFT) % SIZE] ^ (mixed >>> 1) ^ (mixed & 1 ? 0x9908b0df : 0);
    }
    this.at = 0;
  }

  /** torch.rand(count), in single precision. */
  uniform(count) {
    return Array.from({ length: count }, () => (this.bits() & 0xffffff) / 2 ** 24);
  }

  /** torch.randn(count), to single precision. */
  normal(count) {
    return count < FEW ? Array.from({ length: count }, () => this.oneNormal()) : this.manyNormals(count);
  }

  /** In [0, 1) with 53 bits. */
  double() {
    const high = this.bits() & 0x1fffff;
    return (high * 2 ** 32 + this.bits()) / 2 ** 53;
  }

  oneNormal() {
    if (this.spare !== null) {
      const kept = this.spare;
      this.spare = null;
      return Math.fround(kept);
    }
    const angle = 2 * Math.PI * this.double();
    const radius = Math.sqrt(-2 * Math.log1p(-this.double()));
    this.spare = radius * Math.sin(angle);
    return Math.fround(radius * Math.cos(angle));
  }

  // Sixteen at a time, of eight pairs; the last sixteen are drawn anew where they are not full.
  manyNormals(count) {
    const found = this.uniform(count);
    for (let i = 0; i + FEW <= count; i += FEW) pairs(found, i);
    if (count % FEW) {
      found.splice(count - FEW, FEW, ...this.uniform(FEW));
      pairs(found, count - FEW);
    }
    return found;
  }
}

function pairs(numbers, start) {
  for (let i = start; i < start + FEW / 2; i++) {
    const radius = Math.sqrt(-2 * Math.log(1 - numbers[i])), angle = 2 * Math.PI * numbers[i + FEW / 2];
    numbers[i] = Math.fround(radius * Math.cos(angle));
    numbers[i + FEW / 2] = Math.fround(radius * Math.sin(angle));
  }
}
