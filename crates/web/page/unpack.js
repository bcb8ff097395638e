// Content of the page that is packed: compressed by gzip, and written in base 102.

// Five bytes are written as six digits of base 102: the characters from 25 to 127 without "<".
function decode(packed, from, to) {
  const bytes = new DataView(new ArrayBuffer((to - from) / 6 * 5));
  for (let at = from, next = 0; at < to; next += 5) {
    let number = 0;
    for (const end = at + 6; at < end; at += 1) {
      const code = packed.charCodeAt(at);
      number = number * 102 + code - (code > 60 ? 26 : 25);
    }
    bytes.setUint8(next, number / 2 ** 32);
    bytes.setUint32(next + 1, number);
  }
  return new Uint8Array(bytes.buffer);
}
// A stream of the content, decoded in pieces while others unpack and compile those before. The
// first character counts the bytes at the end that only fill the last five.
function unpacked(packed) {
  let at = 1;
  const pieces = new ReadableStream({
    pull(stream) {
      const end = Math.min(at + 6 * 8192, packed.length);
      const bytes = decode(packed, at, end);
      at = end;
      stream.enqueue(at < packed.length ? bytes : bytes.subarray(0, bytes.length - Number(packed[0])));
      if (at === packed.length) stream.close();
    },
  });
  return pieces.pipeThrough(new DecompressionStream("gzip"));
}
