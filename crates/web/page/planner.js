// The planner and the workers that run it.

// Compiled while it unpacks. This takes as long as starting a worker, so both go on
// together, and a worker that follows a stopped one need not wait.
const module = WebAssembly.compileStreaming(new Response(unpacked(document.getElementById("module").textContent), { headers: { "Content-Type": "application/wasm" } }));
// Starts a worker with the planner.
function planner() {
  const worker = new Worker(URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" })));
  module.then((module) => worker.postMessage({ module }), (why) => worker.postMessage({ failed: why.message }));
  return worker;
}
