// Content of the page that is packed: compressed by gzip, and written in base 125.

// Six bytes are written as seven digits of base 125: the characters from 1 to 127 without "\r" and
// "<".
function decode(packed, from, to) {
  const bytes = new DataView(new ArrayBuffer((to - from) / 7 * 6));
  for (let at = from, next = 0; at < to; next += 6) {
    let number = 0;
    for (const end = at + 7; at < end; at += 1) {
      const code = packed.charCodeAt(at);
      number = number * 125 + code - (code > 60 ? 3 : code > 13 ? 2 : 1);
    }
    bytes.setUint16(next, number / 2 ** 32);
    bytes.setUint32(next + 2, number);
  }
  return new Uint8Array(bytes.buffer);
}
// A stream of the content, decoded in pieces while others unpack and compile those before. The
// first character counts the bytes at the end that only fill the last six.
function unpacked(packed) {
  let at = 1;
  const pieces = new ReadableStream({
    pull(stream) {
      const end = Math.min(at + 7 * 8192, packed.length);
      const bytes = decode(packed, at, end);
      at = end;
      stream.enqueue(at < packed.length ? bytes : bytes.subarray(0, bytes.length - Number(packed[0])));
      if (at === packed.length) stream.close();
    },
  });
  return pieces.pipeThrough(new DecompressionStream("gzip"));
}
