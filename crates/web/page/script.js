// The views under the headings of the commands.
const HEADINGS = {
  "What NCCL does": { Machine: machineView, Search: searchView, Cost: costView, Compare: compareView, Engines: enginesView, Files: filesView },
  "How fast": { Bound: boundView, Expect: expectView, Results: resultsView, Tune: tuneView, Step: stepView },
  "What is wrong": { Doctor: doctorView, Diagnose: diagnoseView, Log: logView },
};
const VIEWS = Object.assign({}, ...Object.values(HEADINGS));
// Views that read a file, also of a machine that cannot be planned.
const WITHOUT_PLAN = ["Doctor", "Results", "Log", "Diagnose", "Step"];
const state = { view: "Machine", file: { name: "dgx-h100" }, others: [], machine: 0, highlight: null, other: null, log: null, results: null, step: null, domainHosts: null, tflops: null, placed: false, trees: false, fit: false, evidence: [], chosen: [], unit: "time", beside: null, small: false, meant: false };
// What the address holds: fields of the form, and besides them parts of the state, each with a
// check, because anybody can write an address.
const FIELDS = ["hosts", "gpus", "nccl", "set", "without"];
const isText = (it) => typeof it === "string" && it.length <= 4096;
const isTruth = (it) => typeof it === "boolean";
const isCount = (it) => Number.isInteger(it) && it >= 0 && it <= 1e6;
const isFile = (it) => typeof it === "object" && it !== null && isText(it.name) && it.name.length < 256 && (it.text === undefined || typeof it.text === "string");
const orNone = (is) => (it) => it === null || is(it);
const listOf = (most, is) => (it) => Array.isArray(it) && it.length <= most && it.every(is);
const KEPT = { view: (it) => Object.hasOwn(VIEWS, it), file: isFile, others: listOf(64, isFile), machine: isCount, trees: isTruth, fit: isTruth, highlight: orNone(isText), other: orNone(isFile), chosen: listOf(2, (it) => isText(it) && !it.startsWith("-")), unit: isText, beside: orNone(isText), domainHosts: orNone(isCount), tflops: orNone(Number.isFinite), placed: isTruth, meant: isTruth };
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
  await take(files);
}
let updates = 0;
async function update() {
  const turn = ++updates;
  const focused = document.activeElement.id;
  for (const tab of document.querySelectorAll("[role=tab]")) tab.setAttribute("aria-selected", String(tab.textContent === state.view));
  // What was left of a job has no picture, as long as nobody said on which machine it ran.
  const isAlone = !state.meant && { Diagnose: state.evidence.length, Log: state.log, Results: state.results }[state.view];
  $("wiring").hidden = Boolean(isAlone);
  status("Planning …");
  const began = performance.now();
  const view = element("div");
  try {
    if (isAlone) plan = null;
    else try {
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
  // Fields of a view are made anew: the keyboard stays in the one that asked.
  if (focused && document.activeElement === document.body) $(focused)?.focus();
  share();
  performance.mark(`shown ${turn}`);
  await remember();
  document.body.dataset.ready = String(turn);
}
// Bytes at the beginning of a file that tell the planner its kind.
const BEGINNING = 1 << 18;
// What is dropped, pasted or chosen. The planner says what it is, and which view answers it; a view
// that is open stays, if it reads that.
async function take(files) {
  if (!files.length) return;
  try {
    const [all, heads] = await Promise.all([files, files.map((it) => new File([it.slice(0, BEGINNING)], it.name))].map((some) => Promise.all(some.map(evidence))));
    const { opens, parts } = await ask({ do: "files", question: { ask: "recognize", files: heads } });
    const of = (use) => all.filter((it, index) => parts[index].uses.includes(use) && (use === "step" || it.text !== undefined));
    const [steps, [results], [log], listings] = ["step", "results", "log", "listing"].map(of);
    // Listings are of one machine; each topology file is a host.
    const joined = listings.length ? [{ name: listings.map((it) => it.name).join(" + "), text: listings.map((it) => it.text).join("\n") }] : [];
    const machines = [...of("machine").filter((it) => !listings.includes(it)), ...(of("machine").some((it) => listings.includes(it)) ? joined : [])];
    const known = { Step: steps.length, Results: results ?? (state.results && machines.length), Log: log, Diagnose: true };
    const view = { machine: machines.length && "Machine", results: results && "Results", step: "Step" }[opens] || "Diagnose";
    // A file of the same name is the same file, changed.
    state.evidence = [...(state.view === "Diagnose" ? state.evidence.filter((old) => all.every((it) => it.name !== old.name)) : []), ...all];
    if (!known[state.view] && (view !== "Machine" || ["Log", "Diagnose"].includes(state.view))) state.view = view;
    if (steps.length) state.step = steps;
    if (results) state.results = results;
    if (log) state.log = log;
    if (machines.length && state.view !== "Diagnose") {
      const [file, ...others] = machines;
      Object.assign(state, { file, others, highlight: null, chosen: [], machine: 0, meant: true });
      $("machine").value = "";
    }
    $("read").textContent = parts.slice(0, 8).map((it) => `${it.name}: ${it.kind}`).join("; ") + (parts.length > 8 ? `; and ${parts.length - 8} more` : "");
  } catch (why) {
    await update();
    return status(why.message, true);
  }
  await update();
}
// Most files of a folder that is dropped.
const MOST_FILES = 4096;
// The files of an entry: those of a folder are called by their path.
async function within(entry, found = []) {
  const next = (from, how) => new Promise((resolve, reject) => from[how](resolve, reject));
  if (entry.isFile) {
    found.push(new File([await next(entry, "file")], entry.fullPath.replace(/^\//, "")));
    return found;
  }
  const reader = entry.createReader();
  for (let some = await next(reader, "readEntries"); some.length; some = await next(reader, "readEntries"))
    for (const it of some) if (found.length < MOST_FILES) await within(it, found);
  return found;
}
async function dropped({ items, files }) {
  const given = [...files];
  const entries = [...items].map((it) => it.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some((it) => it.isDirectory)) return take(given);
  const found = [];
  try {
    for (const it of entries) await within(it, found);
  } catch (why) {
    return status(`${why.message}: a folder that was dropped cannot be read`, true);
  }
  return take(found);
}
const pasted = (text) => take([new File([text], "pasted.txt")]);
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
const tab = (name) => element("button", { type: "button", role: "tab", onclick: () => { state.view = name; update(); } }, name);
for (const [heading, views] of Object.entries(HEADINGS)) $("tabs").append(element("span", { "aria-hidden": "true" }, heading), element("div", { role: "tablist", "aria-label": heading }, ...Object.keys(views).map(tab)));
$("job").addEventListener("submit", (event) => event.preventDefault());
$("job").addEventListener("change", ({ target }) => {
  if (target.id === "file") return take([...target.files]);
  if (target.id === "machine") { Object.assign(state, { file: { name: target.value }, highlight: null, meant: true }); $("without").value = ""; }
  state.chosen = [];
  state.machine = 0;
  return update();
});
addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("over"); });
addEventListener("dragleave", () => document.body.classList.remove("over"));
addEventListener("drop", (event) => { event.preventDefault(); document.body.classList.remove("over"); dropped(event.dataTransfer); });
addEventListener("paste", (event) => {
  if (event.target instanceof HTMLInputElement) return;
  const [text, files] = [event.clipboardData.getData("text/plain"), [...event.clipboardData.files]];
  if (!text && !files.length) return;
  event.preventDefault();
  text ? pasted(text) : take(files);
});
$("text").addEventListener("change", ({ target }) => { const text = target.value; target.value = ""; if (text.trim()) pasted(text); });
addEventListener("hashchange", revisit);
(async () => {
  listen();
  const { machines, versions } = await ask({ do: "machines" });
  $("machine").append(element("option", { value: "" }, "(file)"), ...machines.map((it) => element("option", { value: it.name, title: it.summary }, it.title)));
  $("nccl").append(...versions.reverse().map((it) => element("option", {}, it)));
  $("machine").value = state.file.name;
  const given = document.getElementById("given");
  if (given) { const { name, text } = JSON.parse(given.textContent); Object.assign(state, { file: { name, text }, meant: true }); $("machine").value = ""; }
  const linked = new URLSearchParams(location.search).get("file");
  if (!linked) return revisit();
  await recall();
  return follow(linked);
})();
