// Content of the page that is packed: compressed by gzip, and written in base 85.

// Four bytes are written as five digits of base 85; digit 0 is "#", and "x" replaces "<". The first
// character counts the bytes at the end that only fill the last four.
function decode(packed) {
  const words = new DataView(new ArrayBuffer((packed.length - 1) / 5 * 4));
  for (let at = 1, to = 0; at < packed.length; to += 4) {
    let word = 0;
    for (const end = at + 5; at < end; at += 1) {
      const code = packed.charCodeAt(at);
      word = word * 85 + (code === 120 ? 60 : code) - 35;
    }
    words.setUint32(to, word);
  }
  return new Uint8Array(words.buffer, 0, words.byteLength - Number(packed[0]));
}
// A stream of the content.
function unpacked(packed) {
  return new Blob([decode(packed)]).stream().pipeThrough(new DecompressionStream("gzip"));
}
