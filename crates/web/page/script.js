"use strict";
const VIEWS = ["Machine", "Search", "Cost", "Bound", "Compare", "Doctor", "Results", "Log", "Diagnose", "Files"];
// Views that read a file without planning it first.
const WITHOUT_PLAN = ["Doctor", "Results", "Log", "Diagnose"];
const $ = (id) => document.getElementById(id);
const state = { view: "Machine", file: { name: "dgx-h100" }, highlight: null, other: null, log: null, results: null, evidence: [], chosen: [] };
let plan = null;

// An element with attributes and children; text is never read as markup.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  made.append(...children.filter((it) => it !== null && it !== undefined));
  return made;
}
function table(head, rows) {
  const cell = (it) => element("td", typeof it === "number" ? { class: "n" } : {}, it === null || it === undefined ? "–" : typeof it === "number" ? number(it) : it);
  return element("table", {}, element("thead", {}, element("tr", {}, ...head.map((it) => element("th", { scope: "col" }, it)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell)))));
}
const number = (it) => (Number.isInteger(it) ? String(it) : it >= 100 ? it.toFixed(0) : it.toPrecision(3));
const size = (bytes) => (bytes >= 1 << 30 ? `${bytes / 2 ** 30} GiB` : bytes >= 1 << 20 ? `${bytes >> 20} MiB` : `${bytes >> 10} KiB`);

// The worker with the planner; `Stop` ends it and starts another one.
let worker = null, asked = 0;
const waiting = new Map();
function start() {
  const code = new Blob([$("worker").textContent], { type: "text/javascript" });
  worker = new Worker(URL.createObjectURL(code));
  worker.onmessage = ({ data }) => { waiting.get(data.number)?.(data.answer); waiting.delete(data.number); $("stop").hidden = waiting.size === 0; };
  worker.postMessage({ module: $("module").textContent });
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
  start();
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
function job(file = state.file) {
  const set = words($("set").value).map((it) => it.split(/=(.*)/s).slice(0, 2)).filter((it) => it.length === 2);
  return { file, hosts: Math.max(1, Number($("hosts").value) || 1), nvlink_domain: $("domain").checked, gpus: gpus($("gpus").value),
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
  const kept = { ...fields, domain: $("domain").checked, view: state.view, file: state.file, highlight: state.highlight, other: state.other };
  history.replaceState(null, "", `#${await pack(JSON.stringify(kept))}`);
}
async function recall() {
  if (location.hash.length < 2) return;
  try {
    const kept = JSON.parse(await unpack(location.hash.slice(1)));
    for (const id of ["hosts", "gpus", "nccl", "set", "without"]) if (kept[id] !== undefined) $(id).value = kept[id];
    $("domain").checked = Boolean(kept.domain);
    for (const key of ["view", "file", "highlight", "other"]) if (kept[key] !== undefined) state[key] = kept[key];
    if (!state.file.text) $("machine").value = state.file.name;
  } catch {
    status("The address holds no view of this page.", true);
  }
}

// Pictures come from the planner as SVG, whose texts it escaped.
function picture(text, choose) {
  const made = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  made.querySelector("style")?.remove();
  const part = element("div", { class: "picture" });
  part.append(document.importNode(made, true));
  if (choose)
    for (const box of part.querySelectorAll("rect")) {
      const name = box.querySelector("title")?.textContent.split(" (")[0];
      if (!plan.devices.includes(name)) continue;
      box.setAttribute("tabindex", "0");
      box.setAttribute("role", "button");
      box.setAttribute("aria-label", box.querySelector("title").textContent);
      box.dataset.name = name;
      box.addEventListener("click", () => choose(name));
      box.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(name); } });
    }
  return part;
}

