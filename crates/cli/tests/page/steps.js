// What a reader of the page does. Each step fails with a sentence.
const text = () => document.getElementById("panes").textContent;
const status_text = () => document.getElementById("status").textContent;
function until(what, is) {
  return new Promise((resolve, reject) => {
    const began = performance.now();
    const look = setInterval(() => {
      if (is()) { clearInterval(look); resolve(); }
      else if (performance.now() - began > 120000) { clearInterval(look); reject(`no ${what}; the page says: ${status_text()} ${text().slice(0, 300)}`); }
    }, 20);
  });
}
function need(what, is) { if (!is) throw `no ${what}; the page says: ${status_text()} ${text().slice(0, 300)}`; }
// Waits until an action has been answered.
async function act(action) {
  const before = document.body.dataset.ready;
  await action();
  await until("answer", () => document.body.dataset.ready !== before);
}
const change = (id, value) => act(() => { const field = document.getElementById(id); field.value = value; field.dispatchEvent(new Event("change", { bubbles: true })); });
const tab = (name) => act(() => [...document.querySelectorAll("[role=tab]")].find((it) => it.textContent === name).click());
function give(name, content) {
  const data = new DataTransfer();
  data.items.add(new File([content], name));
  dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}
const drop = (name, content) => act(() => give(name, content));
const box = (name) => document.querySelector(`rect[data-name="${name}"]`);
async function opens_and_plans() {
  await until("first plan", () => document.body.dataset.ready);
  need("story of the rings", text().includes("Why these channels") && text().includes("12"));
  need("box of GPU7", box("GPU7"));
  need("page without requests", performance.getEntriesByType("resource").every((it) => it.name.startsWith("blob:")));
}
async function a_dropped_file(machine) {
  await drop("mine.xml", machine);
  need("machine of the file", text().includes("mine") && text().includes("8 NICs (25 GB/s)"));
}
async function rings() {
  await change("kind", "ring");
  await change("channel", "1");
  need("arrows of ring 0", document.querySelectorAll("#picture path[marker-end]").length >= 8 && text().includes("ring 0"));
  document.querySelector("#channels summary").click();
  need("all rings at once", document.querySelectorAll(".small svg").length >= 1 && text().includes("ring 0, 1 … "));
  document.querySelector("#channels summary").click();
}
async function two_devices() {
  box("GPU0").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
  box("GPU5").dispatchEvent(new MouseEvent("click", { bubbles: true }));
  await until("path", () => text().includes("GPU0 (") && text().includes("NVL"));
}
async function another_version() {
  await change("nccl", [...document.getElementById("nccl").options].map((it) => it.value).find((it) => it.startsWith("2.27")));
  need("version", text().includes("NCCL 2.27"));
}
async function a_device_taken_away() {
  box("GPU5").dispatchEvent(new MouseEvent("click", { bubbles: true }));
  await until("button", () => text().includes("Take GPU5 away"));
  await act(() => [...document.querySelectorAll("button")].find((it) => it.textContent === "Take GPU5 away").click());
  need("seven ranks", text().includes("7 ranks"));
}
async function a_cost_plot() {
  await change("machine", "dgx-h100");
  await tab("Cost");
  need("band of choices", document.querySelectorAll("svg.plot rect.band").length >= 5);
  const svg = document.querySelector("svg.plot");
  svg.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  need("values of a size", document.querySelector(".reading").textContent.startsWith("1 KiB: "));
  await change("unit", "bandwidth");
  need("ceiling", text().includes("no schedule exceeds"));
  await change("beside", [...document.getElementById("nccl").options].map((it) => it.value).find((it) => it.startsWith("2.27")));
  need("line of another version", text().includes("NCCL 2.27"));
}
async function a_row_lights_up() {
  await tab("Bound");
  document.querySelector("tr.about").click();
  need("lit devices", document.querySelectorAll("#picture rect.lit").length >= 2);
  await tab("Search");
  need("rungs", document.querySelectorAll(".ladder li").length > 3 && document.querySelectorAll(".ladder li.taken").length > 0);
}
async function trees() {
  await tab("Bound");
  await act(() => document.getElementById("trees").click());
  need("trees", document.querySelectorAll("#view .small figure").length >= 8 && text().includes("AllGather: 371 of 371 GB/s, 8 trees") && document.querySelector("#view a[download]"));
  need("command", document.getElementById("command").textContent.includes("topo plan dgx-h100 --strategy forest"));
}
async function hosts_that_differ() {
  document.querySelector("#hosts-of-job summary").click();
  await change("hosts", "2");
  await change("another", "dgx-a100");
  need("cards", text().includes("24 ranks on 3 hosts") && text().includes("2 × dgx-h100") && text().includes("1 × dgx-a100"));
  const command = () => document.getElementById("command").textContent;
  need("command", command().startsWith("topo plan dgx-h100 dgx-h100 dgx-a100 --strategy forest"));
  const button = (words) => [...document.querySelectorAll("#hosts-of-job button")].find((it) => it.textContent.startsWith(words));
  await act(() => button("1 × dgx-a100").click());
  need("the other host", document.getElementById("picture").textContent.includes("dgx-a100"));
  await act(() => button("What differs?").click());
  need("differences", text().includes("Choices"));
  await act(() => button("Only hosts like").click());
  need("equal hosts", text().includes("16 ranks on 2 hosts like this one"));
  await change("hosts", "1");
  document.querySelector("#hosts-of-job summary").click();
}
async function an_example() {
  await tab("Log");
  await act(() => document.getElementById("example").click());
  need("log", text().includes("0 1 2 3") && document.getElementById("command").textContent === "topo diagnose --log job.log");
}
async function a_step() {
  await tab("Step");
  await change("hosts", "2");
  await act(() => document.getElementById("example").click());
  need("parts of the step", text().includes("exposed communication") && text().includes("calls.csv") && text().includes("2 × 8 on a host"));
  need("time line", document.querySelectorAll("#view svg .bar").length >= 4);
  await act(() => document.getElementById("places").click());
  need("search of places", text().includes("The best order takes") && text().includes("no order that gives a communicator"));
  need("command", document.getElementById("command").textContent.startsWith("topo step calls.csv --cluster dgx-h100"));
  await change("hosts", "1");
  need("sentence", document.getElementById("status").classList.contains("error"));
}
async function every_view() {
  const command = { Search: "--explain", Cost: "topo cost mine.xml", Bound: "topo bound mine.xml", Engines: "topo engines mine.xml", Expect: "topo expect mine.xml", Tune: "topo tune mine.xml", Step: "topo step WORKLOAD --cluster mine.xml", Files: "-o plan.json" };
  for (const [name, words] of Object.entries(command)) {
    await tab(name);
    need(`view ${name}`, document.getElementById("view").textContent.length > 20 && !document.getElementById("status").classList.contains("error"));
    need(`command of ${name}`, document.getElementById("command").textContent.includes(words));
  }
  await tab("Compare");
  await act(() => { const other = document.getElementById("other"); other.value = "dgx-h100"; other.dispatchEvent(new Event("change")); });
  need("differences", text().includes("Choices") && text().includes("dgx-h100"));
  await tab("Machine");
}
async function a_shared_address() {
  await until("address", () => location.hash.length > 100);
  const shared = location.hash;
  await change("hosts", "2");
  need("two hosts", text().includes("14 ranks"));
  const visit = (kept) => act(async () => { location.hash = typeof kept === "string" ? kept : await pack(JSON.stringify(kept)); });
  // Anybody can write an address: what is wrong is refused as a whole, and said.
  const refused = { file: null, others: {}, machine: -1, view: "constructor", chosen: [1], highlight: 5, tflops: "x", domain: 1, hosts: 2, gpus: "1".repeat(5000), trees: [], other: { name: 7 } };
  for (const [key, value] of Object.entries(refused)) {
    await visit({ hosts: "3", [key]: value });
    need(`refusal of ${key}`, status_text().includes(`no such ${key}: `) && text().includes("14 ranks") && document.getElementById("hosts").value === "2");
  }
  for (const wrong of ["null", "7"]) { await visit(await pack(wrong)); need("page as it was", text().includes("14 ranks")); }
  await visit(await pack("1".repeat(20e6)));
  need("refusal of a long address", status_text().includes("more than 16777216 characters"));
  const file = { name: "dgx-h100" };
  for (const [kept, words] of [[{ gpus: "0-4000000000" }, "GPUs: expected"], [{ gpus: "3-1" }, "GPUs: expected"], [{ hosts: "1e9", others: [file] }, "Hosts: expected a number from 1 to 4096, not 1e9"]]) {
    await visit({ file, gpus: "", hosts: "1", ...kept });
    need(`refusal of ${JSON.stringify(kept)}`, status_text().startsWith(words));
    need("command of bounded length", document.getElementById("command").textContent.length < 100000);
  }
  // Names of files are no options, and nothing that a shell runs.
  for (const [name, words] of [["-oX", "topo plan ./-oX"], ["a b;$(id)", "topo plan 'a b;$(id)'"], ["it's", "topo plan 'it'\\''s'"], ["a\x1b[201~\nb", "topo plan $'a\\U0000001b[201~\\U0000000ab'"]]) {
    await visit({ file: { name, text: "<system/>" }, others: [], gpus: "", hosts: "1", set: "", without: "", chosen: [] });
    need(`command for ${words}`, document.getElementById("command").textContent.startsWith(words));
  }
  await visit(shared);
  need("one host again", text().includes("7 ranks") && text().includes("mine"));
}
async function a_link_taken_away() {
  await change("machine", "dgx-1v");
  for (const name of ["GPU0", "GPU3"]) box(name).dispatchEvent(new MouseEvent("click", { bubbles: true }));
  await until("button", () => text().includes("Take GPU0:GPU3 away"));
  await act(() => [...document.querySelectorAll("button")].find((it) => it.textContent === "Take GPU0:GPU3 away").click());
  need("plan without the link", text().includes("8 ranks") && document.getElementById("without").value === "GPU0:GPU3");
}
async function a_broken_file() {
  await drop("broken.xml", "<system version=\"1\"><cpu");
  need("sentence", document.getElementById("status").classList.contains("error") && status_text().includes("broken.xml"));
}
async function findings() {
  await change("machine", "dgx-h100");
  await tab("Doctor");
  need("machine without findings", text().includes("no findings"));
  const cards = [1, 2].map((it) => `<pci busid="0000:0${it}:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="${it - 1}" sm="90" rank="${it - 1}" gdr="1"/></pci>`);
  await drop("two.xml", `<system version="1"><cpu numaid="0" affinity="ff" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">${cards.join("")}</cpu></system>`);
  need("finding", text().includes("T026") && text().includes("GPU0 and 1 more"));
  document.querySelector("#view tr.about").click();
  need("lit GPUs", document.querySelectorAll("#picture rect.lit").length >= 2);
}
async function measured_results() {
  await change("machine", "dgx-h100");
  const row = (bytes, time) => `${bytes} ${bytes / 4} float sum -1 ${time} ${(bytes / time / 1e3).toFixed(2)} ${((bytes / time / 1e3) * 1.75).toFixed(2)} 0 ${time} ${(bytes / time / 1e3).toFixed(2)} ${((bytes / time / 1e3) * 1.75).toFixed(2)} 0`;
  const ranks = Array.from({ length: 8 }, (_, it) => `#  Rank  ${it} Group  0 Pid    100 on      node1 device  ${it} [0000:${it}b:00] NVIDIA H100 80GB HBM3`);
  const lines = ["# Collective test starting: all_reduce_perf", "# nThread 1 nGpus 8", "# Using devices", ...ranks, "#",
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong", "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
    row(1 << 20, 60.0), row(1 << 24, 300.0), row(1 << 30, 4500.0)];
  await drop("all_reduce.txt", lines.join("\n"));
  need("measured rows", text().includes("AllReduce of ") && text().includes("nccl-tests, 8 ranks") && text().includes("1G") && text().includes("dgx-h100 on 1 host"));
  await act(() => document.getElementById("fit").click());
  need("fitted constants", text().includes("measured times; the profile is") && text().includes("error of predicted times"));
  need("plot with both lines", document.querySelectorAll("svg.plot text").length >= 8 && text().includes("measured and predicted"));
}
async function a_long_log() {
  const line = "host1:7:9 [0] NCCL INFO Channel 00/02 :    0   1   2   3\n";
  await drop("job.log", "host1:7:7 [0] NCCL INFO NCCL version 2.30.7+cuda12.9\n" + line.repeat(Math.ceil(5e6 / line.length)));
  need("diagnosis", text().includes("2.30.7") && document.querySelector("[aria-selected=true][role=tab]").textContent === "Diagnose");
  need("kind of the file", document.getElementById("read").textContent.startsWith("job.log: NCCL's log, ") && document.getElementById("read").textContent.endsWith(" and more"));
  await tab("Log");
  need("log", text().includes("2.30.7") && text().includes(" of no interest"));
  await tab("Diagnose");
  await act(() => [...document.querySelectorAll("button")].find((it) => it.textContent === "Begin again").click());
  await tab("Log");
}
// Text of an issue, as people copy it: pasted anywhere, or typed into the field.
async function a_paste() {
  const paste = (text, at = document.body) => act(() => {
    const data = new DataTransfer();
    data.setData("text/plain", text);
    at.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  });
  const matrix = ["GPU0 GPU1 CPU Affinity NUMA Affinity", "GPU0 X PHB 0-15 0", "GPU1 PHB X 0-15 0"].join("\n");
  await paste(`> \`\`\`\n> ${matrix.replaceAll("\n", "\n> ")}\n> \`\`\`\n> - **GPU 0:** NVIDIA GeForce RTX 5090\n> - **GPU 1:** NVIDIA GeForce RTX 5090\n`);
  need("two GPUs", text().includes("pasted") && text().includes("2 ranks") && !document.getElementById("wiring").hidden);
  need("both plans of an assumption", text().includes("Assumptions") && text().includes("settled by"));
  const log = "n1:7:7 [0] graph/xml.h: NCCL WARN Error : too many XML nodes (max 256)\n";
  await paste(log, document.getElementById("text"));
  need("verdict", text().includes("the machine has too many devices") && text().includes("pasted.txt:1:"));
  // A variable that is pasted into its field is none of these.
  const field = document.getElementById("set");
  const event = new ClipboardEvent("paste", { clipboardData: new DataTransfer(), bubbles: true, cancelable: true });
  field.dispatchEvent(event);
  need("paste of the form's own", !event.defaultPrevented);
  await act(() => [...document.querySelectorAll("button")].find((it) => it.textContent === "Begin again").click());
}
// An entry as a browser gives it for a folder.
const entryOf = (path, content) => (typeof content === "string"
  ? { isFile: true, isDirectory: false, fullPath: path, file: (take) => take(new File([content], path.split("/").at(-1))) }
  : { isFile: false, isDirectory: true, fullPath: path, createReader: () => { const some = Object.entries(content).map(([name, it]) => entryOf(`${path}/${name}`, it)); return { readEntries: (take) => take(some.splice(0, 2)) }; } });
