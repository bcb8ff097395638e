// The views. Each fills an element with what an answer says.

function machineView(view) {
  view.append(table(["channels", "number", "GB/s each", "to the network"], plan.channels.map((it) => [it.kind, it.count, it.bandwidth_gbps, it.network_gbps])),
    ...plan.notes.map((it) => element("p", {}, it)), ...sections(plan.page), element("h3", {}, "Why these channels"), ...plan.trails.map((it) => element("p", {}, sentence(it.story))));
}

// Equal attempts in a row that found nothing better are one rung.
function rungs(trail) {
  const groups = [];
  for (const it of trail.attempts) {
    const last = groups.at(-1);
    if (last && !last[0].improved && !it.improved && last[0].pass === it.pass && !last.at(-1).first_pass) last.push(it);
    else groups.push([it]);
  }
  return groups;
}
function bar(share) {
  const made = element("span", { class: "bar", "aria-hidden": "true" });
  made.style.width = `${8 * share}rem`;
  return made;
}
function searchView(view) {
  view.append(element("p", {}, "NCCL asks for fast channels first. Where it finds none it relaxes what it asks for: slower channels, longer paths, other patterns. A second pass then tries to improve what was found. Each rung is an attempt, or several that found nothing better; a colored dot marks one that did."));
  for (const trail of plan.trails) {
    const most = Math.max(...trail.attempts.map((it) => it.bandwidth_gbps), 1);
    const best = trail.attempts.findLast((it) => it.improved);
    const rung = (group) => {
      const [first, last] = [group[0], group.at(-1)];
      const times = group.length > 1 ? element("span", { class: "times" }, ` × ${group.length}, to: ${last.asks}`) : null;
      const kind = first === best ? "taken" : first.improved ? "found" : "";
      return element("li", { class: kind }, bar(first.bandwidth_gbps / most),
        `${sentence(first.asks)}.`, times, element("br"), first.found, last.first_pass ? ` ${last.first_pass}` : "", last.next && group.length === 1 ? element("span", { class: "times" }, ` Then it ${last.next}.`) : null);
    };
    view.append(element("h2", {}, trail.kind), element("p", {}, sentence(trail.story)), element("ol", { class: "ladder" }, ...rungs(trail).map(rung)));
  }
}

