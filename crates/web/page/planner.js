// The workers that run the planner: each unpacks it, beside the page. The first one starts while the
// browser still reads the page.
const complete = new Promise((resolve) => { addEventListener("DOMContentLoaded", resolve); });
const unpacker = unpacked("unpacker").arrayBuffer().then((it) => WebAssembly.compile(it));
function planner() {
  const worker = new Worker(URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" })));
  const load = async () => {
    await complete;
    return { unpacker: await unpacker, packed: document.getElementById("module").textContent };
  };
  load().catch((why) => ({ failed: why.message })).then((it) => worker.postMessage(it));
  return worker;
}
