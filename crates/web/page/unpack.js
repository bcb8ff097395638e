// Content of the page that is packed: compressed by gzip, and written in base 102.

// Five bytes are written as six digits of base 102: the characters from 25 to 127 without "<". The
// first character counts the bytes at the end that only fill the last five.
function decode(packed) {
  const bytes = new DataView(new ArrayBuffer((packed.length - 1) / 6 * 5));
  for (let at = 1, to = 0; at < packed.length; to += 5) {
    let number = 0;
    for (const end = at + 6; at < end; at += 1) {
      const code = packed.charCodeAt(at);
      number = number * 102 + code - (code > 60 ? 26 : 25);
    }
    bytes.setUint8(to, number / 2 ** 32);
    bytes.setUint32(to + 1, number);
  }
  return new Uint8Array(bytes.buffer, 0, bytes.byteLength - Number(packed[0]));
}
// A stream of the content.
function unpacked(packed) {
  return new Blob([decode(packed)]).stream().pipeThrough(new DecompressionStream("gzip"));
}
