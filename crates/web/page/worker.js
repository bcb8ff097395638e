// Runs the planner. A message is a request with a number; the answer has the same number.
let begin = null;
// What the planner exports, once it has come.
const ready = new Promise((resolve) => { begin = resolve; });
async function load({ unpacker, packed, failed }) {
  if (failed) throw new Error(failed);
  const { memory, unpack_allocate, unpack } = (await WebAssembly.instantiate(unpacker)).exports;
  const at = unpack_allocate(packed.length);
  new TextEncoder().encodeInto(packed, new Uint8Array(memory.buffer, at));
  const content = unpack(at, packed.length);
  if (content === 0) throw new Error("the page is damaged");
  const length = new DataView(memory.buffer).getUint32(content, true);
  const module = new WebAssembly.Module(new Uint8Array(memory.buffer, content + 4, length));
  return new WebAssembly.Instance(module).exports;
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
    if (data.number === undefined) begin(load(data));
    else postMessage({ number: data.number, answer: ask(await ready, data.request) });
  } catch (why) {
    postMessage({ number: data.number, answer: { error: `the planner failed: ${why.message}` } });
  }
};
