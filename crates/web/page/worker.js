// Runs the planner. A message is a request with a number; the answer has the same number.
let ready = null;
// Compiles while it unpacks.
async function load(packed) {
  const code = new Response(unpacked(packed), { headers: { "Content-Type": "application/wasm" } });
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