async function a_dropped_folder() {
  await tab("Machine");
  const folder = entryOf("/host", { "topo.txt": "GPU0 GPU1 CPU Affinity NUMA Affinity\nGPU0 X NV12 0-15 0\nGPU1 NV12 X 0-15 0\n", more: { "names.txt": "GPU 0: NVIDIA A100-SXM4-80GB\nGPU 1: NVIDIA A100-SXM4-80GB\n", "lscpu.txt": "Vendor ID: AuthenticAMD\nCPU family: 25\nModel: 1\n" } });
  await act(() => dropped({ items: [{ webkitGetAsEntry: () => folder }], files: [] }));
  need("the machine of all files", text().includes("host/topo.txt + host/more/names.txt") && text().includes("2 ranks") && text().includes("AMD"));
  need("command with all files", document.getElementById("command").textContent.startsWith("topo plan host/topo.txt host/more/names.txt host/more/lscpu.txt"));
  status("");
  await dropped({ items: [{ webkitGetAsEntry: () => ({ ...folder, createReader: () => ({ readEntries: (_, fail) => fail(new Error("no permission")) }) }) }], files: [] });
  need("sentence", status_text().includes("no permission: a folder that was dropped cannot be read"));
}
// What is left of a job has no picture of a machine that nobody named.
async function a_log_without_a_machine() {
  await act(async () => { location.hash = await pack(JSON.stringify({ view: "Machine", file: { name: "dgx-h100" }, others: [], hosts: "1", meant: false, chosen: [] })); });
  need("example", !document.getElementById("wiring").hidden);
  await drop("worker.log", "n1:7:7 [0] graph/xml.h: NCCL WARN Error : too many XML nodes (max 256)\n");
  need("diagnosis alone", text().includes("worker.log:1:") && document.getElementById("wiring").hidden && !document.getElementById("panes").innerText.includes("DGX H100"));
  await change("machine", "dgx-h100");
  need("the machine that was chosen", !document.getElementById("wiring").hidden);
  await act(() => [...document.querySelectorAll("button")].find((it) => it.textContent === "Begin again").click());
}
async function remains_of_a_job() {
  const lines = ["graph/xml.h: NCCL WARN Error : too many XML nodes (max 256)", ""].join("\n");
  const packed = await new Response(new Blob([lines]).stream().pipeThrough(new CompressionStream("gzip"))).arrayBuffer();
  // A compressed file is none of the other views'.
  await drop("job.log.gz", packed);
  need("verdict", text().includes("proved: the machine has too many devices") && text().includes("job.log.gz:1:"));
  await drop("lspci.txt", "-[0000:00]-+-00.0  Intel Corporation Device 0998\n           \\-01.0-[01]----00.0  NVIDIA Corporation GA100 [A100]\n");
  need("both files", text().includes("listing of a machine") && text().includes("job.log.gz") && text().includes("lspci -vv"));
  await act(() => [...document.querySelectorAll("button")].find((it) => it.textContent === "Begin again").click());
  need("drop zone", text().includes("Drop what is left of a job") && !text().includes("job.log.gz"));
}
async function who_waits_for_whom() {
  await tab("Diagnose");
  await act(() => document.getElementById("example").click());
  const boxes = [...document.querySelectorAll("svg.waits rect")];
  need("chain of waits", boxes.length === 4 && boxes.filter((it) => it.classList.contains("awaited")).length === 1 && text().includes("rank 4 never entered it"));
  const places = boxes.map((it) => it.getBoundingClientRect());
  need("boxes apart", places.every((one, index) => places.every((other, at) => at <= index || one.right <= other.left || other.right <= one.left || one.bottom <= other.top || other.bottom <= one.top)));
}
async function a_stopped_answer() {
  const line = "host1:7:9 [0] NCCL INFO Channel 00/02 :    0   1   2   3\n";
  await tab("Machine");
  await act(async () => {
    give("job.log", line.repeat(Math.ceil(4e7 / line.length)));
    await until("button that stops", () => !document.getElementById("stop").hidden);
    document.getElementById("stop").click();
  });
  need("word of the stop", status_text() === "stopped");
  await tab("Machine");
  need("plan of another worker", text().includes("8 ranks") && document.getElementById("stop").hidden);
}
// Milliseconds from opening the page to its first plan, and of the plan of 18 hosts with 4 GPUs.
async function first_and_large_plan() {
  await until("first plan", () => document.body.dataset.ready);
  const first = performance.getEntriesByType("mark")[0].startTime;
  document.getElementById("domain").checked = true;
  document.getElementById("hosts").value = "18";
  const began = performance.now();
  await change("machine", "gb200-nvl72-tray");
  need("72 ranks", text().includes("72 ranks"));
  return [first, performance.getEntriesByType("mark").at(-1).startTime - began];
}
// What a reader points at: by its text, or the name of a device or field.
const part = (name) => [...document.querySelectorAll("[role=tab], rect, input, select, textarea")].find((it) => [it.textContent, it.dataset.name, it.id].includes(name));
async function answered(expected, ready) {
  await until(expected, () => document.body.dataset.ready !== ready && new RegExp(expected).test(text()));
}
