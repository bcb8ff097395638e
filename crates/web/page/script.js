const VIEWS = { Machine: machineView, Search: searchView, Cost: costView, Bound: boundView, Expect: expectView, Tune: tuneView, Step: stepView, Compare: compareView, Doctor: doctorView, Results: resultsView, Log: logView, Diagnose: diagnoseView, Files: filesView };
// Views that read a file, also of a machine that cannot be planned.
const WITHOUT_PLAN = ["Doctor", "Results", "Log", "Diagnose", "Step"];
const state = { view: "Machine", file: { name: "dgx-h100" }, others: [], machine: 0, highlight: null, other: null, log: null, results: null, step: null, domainHosts: null, tflops: null, placed: false, trees: false, fit: false, evidence: [], chosen: [], unit: "time", beside: null, small: false };
// What the address holds besides the form.
const KEPT = ["view", "file", "others", "machine", "trees", "fit", "highlight", "other", "chosen", "unit", "beside", "domainHosts", "tflops", "placed"];
let plan = null;

// The worker with the planner; `Stop` ends it and starts another one.
let asked = 0;
const waiting = new Map();
function listen() {
  worker.onmessage = ({ data }) => { waiting.get(data.number)?.(data.answer); waiting.delete(data.number); $("stop").hidden = waiting.size === 0; };
}
function ask(request) {
  return new Promise((resolve, reject) => {
    asked += 1;
    waiting.set(asked, (answer) => (answer.error ? reject(new Error(answer.error)) : resolve(answer)));
    worker.postMessage({ number: asked, request });
    setTimeout(() => { $("stop").hidden = waiting.size === 0; }, 200);
  });
}
$("stop").addEventListener("click", () => {
  worker.terminate();
  for (const tell of waiting.values()) tell({ error: "stopped" });
  waiting.clear();
  $("stop").hidden = true;
  worker = planner();
  listen();
});

const words = (text) => text.split(/[\s,;]+/).filter((it) => it !== "");
function gpus(text) {
  return words(text).flatMap((word) => {
    const [first, last] = word.split("-").map(Number);
    if (!Number.isInteger(first)) throw new Error(`GPUs: expected numbers such as 0-3,6, not ${word}`);
    return last === undefined ? [first] : Array.from({ length: last - first + 1 }, (_, it) => first + it);
  });
}
// An answer about the planned job.
function question(it) {
  return ask({ do: "ask", job: job(), question: it });
}
function job(file = state.file, others = state.others) {
  const set = words($("set").value).map((it) => it.split(/=(.*)/s).slice(0, 2)).filter((it) => it.length === 2);
  return { file, others, hosts: Math.max(1, Number($("hosts").value) || 1), nvlink_domain: $("domain").checked, gpus: gpus($("gpus").value),
    nccl: $("nccl").value, set, without: words($("without").value) };
}
function status(text, isError = false) {
  $("status").textContent = text;
  $("status").className = isError ? "error" : "";
}