const called = (it) => (it.algorithm ? `${it.algorithm} ${it.protocol}` : null);
// Factors between the bandwidth of an algorithm and that of the bus, as nccl-tests define them.
const factor = (collective) => ({ AllReduce: (2 * (plan.ranks - 1)) / plan.ranks, AllGather: (plan.ranks - 1) / plan.ranks, ReduceScatter: (plan.ranks - 1) / plan.ranks })[collective] ?? 1;
const OPERATIONS = { AllReduce: ["all-reduce-in-network", "all-reduce"], AllGather: ["all-gather"], ReduceScatter: ["reduce-scatter"], Broadcast: ["broadcast"], Reduce: ["reduce"] };
async function costView(view) {
  if (plan.ranks < 2) return view.append(element("p", {}, "One rank sends nothing."));
  const sizes = Array.from({ length: 23 }, (_, it) => 2 ** (it + 10));
  const answer = (others) => ask({ do: "ask", job: { ...job(), ...others }, question: { ask: "cost", sizes } });
  const [own, { bounds }, other] = await Promise.all([answer({}), question({ ask: "bound" }).catch(() => ({ bounds: [] })), state.beside ? answer({ nccl: state.beside }) : null]);
  const isTime = state.unit !== "bandwidth";
  const unit = isTime ? "µs" : "GB/s of bus";
  const unitChoice = element("select", { id: "unit", onchange: ({ target }) => { state.unit = target.value; update(); } }, element("option", { value: "time" }, "time"), element("option", { value: "bandwidth" }, "bus bandwidth"));
  unitChoice.value = isTime ? "time" : "bandwidth";
  const beside = element("select", { id: "beside", onchange: ({ target }) => { state.beside = target.value || null; update(); } }, element("option", { value: "" }, "none"), ...[...$("nccl").options].map((it) => element("option", {}, it.value)));
  beside.value = state.beside ?? "";
  view.append(element("div", { class: "controls" }, element("label", {}, "Show ", unitChoice), element("label", {}, "beside NCCL ", beside)));
  for (const [place, { collective, sizes }] of own.collectives.entries()) {
    const value = (bytes, time) => (isTime ? time : (bytes / time / 1e3) * factor(collective));
    const names = [...new Set(sizes.flatMap((it) => it.candidates.map(called)))];
    const lines = names.map((name) => ({ name, points: sizes.flatMap((it, index) => { const found = it.candidates.find((other) => called(other) === name); return found ? [[index, value(it.bytes, found.time_us)]] : []; }) }));
    const theirs = other?.collectives[place].sizes;
    if (theirs) lines.push({ name: `NCCL ${state.beside}`, dashed: true, points: theirs.flatMap((it, index) => (it.time_us ? [[index, value(it.bytes, it.time_us)]] : [])) });
    const limit = isTime ? null : OPERATIONS[collective]?.map((name) => bounds.find((it) => it.operation === name)?.bound_gbps).find((it) => it) ?? null;
    const taken = sizes.map(called);
    const crossings = taken.flatMap((name, index) => (index && name !== taken[index - 1] ? [`${name} from ${size(sizes[index].bytes)}`] : []));
    view.append(element("h2", {}, collective), element("p", {}, `${taken[0] ?? "nothing"} first${crossings.length ? `, then ${crossings.join(", ")}` : " and for all sizes"}.`),
      plot(`${isTime ? "Time" : "Bus bandwidth"} of ${collective} by size`, unit, sizes.map((it) => it.bytes), lines, taken, limit),
      element("details", {}, element("summary", {}, "Numbers"), ...(own.page.sections.find((it) => it.title === collective)?.blocks ?? []).map(block),
        theirs ? table(["size", `NCCL ${state.beside}`, "µs"], theirs.map((it) => [size(it.bytes), called(it), it.time_us])) : null));
  }
}
async function boundView(view) {
  const { page } = await question({ ask: "bound" });
  view.append(element("p", {}, "Choose a row: the links that limit it light up."), ...sections(page));
  if (!state.trees) return view.append(element("p", {}, element("button", { type: "button", id: "trees", onclick: () => { state.trees = true; update(); } }, "Show trees that come near the bounds")));
  try {
    forests(view, (await question({ ask: "forests" })).plan);
  } catch (why) {
    view.append(element("p", {}, why.message));
  }
}
// Trees that come near the bounds, each as a small circle of ranks.
function forests(view, text) {
  const ranks = Array.from({ length: plan.ranks }, (_, it) => it);
  const gbps = ({ numerator, denominator }) => numerator / denominator / 1e4;
  view.append(element("h2", {}, "Trees"), element("p", {}, "The program runs them with --algorithm forest: each rank's block goes along its own tree, or the message in equal pieces. ", link("plan.json", "application/json", text)));
  for (const { collective, bandwidth, bound, channels } of JSON.parse(text).plan.forests) {
    const all = channels.flatMap(({ share, trees }) => trees.map((tree) => ({ share, parents: tree.down ?? tree.up })));
    const drawing = ({ share, parents }, index) => {
      const lines = parents.flatMap((parent, rank) => (parent === null ? [] : [[parent, rank]]));
      const root = parents.indexOf(null);
      return element("figure", {}, circle(ranks, lines, index, `tree of rank ${root}: ${lines.map((it) => it.join(" → ")).join(", ")}`), element("figcaption", {}, `rank ${root}${channels.length > 1 ? `, share ${share}` : ""}`));
    };
    view.append(element("h3", {}, `${collective}: ${number(gbps(bandwidth))} of ${number(gbps(bound))} GB/s, ${all.length} tree${all.length > 1 ? "s" : ""}`),
      element("div", { class: "small" }, ...all.slice(0, 16).map(drawing), all.length > 16 ? element("p", {}, `and ${all.length - 16} more in the file`) : null));
  }
}
async function pageView(view, ask) {
  const { page } = await question({ ask });
  view.append(...page.fields.filter((it) => it.name === "answer").map((it) => element("p", {}, it.value)), ...sections(page));
}
async function expectView(view) {
  await pageView(view, "expect");
}
async function enginesView(view) {
  await pageView(view, "engines");
}
async function tuneView(view) {
  await pageView(view, "tune");
}
async function stepView(view) {
  if (!state.step) return example(view, "Drop a list of calls (CSV, JSON), a workload of SimAI, a script that starts Megatron-LM or its log, or traces of PyTorch's profiler,", "calls.csv", callsOfStep());
  const input = element("input", { id: "domain-hosts", type: "number", min: "1", max: "640", placeholder: "1", value: state.domainHosts ?? "", onchange: ({ target }) => { state.domainHosts = Number(target.value) || null; update(); } });
  const tflops = element("input", { id: "tflops", type: "number", min: "1", placeholder: "–", title: "where a file says what is computed, and not how long", value: state.tflops ?? "", onchange: ({ target }) => { state.tflops = Number(target.value) || null; update(); } });
  const { report: it, picture: line } = await ask({ do: "files", question: { ask: "step", files: state.step, job: job(), domain_hosts: state.domainHosts, gpu_tflops: state.tflops, orders: state.placed ? 500 : 0 } });
  const search = it.placement ? null : element("p", {}, element("button", { type: "button", id: "places", onclick: () => { state.placed = true; update(); } }, "Look for better places of the ranks"));
  view.append(element("h2", {}, state.step.map((file) => file.name).join(", ")), element("div", { class: "controls" }, element("label", {}, "Hosts of an NVLink domain ", input), element("label", {}, "TFLOP/s of a GPU ", tflops)),
    filled(picture(line), { tabindex: "0" }, []), ...drawnPage(it.page), ...(search ? [search] : []));
}
async function compareView(view) {
  const [choice, file] = chooser("other", "Compare with ", "or a file ", (it) => { state.other = it; update(); });
  view.append(element("p", {}, choice, " ", file, " ",
    $("without").value ? element("button", { type: "button", onclick: () => { state.other = state.file; update(); } }, "or with all devices") : null));
  if (!state.other) return;
  if (!state.other.text) choice.querySelector("select").value = state.other.name;
  const { report: found, pictures } = await ask({ do: "files", question: { ask: "difference", job: job(state.file, []), other: { ...job(state.other, []), without: [] } } });
  view.append(...pictures.map((it) => picture(it)), ...(found.page ? drawnPage(found.page) : [element("p", {}, "A job would notice no difference.")]));
}
async function doctorView(view) {
  const { page } = await ask({ do: "files", question: { ask: "doctor", job: job() } });
  view.append(element("h2", {}, state.file.name), ...drawnPage(page));
}