async function machineView(view) {
  const kinds = plan.channels.filter((it) => it.kind === "ring" || it.kind === "tree" || it.kind === "nvls");
  const choices = [["load", null], ...kinds.flatMap(({ kind, count }) => [[kind === "nvls" ? "all nvls" : `all ${kind}s`, kind], ...Array.from({ length: count }, (_, it) => [`${kind} ${it}`, `${kind}:${it}`])])];
  const buttons = choices.map(([label, value]) => element("button", { type: "button", "aria-pressed": String(state.highlight === value), onclick: () => { state.highlight = value; update(); } }, label));
  const details = element("div", { id: "details" });
  const choose = async (name) => {
    state.chosen = [...state.chosen, name].slice(-2);
    for (const box of view.querySelectorAll("rect[data-name]")) box.classList.toggle("chosen", state.chosen.includes(box.dataset.name));
    await chosen(details);
  };
  view.append(element("h2", {}, plan.name), element("p", {}, `${plan.summary}; ${plan.ranks} ranks; NCCL ${plan.version}`),
    element("div", { class: "choices", role: "group", "aria-label": "Channels" }, ...buttons), picture(plan.picture, choose),
    element("p", {}, "Choose two devices to see the path between them."), details,
    table(["channels", "number", "GB/s each", "to the network"], plan.channels.map((it) => [it.kind, it.count, it.bandwidth_gbps, it.network_gbps])),
    ...plan.notes.map((it) => element("p", {}, it)));
}
async function chosen(details) {
  details.replaceChildren();
  const away = (what) => element("button", { type: "button", onclick: () => { $("without").value = `${$("without").value} ${what}`.trim(); state.chosen = []; update(); } }, `Take ${what} away`);
  const last = state.chosen.at(-1);
  details.append(away(last));
  if (state.chosen.length < 2) return;
  const [from, to] = state.chosen;
  if (from.startsWith("GPU") && to.startsWith("GPU")) details.append(away(`${from}:${to}`));
  try {
    const path = await question({ ask: "path", from, to });
    const taken = path.instead ?? path.widest;
    details.append(element("h3", {}, `${path.from} → ${path.to}: ${taken.type}, ${number(taken.bandwidth_gbps)} GB/s`),
      table(["from", "to", "link", "GB/s", "path so far", ""], taken.hops.map((it) => [it.from, it.to, it.link, it.bandwidth_gbps, it.so_far, it.narrowest ? "narrowest" : ""])),
      element("p", {}, path.widest.reason), ...(path.instead ? [element("p", {}, path.instead.reason)] : []), ...path.verdicts.map((it) => element("p", {}, it)));
  } catch (why) {
    details.append(element("p", {}, why.message));
  }
}
function searchView(view) {
  for (const trail of plan.trails) {
    const most = Math.max(...trail.attempts.map((it) => it.bandwidth_gbps), 1);
    view.append(element("h2", {}, trail.kind), element("p", {}, trail.story), element("ol", { class: "time-line" }, ...trail.attempts.map((it) =>
      element("li", {}, element("span", { class: "bar", style: `width: ${(it.bandwidth_gbps / most) * 12}rem`, "aria-hidden": "true" }), `${it.asks}. ${it.found} ${it.first_pass ?? ""} ${it.next ?? ""}`))));
  }
}
async function costView(view) {
  if (plan.ranks < 2) return view.append(element("p", {}, "One rank sends nothing."));
  const called = (it) => (it.algorithm ? `${it.algorithm} ${it.protocol}` : null);
  for (const { collective, sizes } of (await question({ ask: "cost" })).collectives) {
    const names = [...new Set(sizes.flatMap((it) => it.candidates.map(called)))];
    const lines = names.map((name) => ({ name, points: sizes.flatMap((it, index) => { const found = it.candidates.find((other) => called(other) === name); return found ? [[index, found.time_us]] : []; }) }));
    const chosen = sizes.flatMap((it, index) => (it.time_us ? [[index, it.time_us]] : []));
    view.append(element("h2", {}, collective), plot(`Time of ${collective} by size; the table below has the numbers`, sizes.map((it) => it.bytes), lines, chosen), element("details", {}, element("summary", {}, "Numbers"),
      table(["size", "choice", "µs", "GB/s of bus", "channels"], sizes.map((it) => [size(it.bytes), called(it), it.time_us, it.bus_bandwidth_gbps, it.channels]))));
  }
}
// Times by size, both logarithmic: lines with names, and one that is broad.
function plot(label, bytes, lines, broad) {
  const times = [...lines.flatMap((it) => it.points), ...broad].map(([, time]) => time);
  const [low, high] = [Math.log(Math.min(...times)), Math.log(Math.max(...times))];
  const at = ([index, time]) => [60 + (index / (bytes.length - 1 || 1)) * 620, 270 - ((Math.log(time) - low) / (high - low || 1)) * 240];
  const line = (points) => points.map(at).map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  const drawn = (name, attributes, text = "") => { const made = document.createElementNS("http://www.w3.org/2000/svg", name); for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value); made.textContent = text; return made; };
  const svg = drawn("svg", { viewBox: "0 0 900 300", width: "900", height: "300", class: "plot", role: "img", "aria-label": label });
  lines.forEach(({ name, points }, color) => {
    const look = { class: `c${color % 8}`, "stroke-dasharray": color < 8 ? "" : "4 3" };
    svg.append(drawn("path", { d: line(points), ...look }), drawn("path", { d: `M700 ${20 + color * 16}h24`, ...look }), drawn("text", { x: 730, y: 24 + color * 16 }, name));
  });
  svg.append(drawn("path", { d: line(broad), class: "chosen c7", opacity: ".35" }), drawn("text", { x: 60, y: 292 }, size(bytes[0])), drawn("text", { x: 640, y: 292 }, size(bytes.at(-1))),
    drawn("text", { x: 2, y: 34 }, `${number(Math.exp(high))} µs`), drawn("text", { x: 2, y: 270 }, `${number(Math.exp(low))} µs`));
  return svg;
}
async function doctorView(view) {
  const { findings } = await ask({ do: "files", question: { ask: "doctor", job: job() } });
  view.append(element("h2", {}, state.file.name), element("p", {}, findings.length === 0 ? "No findings." : `${findings.length} finding${findings.length > 1 ? "s" : ""}`),
    table(["id", "device", "what", "seen", "expected", "costs", "what to do"], findings.map((it) => [it.id, element("span", { title: it.devices.join(" ") }, it.device), it.title, it.seen, it.expected, it.costs, it.advice])));
}
async function resultsView(view) {
  if (!state.results) return view.append(element("p", {}, "Drop what nccl-tests printed, and choose the machine that was measured."));
  const { tables } = await ask({ do: "files", question: { ask: "results", file: state.results, job: job() } });
  view.append(element("h2", {}, state.results.name));
  const percent = (it) => (it === null ? null : `${(100 * it).toFixed(0)} %`);
  for (const it of tables) {
    const times = (key) => it.rows.flatMap((row, index) => (row[key] > 0 ? [[index, row[key]]] : []));
    const lines = [{ name: "measured", points: times("measured_us") }, { name: "predicted", points: times("predicted_us") }].filter((line) => line.points.length);
    view.append(element("section", {}, element("h3", {}, `${it.collective ?? "unknown collective"}, ${it.tool}${it.ranks ? `, ${it.ranks} ranks` : ""}`),
      it.machine ? element("p", {}, `predicted for ${it.planned_hosts} of ${it.machine}, constants of ${it.profile}`) : null,
      ...it.notes.map((note) => element("p", {}, note)),
      it.bound_gbps ? element("p", {}, `No schedule has more than ${number(it.bound_gbps)} GB/s of bus bandwidth; NCCL's plan reaches ${percent(it.planned_share)}. ${it.limit ?? ""}`) : null,
      ...it.shortfalls.map((fall) => element("p", { class: "error" }, fall.text)), plot("Measured and predicted time by size; the table below has the numbers", it.rows.map((row) => row.bytes), lines, []),
      table(["size", "choice", "µs", "predicted µs", "measured by predicted", "GB/s of bus", "of the bound", "wrong"],
        it.rows.map((row) => [size(row.bytes), row.algorithm ? `${row.algorithm} ${row.protocol}` : row.ran, row.measured_us, row.predicted_us, row.ratio, row.bus_bandwidth_gbps, percent(row.bound_share), row.wrong]))));
  }
}
async function boundView(view) {
  const { bounds } = await question({ ask: "bound" });
  view.append(element("p", {}, "No schedule of a collective has more bus bandwidth than its bound (long messages, on NCCL's model of the machine)."),
    table(["collective", "bound GB/s", "NCCL GB/s", "share", "what limits it"], bounds.map((it) => [it.operation, it.bound_gbps, it.nccl_gbps, it.nccl_gbps === null ? null : `${((100 * it.nccl_gbps) / it.bound_gbps).toFixed(0)} %`, `${it.tight}: ${it.limit}`])));
}
async function compareView(view) {
  const choose = element("select", { id: "other", onchange: (event) => { state.other = { name: event.target.value }; update(); } },
    element("option", { value: "" }, "choose …"), ...[...$("machine").options].filter((it) => it.value).map((it) => element("option", { value: it.value }, it.textContent)));
  const file = element("input", { type: "file", onchange: async (event) => { const [taken] = event.target.files; state.other = { name: taken.name, text: await taken.text() }; update(); } });
  view.append(element("p", {}, element("label", {}, "Compare with ", choose), " ", element("label", {}, "or a file ", file),
    $("without").value ? element("button", { type: "button", onclick: () => { state.other = state.file; update(); } }, "or with all devices") : null));
  if (!state.other) return;
  if (!state.other.text) choose.value = state.other.name;
  const { report: found, pictures } = await ask({ do: "files", question: { ask: "difference", job: job(), other: { ...job(state.other), without: [] } } });
  const show = (it) => (it === null || it === undefined ? "–" : typeof it === "string" ? it : JSON.stringify(it));
  view.append(element("p", {}, found.equal ? "A job would notice no difference." : `${found.facts.length} values differ, and the choice or time of ${found.choices.length} sizes.`),
    ...pictures.map((it) => picture(it)), ...found.devices.map((it) => element("p", {}, it.text)),
    table(["value", "A", "B"], found.facts.slice(0, 400).map((it) => [it.at.join(" "), show(it.first), show(it.second)])));
}
async function logView(view) {
  if (!state.log) return view.append(element("p", {}, "Drop a log of NCCL (NCCL_DEBUG=INFO)."));
  const log = await ask({ do: "files", question: { ask: "log", file: state.log } });
  view.append(element("h2", {}, log.files.join(", ")), element("p", {}, `NCCL ${log.versions.join(", ") || "of an unknown version"}; ${log.hosts.length} hosts; ${log.lines.read} lines read, ${log.lines.ignored} of no interest, ${log.lines.unknown} unknown`),
    ...log.communicators.map((it) => element("section", {}, element("h3", {}, `${it.ranks} ranks on ${it.nodes} nodes`), table(["ring", "ranks"], Object.entries(it.rings).map(([channel, ranks]) => [channel, ranks.join(" → ")])))),
    table(["odd", "usual", "others"], [log.odd_hosts, ...log.communicators.map((it) => it.odd_ranks)].flat().map((it) => [it.what, it.usual, it.others.map(([value, who]) => `${value}: ${who.join(", ")}`).join("; ")])),
    table(["warnings", "times", "meaning", "what to do"], log.warnings.map((it) => [it.text, it.count, it.means, it.advice])),
    ...log.broken.map((line) => element("p", { class: "error" }, `a ring, tree or channel in an unknown form; please report it: ${line}`)));
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
async function diagnoseView(view) {
  const input = element("input", { id: "evidence", type: "file", multiple: "", onchange: ({ target }) => collect([...target.files]) });
  const again = element("button", { type: "button", onclick: () => { state.evidence = []; update(); } }, "Begin again");
  view.append(element("p", { class: "zone" }, "Drop what is left of a job that hangs, fails or is slow: logs, flight recorders, reports of RAS, listings (nvidia-smi, lspci), topologies, .tar.gz; several together. ",
    element("label", { class: "button" }, "or choose files ", input), state.evidence.length ? again : null));
  if (!state.evidence.length) return;
  const found = await ask({ do: "files", question: { ask: "diagnose", files: state.evidence } });
  const list = (items) => element("ul", {}, ...items.map((it) => element("li", {}, it)));
  const ranks = (it) => (it.ranks.length ? [`${it.ranks.length === 1 ? "rank" : "ranks"} ${it.ranks.join(", ")}`] : []);
  const where = (it) => [...ranks(it), ...it.hosts, ...(it.group ? [it.group] : []), ...(it.collective ? [it.collective] : []), ...it.devices].join(", ");
  const cell = (name, content) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, content));
  view.append(...found.verdicts.map((it) => element("section", { class: `verdict ${it.certainty}` }, element("h2", {}, `${it.certainty}: ${it.title}`), element("p", {}, it.what),
    element("table", {}, element("tbody", {}, where(it) ? cell("where", where(it)) : null,
      cell("because", list(it.evidence.map((line) => `${line.input}${line.line ? `:${line.line}` : ""}: ${line.text}`))),
      cell("do", list(it.next)), cell("see", it.sources.join("; ")), cell("cause", it.cause))))),
    found.verdicts.length ? null : element("p", {}, "No verdict: the evidence names no cause."));
  if (found.missing.length) view.append(element("h2", {}, "What would tell more"), table(["", "how"], found.missing.map((it) => [it.what, it.how])));
  view.append(element("h2", {}, "Files"), table(["file", "read as"], found.inputs.map((it) => [it.name, it.read ? it.kind : element("span", { class: "error" }, it.kind)])));
}
function filesView(view) {
  const link = (name, type, text) => element("p", {}, element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name }, name));
  view.append(link("plan.json", "application/json", plan.plan), ...(plan.graph ? [link("graph.xml", "text/xml", plan.graph)] : []), link("machine.svg", "image/svg+xml", plan.picture));
}

