// Runs the planner. A message is a request with a number; the answer has the same number.
let ready = null;
// Older browsers have no fromBase64. A callback for each byte would take most of the start.
function decode(packed) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(packed);
  const text = atob(packed);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  return bytes;
}
// Compiles while it unpacks.
async function load(packed) {
  const stream = new Blob([decode(packed)]).stream().pipeThrough(new DecompressionStream("gzip"));
  const code = new Response(stream, { headers: { "Content-Type": "application/wasm" } });
  const { instance } = await WebAssembly.instantiateStreaming(code, {});
  return instance.exports;
}
function ask(topo, request) {
  const bytes = new TextEncoder().encode(JSON.stringify(request));
  const at = topo.topo_allocate(bytes.length);
  if (at === 0) throw new Error("the request is too long");
  new Uint8Array(topo.memory.buffer, at, bytes.length).set(bytes);
  const answer = topo.topo_answer(at, bytes.length);
  if (answer === 0) throw new Error("there is not enough memory for the answer");
  const length = new DataView(topo.memory.buffer).getUint32(answer, true);
  const text = new TextDecoder().decode(new Uint8Array(topo.memory.buffer, answer + 4, length));
  topo.topo_free(answer, length + 4);
  return JSON.parse(text);
}
onmessage = async ({ data }) => {
  try {
    if (data.module) ready = load(data.module);
    else postMessage({ number: data.number, answer: ask(await ready, data.request) });
  } catch (why) {
    postMessage({ number: data.number, answer: { error: `the planner failed: ${why.message}` } });
  }
};