// What one click loads where nothing was dropped yet.
function example(view, what, name, text) {
  view.append(element("p", { class: "zone" }, `${what} `, element("button", { type: "button", id: "example", onclick: () => take([new File([text], name)]) }, "or load an example")));
}
const NCCL_TESTS = `# Collective test starting: all_reduce_perf\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n${[[20, 52], [22, 71], [24, 118], [26, 322], [28, 1020], [30, 4040]].map(([power, time]) => { const bytes = 2 ** power; const rate = bytes / time / 1e3; const half = `${time}.0 ${rate.toFixed(2)} ${(rate * 1.75).toFixed(2)} 0`; return `${bytes} ${bytes / 4} float sum -1 ${half} ${half}`; }).join("\n")}\n`;
const NCCL_LOG = `node1:100:100 [0] NCCL INFO NCCL version 2.30.7+cuda12.9\n${[0, 1, 2, 3].map((rank) => `node1:10${rank}:20${rank} [${rank}] NCCL INFO ncclCommInitRank comm 0x55${rank} rank ${rank} nranks 4 cudaDev ${rank} nvmlDev ${rank} busId ${rank + 1}000 commId 0x7 - Init START`).join("\n")}\n${[0, 1].map((ring) => `node1:100:200 [0] NCCL INFO Channel 0${ring}/02 : 0 1 2 3`).join("\n")}\nnode1:102:202 [2] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n`;
const WATCHDOG = "[rank2]:[E504 10:00:00.000000000 ProcessGroupNCCL.cpp:629] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=_ALLGATHER_BASE, NumelIn=1048576, NumelOut=3145728, Timeout(ms)=600000) ran for 600026 milliseconds before timing out.\n";
// Flight recorders of five ranks: rank 1 waits for rank 0, which waits for rank 2, which waits for
// rank 4.
function recorders() {
  const groups = { tp0: [0, 1], tp1: [2, 3, 4], dp0: [0, 2] };
  return ["dp0", "tp0", "tp1", "tp1", null].map((last, rank) => {
    const own = Object.keys(groups).filter((it) => groups[it].includes(rank));
    const config = Object.fromEntries(own.map((name) => [name, { name, desc: name, ranks: JSON.stringify(groups[name]) }]));
    const calls = [...own.map((group) => [group, 1, "completed"]), ...(last ? [[last, 2, "started"]] : [])];
    const entries = calls.map(([group, call, state], index) => ({ record_id: index, process_group: [group, group], collective_seq_id: call, profiling_name: group === "dp0" ? "nccl:all_reduce" : "nccl:all_gather", time_created_ns: 17e17 + index * 1e6,
      input_sizes: [[1048576]], input_dtypes: ["Float"], output_sizes: [[1048576 * groups[group].length ** (group === "dp0" ? 0 : 1)]], output_dtypes: ["Float"], state, timeout_ms: 600000, is_p2p: false }));
    return new File([JSON.stringify({ version: "2.10", pg_config: config, entries })], `nccl_trace_rank_${rank}.json`);
  });
}
// A step on the job: tensor parallelism in a host, data parallelism over hosts.
function callsOfStep() {
  const isEqual = plan?.machines.length === 1;
  const each = isEqual ? plan.ranks / plan.hosts : (plan?.ranks ?? 8);
  const layers = (name) => ["all-gather", "reduce-scatter"].map((it) => `tp=${each},${it},48M,bf16,96,${name === "forward" ? 400 : 800},${name},,`);
  return ["group,collective,bytes,type,count,compute_us,name,after,blocks", ...layers("forward"), ...layers("backward"),
    ...(isEqual && plan.hosts > 1 ? [`dp=${plan.hosts}:${each},reduce-scatter,5G,f32,1,,gradients,,no`, "dp,all-gather,2560M,bf16,1,,parameters,gradients,"] : [])].join("\n");
}

