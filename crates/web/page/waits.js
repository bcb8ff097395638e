// Who waits for whom, as a graph.

// Ranks as ranges: 0–3, 7.
function ranges(ranks) {
  const runs = [];
  for (const it of [...ranks].sort((a, b) => a - b)) if (runs.length && runs.at(-1)[1] === it - 1) runs.at(-1)[1] = it; else runs.push([it, it]);
  const all = runs.map(([from, to]) => (from === to ? from : `${from}–${to}`));
  return `${ranks.length === 1 ? "rank" : "ranks"} ${all.length > 4 ? `${all.slice(0, 4).join(", ")} …` : all.join(", ")}`;
}
// The calls in which ranks wait as boxes, with arrows to the calls of those for which they wait.
function waits(all) {
  const wide = 310, tall = 60, gap = 34;
  // The row of a call: one below the first that leads to it.
  const row = new Map();
  const follow = (index, depth) => { if (!row.has(index)) { row.set(index, depth); all[index].next.forEach((it) => follow(it, depth + 1)); } };
  const led = new Set(all.flatMap((it) => it.next));
  all.forEach((_, index) => { if (!led.has(index)) follow(index, 0); });
  all.forEach((_, index) => follow(index, 0));
  const boxes = [], arrows = [], rows = [];
  const place = (depth) => { const before = rows[depth] ?? 0; rows[depth] = before + 1; return [8 + before * (wide + 40), 8 + depth * (tall + gap)]; };
  const at = all.map((it, index) => place(row.get(index)));
  const short = (it, most) => (it.length > most ? `${it.slice(0, most - 1)}…` : it);
  const box = ([x, y], lines, kind) => boxes.push(drawn("g", {}, drawn("title", {}, lines.join("; ")), drawn("rect", { class: kind, x, y, width: wide, height: tall, rx: 6 }), ...lines.map((it, line) => drawn("text", { x: x + 8, y: y + 18 + 16 * line }, short(it, 42)))));
  const arrow = ([x, y], [toX, toY], label) => {
    const isBack = toY <= y;
    // A way back goes beside the boxes.
    const from = isBack ? [x + wide, y + tall / 2] : [x + wide / 2, y + tall], to = isBack ? [toX + wide, toY + tall / 2 + 8] : [toX + wide / 2, toY];
    const bend = isBack ? `C${from[0] + 40} ${from[1]} ${to[0] + 40} ${to[1]} ${to.join(" ")}` : `L${to.join(" ")}`;
    arrows.push(drawn("path", { d: `M${from.join(" ")}${bend}`, "marker-end": "url(#waits)" }), isBack ? null : drawn("text", { x: (from[0] + to[0]) / 2 + 8, y: (from[1] + to[1]) / 2 + 2 }, `for ${short(label, 34)}`));
  };
  all.forEach((it, index) => {
    box(at[index], [it.call, `${ranges(it.waiting)} wait${it.waiting.length === 1 ? "s" : ""}`, it.group], "waiting");
    for (const next of it.next) arrow(at[index], at[next], ranges(it.awaited.filter((rank) => all[next].waiting.includes(rank))));
    const nowhere = it.awaited.filter((rank) => !it.next.some((next) => all[next].waiting.includes(rank)));
    if (nowhere.length) { const end = place(row.get(index) + 1); box(end, [ranges(nowhere), "did not come"], "awaited"); arrow(at[index], end, ranges(nowhere)); }
  });
  const [width, height] = [24 + Math.max(...rows.map((it) => it ?? 0)) * (wide + 40), 16 + rows.length * (tall + gap) - gap];
  return element("div", { class: "picture", tabindex: "0", role: "group", "aria-label": "Who waits for whom" }, drawn("svg", { class: "waits", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": all.map((it) => `${ranges(it.waiting)} wait in ${it.call} of ${it.group} for ${ranges(it.awaited)}`).join("; ") },
    drawn("defs", {}, drawn("marker", { id: "waits", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto" }, drawn("path", { class: "tip", d: "M0 0L8 4L0 8z" }))), ...arrows.filter((it) => it), ...boxes));
}