// The address after # holds the view and the job; it never leaves the machine.
async function pack(text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return btoa(Array.from(bytes, (it) => String.fromCharCode(it)).join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
async function unpack(text) {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (it) => it.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
async function remember() {
  const fields = Object.fromEntries(["hosts", "gpus", "nccl", "set", "without"].map((id) => [id, $(id).value]));
  const kept = { ...fields, domain: $("domain").checked, ...Object.fromEntries(KEPT.map((key) => [key, state[key]])) };
  history.replaceState(null, "", `#${await pack(JSON.stringify(kept))}`);
}
async function recall() {
  if (location.hash.length < 2) return;
  try {
    const kept = JSON.parse(await unpack(location.hash.slice(1)));
    for (const id of ["hosts", "gpus", "nccl", "set", "without"]) if (kept[id] !== undefined) $(id).value = kept[id];
    $("domain").checked = Boolean(kept.domain);
    for (const key of KEPT) if (kept[key] !== undefined) state[key] = kept[key];
    if (!state.file.text) $("machine").value = state.file.name;
  } catch {
    status("The address holds no view of this page.", true);
  }
}

// What is left of a job, each file as text, or in base64 if it is none.
async function evidence(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  try {
    return { name: file.name, text: new TextDecoder("utf-8", { fatal: true }).decode(bytes) };
  } catch {
    let text = "";
    for (let at = 0; at < bytes.length; at += 1 << 15) text += String.fromCharCode(...bytes.subarray(at, at + (1 << 15)));
    return { name: file.name, base64: btoa(text) };
  }
}
async function collect(files) {
  state.view = "Diagnose";
  try {
    // A file of the same name is the same file, changed.
    for (const it of await Promise.all(files.map(evidence))) state.evidence = [...state.evidence.filter((other) => other.name !== it.name), it];
  } catch (why) {
    return status(`${why.message} (a folder cannot be dropped: drop its files, or an archive of it)`, true);
  }
  await update();
}
let updates = 0;
async function update() {
  const turn = ++updates;
  for (const tab of $("tabs").children) tab.setAttribute("aria-selected", String(tab.textContent === state.view));
  status("Planning …");
  const began = performance.now();
  const view = element("div");
  try {
    try {
      plan = await question({ ask: "overview", highlight: state.highlight, machine: state.machine });
      if (turn !== updates) return;
      showWiring();
      await showChosen();
    } catch (why) {
      if (turn !== updates) return;
      if (!WITHOUT_PLAN.includes(state.view)) throw why;
      for (const id of ["summary", "hosts-of-job", "channels", "picture", "details"]) $(id).replaceChildren();
      $("name").textContent = state.file.name;
      $("summary").textContent = why.message;
    }
    await VIEWS[state.view](view);
    status(`${Math.round(performance.now() - began)} ms`);
  } catch (why) {
    if (turn !== updates) return;
    status(why.message, true);
  }
  if (turn !== updates) return;
  $("view").replaceChildren(view);
  share();
  performance.mark(`shown ${turn}`);
  await remember();
  document.body.dataset.ready = String(turn);
}
// What only a diagnosis reads: several files, archives, compressed files and pickles.
async function isEvidence(files) {
  if (state.view === "Diagnose" || files.length > 1) return true;
  const [first, second] = new Uint8Array(await files[0].slice(0, 2).arrayBuffer());
  return (first === 0x50 && second === 0x4b) || (first === 0x1f && second === 0x8b) || first === 0x80;
}
// The first text of a file, also of one that gzip compressed.
async function beginning(file) {
  const first = file.slice(0, 1 << 20);
  const [one, two] = new Uint8Array(await first.slice(0, 2).arrayBuffer());
  if (one !== 0x1f || two !== 0x8b) return first.text();
  const reader = first.stream().pipeThrough(new DecompressionStream("gzip")).pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (let it = await reader.read(); !it.done && text.length < 1 << 16; it = await reader.read()) text += it.value;
  } catch {
    // The stream ends in the middle of the file.
  }
  return text;
}
// Lists of calls, workloads of SimAI, arguments of Megatron-LM, traces of PyTorch's profiler.
const isStep = (text) => text.includes("--num-layers") || /^.*\bnum_layers \.{3}/m.test(text) || /^\s*(HYBRID_TRANSFORMER|MICRO\s)/.test(text) || /^(#.*\n)*(?=.*\bgroup\b)(?=.*\bcollective\b).*\bbytes\b/.test(text) || (/^\s*\{/.test(text) && /"traceEvents"|"distributedInfo"|"(calls|nodes)"\s*:\s*\[/.test(text));
async function take(files) {
  if (!files.length) return;
  const heads = state.view === "Diagnose" ? [""] : await Promise.all(files.map(beginning));
  if (heads.every(isStep) || (state.view === "Step" && files.every((it) => /\.(et|csv|json)(\.gz)?$/.test(it.name)))) {
    state.step = await Promise.all(files.map(evidence));
    state.view = "Step";
    return update();
  }
  if (await isEvidence(files)) return collect(files);
  const [file] = files;
  const text = await file.text();
  const head = text.slice(0, 1 << 20);
  const isLog = /NCCL (INFO|WARN|version)/.test(head);
  // A table of nccl-tests, perhaps in a log, or JSON of nccl-tests or topo run.
  const isResults = /^.*#\s+size\s+count\b/m.test(head) || (/^\s*\{/.test(head) && /bus_?bw|topo-run/i.test(head));
  if (isLog) state.log = { name: file.name, text };
  if (isResults) state.results = { name: file.name, text };
  if (isLog || isResults) state.view = isResults ? "Results" : "Log";
  else { state.file = { name: file.name, text }; state.highlight = null; state.chosen = []; state.machine = 0; $("machine").value = ""; if (["Log", "Results"].includes(state.view)) state.view = "Machine"; }
  await update();
}
// Opens the file that the address names after "?file=", only of the site that the page is from.
async function follow(name) {
  const link = new URL(name, location.href);
  try {
    if (link.origin !== location.origin || !link.protocol.startsWith("http")) throw new Error("expected a file of the site that this page is from");
    const answer = await fetch(link);
    if (!answer.ok) throw new Error(`the site answers ${answer.status}`);
    await take([new File([await answer.blob()], link.pathname.split("/").at(-1))]);
  } catch (why) {
    await update();
    status(`${name}: ${why.message}`, true);
  }
}
for (const name of Object.keys(VIEWS)) $("tabs").append(element("button", { type: "button", role: "tab", onclick: () => { state.view = name; update(); } }, name));
$("job").addEventListener("submit", (event) => event.preventDefault());
$("job").addEventListener("change", ({ target }) => {
  if (target.id === "file") return take([...target.files]);
  if (target.id === "machine") { state.file = { name: target.value }; state.highlight = null; $("without").value = ""; }
  state.chosen = [];
  state.machine = 0;
  return update();
});
addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("over"); });
addEventListener("dragleave", () => document.body.classList.remove("over"));
addEventListener("drop", (event) => { event.preventDefault(); document.body.classList.remove("over"); take([...event.dataTransfer.files]); });
addEventListener("hashchange", async () => { await recall(); await update(); });
(async () => {
  listen();
  const { machines, versions } = await ask({ do: "machines" });
  $("machine").append(element("option", { value: "" }, "(file)"), ...machines.map((it) => element("option", { value: it.name, title: it.summary }, it.title)));
  $("nccl").append(...versions.reverse().map((it) => element("option", {}, it)));
  $("machine").value = state.file.name;
  const given = document.getElementById("given");
  if (given) { const { name, text } = JSON.parse(given.textContent); state.file = { name, text }; $("machine").value = ""; }
  await recall();
  const linked = new URLSearchParams(location.search).get("file");
  if (linked) return follow(linked);
  return update();
})();