async function resultsView(view) {
  if (!state.results) return example(view, "Drop what nccl-tests printed, and choose the machine that was measured,", "all_reduce.txt", NCCL_TESTS);
  const { tables, fit, page } = await ask({ do: "files", question: { ask: "results", file: state.results, job: state.meant ? job(state.file, []) : null, fit: state.fit && state.meant } });
  view.append(element("h2", {}, state.results.name), element("p", {}, !state.meant ? "Choose the machine that was measured, and what NCCL's model predicts stands beside it." : element("button", { type: "button", id: "fit", "aria-pressed": String(state.fit), onclick: () => { state.fit = !state.fit; update(); } }, "Fit the cost model to these times")));
  if (fit) view.append(element("p", {}, "The profile: ", link(fit.file, "text/plain", fit.profile)));
  for (const it of tables) {
    const times = (key) => it.rows.flatMap((row, index) => (row[key] > 0 ? [[index, row[key]]] : []));
    const lines = [{ name: "measured", points: times("measured_us") }, { name: "predicted", points: times("predicted_us") }].filter((line) => line.points.length);
    view.append(plot("Measured and predicted time by size", "µs", it.rows.map((row) => row.bytes), lines));
  }
  view.append(...drawnPage(page));
}
async function logView(view) {
  if (!state.log) return example(view, "Drop a log of NCCL (NCCL_DEBUG=INFO),", "job.log", NCCL_LOG);
  const log = await ask({ do: "files", question: { ask: "log", file: state.log } });
  view.append(...drawnPage(log.page));
  view.append(...log.broken.map((line) => element("p", { class: "error" }, `a ring, tree or channel in an unknown form; please report it: ${line}`)));
}
async function diagnoseView(view) {
  const input = element("input", { id: "evidence", type: "file", multiple: "", onchange: ({ target }) => collect([...target.files]) });
  const again = element("button", { type: "button", onclick: () => { state.evidence = []; update(); } }, "Begin again");
  const load = element("button", { type: "button", id: "example", onclick: () => collect([new File([WATCHDOG], "rank2.log"), ...recorders()]) }, "or load an example");
  view.append(element("p", { class: "zone" }, "Drop what is left of a job that hangs, fails or is slow: logs, flight recorders, reports of RAS, listings (nvidia-smi, lspci), topologies, .tar.gz; several together. ",
    element("label", { class: "button" }, "or choose files ", input), " ", state.evidence.length ? again : load));
  if (!state.evidence.length) return;
  const found = await ask({ do: "files", question: { ask: "diagnose", files: state.evidence } });
  if (found.waits.some((it) => it.awaited.length)) view.append(element("h2", {}, "Who waits for whom"), waits(found.waits));
  view.append(...sections(found.page));
}
const link = (name, type, text) => element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name }, name);
function filesView(view) {
  const links = [link("plan.json", "application/json", plan.plan), ...(plan.graph ? [link("graph.xml", "text/xml", plan.graph)] : []), link("machine.svg", "image/svg+xml", plan.picture)];
  view.append(...links.map((it) => element("p", {}, it)));
}