const SHOW = { Machine: machineView, Search: searchView, Cost: costView, Bound: boundView, Compare: compareView, Doctor: doctorView, Results: resultsView, Log: logView, Diagnose: diagnoseView, Files: filesView };
let updates = 0;
async function update() {
  const number = ++updates;
  for (const tab of $("tabs").children) tab.setAttribute("aria-selected", String(tab.textContent === state.view));
  status("Planning …");
  const began = performance.now();
  const view = element("div");
  try {
    if (!WITHOUT_PLAN.includes(state.view)) plan = await question({ ask: "overview", highlight: state.highlight });
    if (number !== updates) return;
    await SHOW[state.view](view);
    status(`${Math.round(performance.now() - began)} ms`);
  } catch (why) {
    if (number !== updates) return;
    status(why.message, true);
  }
  if (number !== updates) return;
  $("view").replaceChildren(view);
  performance.mark(`shown ${number}`);
  await remember();
  document.body.dataset.ready = String(number);
}
// What only a diagnosis reads: several files, archives, compressed files and pickles.
async function isEvidence(files) {
  if (state.view === "Diagnose" || files.length > 1) return true;
  const [first, second] = new Uint8Array(await files[0].slice(0, 2).arrayBuffer());
  return (first === 0x50 && second === 0x4b) || (first === 0x1f && second === 0x8b) || first === 0x80;
}
async function take(files) {
  if (!files.length) return;
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
  else { state.file = { name: file.name, text }; state.highlight = null; state.chosen = []; $("machine").value = ""; if (["Log", "Results"].includes(state.view)) state.view = "Machine"; }
  await update();
}
for (const name of VIEWS) $("tabs").append(element("button", { type: "button", role: "tab", onclick: () => { state.view = name; update(); } }, name));
$("job").addEventListener("submit", (event) => event.preventDefault());
$("job").addEventListener("change", ({ target }) => {
  if (target.id === "file") return take([...target.files]);
  if (target.id === "machine") { state.file = { name: target.value }; state.highlight = null; $("without").value = ""; }
  state.chosen = [];
  return update();
});
addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("over"); });
addEventListener("dragleave", () => document.body.classList.remove("over"));
addEventListener("drop", (event) => { event.preventDefault(); document.body.classList.remove("over"); take([...event.dataTransfer.files]); });
addEventListener("hashchange", async () => { await recall(); await update(); });
(async () => {
  start();
  const { machines, versions } = await ask({ do: "machines" });
  $("machine").append(element("option", { value: "" }, "(file)"), ...machines.map((it) => element("option", { value: it.name, title: it.summary }, it.title)));
  $("nccl").append(...versions.reverse().map((it) => element("option", {}, it)));
  $("machine").value = state.file.name;
  const given = document.getElementById("given");
  if (given) { const { name, text } = JSON.parse(given.textContent); state.file = { name, text }; $("machine").value = ""; }
  await recall();
  await update();
})();
