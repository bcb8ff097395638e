// The machine's picture: its devices and links, channels on it, and what a view speaks of.

// Pictures come from the planner as SVG, whose texts it escaped.
function picture(text) {
  // The page's policy lets no style in that is not the page's own.
  const plain = text.replace(/<style>.*?<\/style>/s, "").replaceAll(/ style="[^"]*"/g, "");
  const made = new DOMParser().parseFromString(plain, "image/svg+xml").documentElement;
  return element("div", { class: "picture" }, document.importNode(made, true));
}
const titled = (it) => it.querySelector("title")?.textContent ?? "";

// Lights devices up, and the links between two of them that are neighbors.
function light(devices) {
  const names = new Set(devices);
  for (const it of $("picture").querySelectorAll(".lit")) it.classList.remove("lit");
  for (const it of $("picture").querySelectorAll("rect")) if (names.has(titled(it).split(/ \(| {2}/)[0]) || names.has(titled(it).match(/\(([^)]*)\)/)?.[1])) it.classList.add("lit");
  for (const it of $("picture").querySelectorAll("path")) {
    const ends = titled(it).split(":")[0].split(" – ");
    if (ends.length === 2 && ends.every((end) => names.has(end.split(" ")[0]) || names.has(end))) it.classList.add("lit");
  }
}

function showWiring() {
  $("name").textContent = plan.name;
  $("summary").textContent = `${plan.summary}; ${plan.ranks} ranks${plan.hosts > 1 ? ` on ${plan.hosts} hosts${plan.machines.length > 1 ? "" : " like this one"}` : ""}; NCCL ${plan.version}`;
  $("hosts-of-job").replaceChildren(...cards());
  const shown = picture(plan.picture);
  // A picture whose parts can be chosen.
  shown.querySelector("svg").setAttribute("role", "group");
  for (const box of shown.querySelectorAll("rect")) {
    const name = titled(box).split(" (")[0];
    if (!plan.devices.includes(name)) continue;
    filled(box, { tabindex: "0", role: "button", "aria-label": titled(box), onclick: () => choose(name),
      onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(name); } } }, []);
    box.dataset.name = name;
  }
  $("picture").replaceChildren(shown);
  $("channels").replaceChildren(...channelControls());
  markChosen();
}
async function choose(name) {
  state.chosen = [...state.chosen, name].slice(-2);
  markChosen();
  await showChosen();
  share();
}
function markChosen() {
  for (const box of $("picture").querySelectorAll("rect[data-name]")) box.classList.toggle("chosen", state.chosen.includes(box.dataset.name));
}
// What can be done with the chosen devices, and the path between two.
async function showChosen() {
  const details = $("details");
  const last = state.chosen.at(-1);
  if (!last) return details.replaceChildren(element("p", {}, "Choose two devices to see the path between them."));
  const away = (what) => element("button", { type: "button", onclick: () => { $("without").value = `${$("without").value} ${what}`.trim(); state.chosen = []; update(); } }, `Take ${what} away`);
  const parts = [away(last)];
  const [from, to] = state.chosen;
  if (to && from !== to) {
    if (from.startsWith("GPU") && to.startsWith("GPU")) parts.push(" ", away(`${from}:${to}`));
    try {
      const path = await question({ ask: "path", from, to, machine: state.machine });
      const taken = path.instead ?? path.widest;
      parts.push(element("h3", {}, `${path.from} → ${path.to}: ${taken.type}, ${number(taken.bandwidth_gbps)} GB/s`),
        ...sections(path.page));
    } catch (why) {
      parts.push(element("p", {}, why.message));
    }
  }
  details.replaceChildren(...parts);
}

// The kind of channels, and a slider over them; 0 is all of them.
function channelControls() {
  const kinds = plan.channels.filter((it) => ["ring", "tree", "nvls"].includes(it.kind));
  const [kind, channel] = (state.highlight ?? "").split(":");
  const count = kinds.find((it) => it.kind === kind)?.count ?? 0;
  const show = (value) => { state.highlight = value; update(); };
  const kindChoice = element("select", { id: "kind", onchange: ({ target }) => show(target.value || null) }, element("option", { value: "" }, "load of the links"),
    ...kinds.map((it) => element("option", { value: it.kind }, `${it.kind}: ${it.count} × ${number(it.bandwidth_gbps)} GB/s`)));
  kindChoice.value = kind;
  const at = channel === undefined ? 0 : Number(channel) + 1;
  const label = element("output", {}, count === 0 ? "" : at === 0 ? `all ${count}` : `${kind} ${at - 1}`);
  const slider = element("input", { id: "channel", type: "range", min: "0", max: String(count), "aria-label": "Channel; 0 is all", ...(count ? {} : { disabled: "" }),
    onchange: ({ target }) => show(target.value === "0" ? kind : `${kind}:${target.value - 1}`) });
  slider.value = String(at);
  const parts = [element("div", { class: "controls" }, element("label", {}, "Show ", kindChoice), slider, label)];
  if (count > 1 && kind !== "nvls") parts.push(element("details", state.small ? { open: "" } : {}, element("summary", { onclick: () => { state.small = !state.small; } }, `All ${count} at once`), smallMultiple(kind, at - 1, show)));
  return parts;
}
// A small circle of ranks for each order of channels, with lines in that order.
function smallMultiple(kind, taken, show) {
  const [{ graphs, ranks }] = JSON.parse(plan.plan).plan.machines[state.machine].groups;
  const equal = new Map();
  graphs.find((it) => it.kind === kind).channels.forEach((it, index) => { const order = it.ranks.join(" → "); equal.set(order, [...(equal.get(order) ?? []), index]); });
  const named = (all) => (all.length > 3 ? `${all[0]}, ${all[1]} … ${all.at(-1)}` : all.join(", "));
  return element("div", { class: "small" }, ...[...equal].map(([order, channels]) => {
    const steps = order.split(" → ").map(Number);
    const line = kind === "ring" && plan.hosts === 1 ? [...steps, steps[0]] : steps;
    return element("button", { type: "button", "aria-pressed": String(channels.includes(taken)), title: order, onclick: () => show(`${kind}:${channels[0]}`) },
      circle(ranks, line.slice(1).map((rank, step) => [line[step], rank]), channels[0], `${kind} ${named(channels)}: ${order}`), `${kind} ${named(channels)}`);
  }));
}
// Ranks as a circle of points, with lines between some.
function circle(ranks, lines, color, label) {
  const places = new Map(ranks.map((rank, index) => { const angle = (2 * Math.PI * index) / ranks.length - Math.PI / 2; return [rank, [36 + 28 * Math.cos(angle), 36 + 28 * Math.sin(angle)]]; }));
  const at = (rank) => places.get(rank).map((it) => it.toFixed(1)).join(" ");
  return drawn("svg", { width: "72", height: "72", role: "img", "aria-label": label }, drawn("path", { class: `c${color % 8}`, d: lines.map(([from, to]) => `M${at(from)}L${at(to)}`).join("") }),
    ...[...places.values()].map(([x, y]) => drawn("circle", { cx: x, cy: y, r: 2.5 })));
}
