const VIEWS = { Machine: machineView, Search: searchView, Cost: costView, Bound: boundView, Expect: expectView, Tune: tuneView, Step: stepView, Compare: compareView, Doctor: doctorView, Results: resultsView, Log: logView, Diagnose: diagnoseView, Files: filesView };
// Views that read a file, also of a machine that cannot be planned.
const WITHOUT_PLAN = ["Doctor", "Results", "Log", "Diagnose", "Step"];
const state = { view: "Machine", file: { name: "dgx-h100" }, others: [], machine: 0, highlight: null, other: null, log: null, results: null, step: null, domainHosts: null, tflops: null, placed: false, trees: false, fit: false, evidence: [], chosen: [], unit: "time", beside: null, small: false };
// What the address holds: fields of the form, and besides them parts of the state, each with a
// check, because anybody can write an address.
const FIELDS = ["hosts", "gpus", "nccl", "set", "without"];
const isText = (it) => typeof it === "string" && it.length <= 4096;
const isTruth = (it) => typeof it === "boolean";
const isCount = (it) => Number.isInteger(it) && it >= 0 && it <= 1e6;
const isFile = (it) => typeof it === "object" && it !== null && isText(it.name) && it.name.length < 256 && (it.text === undefined || typeof it.text === "string");
const orNone = (is) => (it) => it === null || is(it);
const listOf = (most, is) => (it) => Array.isArray(it) && it.length <= most && it.every(is);
const KEPT = { view: (it) => Object.hasOwn(VIEWS, it), file: isFile, others: listOf(64, isFile), machine: isCount, trees: isTruth, fit: isTruth, highlight: orNone(isText), other: orNone(isFile), chosen: listOf(2, (it) => isText(it) && !it.startsWith("-")), unit: isText, beside: orNone(isText), domainHosts: orNone(isCount), tflops: orNone(Number.isFinite), placed: isTruth };
// Most characters that an address may unpack to.
const MOST_UNPACKED = 1 << 24;
const MOST_HOSTS = 4096;
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
    const [first, last = first] = word.split("-").map(Number);
    if (!/^\d{1,3}(-\d{1,3})?$/.test(word) || last < first) throw new Error(`GPUs: expected numbers such as 0-3,6, not ${word}`);
    return Array.from({ length: last - first + 1 }, (_, it) => first + it);
  });
}
// Hosts of the job, whatever the field holds.
const hosts = () => Math.min(MOST_HOSTS, Math.max(1, Math.trunc(Number($("hosts").value)) || 1));
// An answer about the planned job.
function question(it) {
  return ask({ do: "ask", job: job(), question: it });
}
function job(file = state.file, others = state.others) {
  const given = $("hosts").value;
  if (given && Number(given) !== hosts()) throw new Error(`Hosts: expected a number from 1 to ${MOST_HOSTS}, not ${given}`);
  const set = words($("set").value).map((it) => it.split(/=(.*)/s).slice(0, 2)).filter((it) => it.length === 2);
  return { file, others, hosts: hosts(), nvlink_domain: $("domain").checked, gpus: gpus($("gpus").value),
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
// The text of a stream that gzip compressed, in pieces.
async function* inflated(stream) {
  const reader = stream.pipeThrough(new DecompressionStream("gzip")).pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let it = await reader.read(); !it.done; it = await reader.read()) yield it.value;
  } finally {
    reader.cancel().catch(() => {});
  }
}
async function unpack(text) {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (it) => it.charCodeAt(0));
  let all = "";
  for await (const it of inflated(new Blob([bytes]).stream())) {
    all += it;
    if (all.length > MOST_UNPACKED) throw new Error(`more than ${MOST_UNPACKED} characters`);
  }
  return all;
}
async function remember() {
  const fields = Object.fromEntries(FIELDS.map((id) => [id, $(id).value]));
  const kept = { ...fields, domain: $("domain").checked, ...Object.fromEntries(Object.keys(KEPT).map((key) => [key, state[key]])) };
  history.replaceState(null, "", `#${await pack(JSON.stringify(kept))}`);
}
// Takes what the address holds: everything, or nothing. Returns what is wrong with it.
async function recall() {
  if (location.hash.length < 2) return null;
  try {
    const kept = JSON.parse(await unpack(location.hash.slice(1)));
    const wrong = [...FIELDS.map((id) => [id, isText]), ["domain", isTruth], ...Object.entries(KEPT)].find(([key, is]) => kept[key] !== undefined && !is(kept[key]));
    if (wrong) throw new Error(`no such ${wrong[0]}: ${JSON.stringify(kept[wrong[0]]).slice(0, 80)}`);
    for (const id of FIELDS) if (kept[id] !== undefined) $(id).value = kept[id];
    $("domain").checked = Boolean(kept.domain);
    for (const key of Object.keys(KEPT)) if (kept[key] !== undefined) state[key] = kept[key];
    if (!state.file.text) $("machine").value = state.file.name;
    return null;
  } catch (why) {
    return `The address holds no view of this page: ${why.message}`;
  }
}
// Shows what the address holds.
async function revisit() {
  const wrong = await recall();
  await update();
  if (wrong) status(wrong, true);
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
  let text = "";
  try {
    for await (const it of inflated(first.stream())) if ((text += it).length >= 1 << 16) break;
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
addEventListener("hashchange", revisit);
(async () => {
  listen();
  const { machines, versions } = await ask({ do: "machines" });
  $("machine").append(element("option", { value: "" }, "(file)"), ...machines.map((it) => element("option", { value: it.name, title: it.summary }, it.title)));
  $("nccl").append(...versions.reverse().map((it) => element("option", {}, it)));
  $("machine").value = state.file.name;
  const given = document.getElementById("given");
  if (given) { const { name, text } = JSON.parse(given.textContent); state.file = { name, text }; $("machine").value = ""; }
  const linked = new URLSearchParams(location.search).get("file");
  if (!linked) return revisit();
  await recall();
  return follow(linked);
})();
