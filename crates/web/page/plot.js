// A plot of times or bandwidths by size, both axes logarithmic.

const WIDTH = 760, HEIGHT = 330, LEFT = 64, RIGHT = 590, TOP = 30, BOTTOM = 290;

// `lines`: names and points [index, value]. `taken`: what NCCL takes at each size, by name, drawn
// broad, with a band below that names it. `ceiling`: a value that nothing exceeds.
function plot(label, unit, bytes, lines, taken = [], ceiling = null) {
  const values = [...lines.flatMap((it) => it.points.map(([, value]) => value)), ...(ceiling ? [ceiling] : [])].filter((it) => it > 0);
  if (!values.length) return element("p", {}, "There is nothing to plot.");
  const [low, high] = [Math.min(...values), Math.max(...values)].map(Math.log10);
  const span = high - low || 1;
  const x = (index) => LEFT + (index / (bytes.length - 1 || 1)) * (RIGHT - LEFT);
  const y = (value) => BOTTOM - ((Math.log10(value) - low) / span) * (BOTTOM - TOP);
  const path = (points) => points.map(([index, value], step) => `${step ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, class: "plot", role: "img", tabindex: "0", "aria-label": `${label}; the arrow keys read single sizes, the table below has the numbers` });
  const every = Math.max(1, Math.ceil(bytes.length / 8));
  bytes.forEach((it, index) => {
    svg.append(drawn("path", { class: "grid", d: `M${x(index)} ${TOP}V${BOTTOM}` }));
    if (index % every === 0) svg.append(drawn("text", { class: "x", x: x(index), y: BOTTOM + 34 }, size(it)));
  });
  const steps = span > 3 ? [1] : span > 1 ? [1, 2, 5] : [1, 1.5, 2, 3, 5, 7];
  for (let decade = Math.floor(low); decade <= high; decade += 1)
    for (const value of steps.map((it) => it * 10 ** decade))
      if (Math.log10(value) >= low - 1e-9 && Math.log10(value) <= high + 1e-9)
        svg.append(drawn("path", { class: "grid", d: `M${LEFT} ${y(value).toFixed(1)}H${RIGHT}` }), drawn("text", { class: "y", x: LEFT - 6, y: y(value) + 4 }, String(Number(value.toPrecision(3)))));
  svg.append(drawn("text", { x: 4, y: 16 }, unit));
  if (ceiling) svg.append(drawn("path", { class: "ceiling", d: `M${LEFT} ${y(ceiling).toFixed(1)}H${RIGHT}` }), drawn("text", { class: "y", x: RIGHT - 6, y: y(ceiling) + 14 }, `no schedule exceeds ${number(ceiling)}`));
  lines.forEach(({ name, points, dashed }, color) => {
    const look = { class: `c${color % 8}`, "stroke-dasharray": dashed || color >= 8 ? "4 3" : "" };
    svg.append(drawn("path", { d: path(points), ...look }), drawn("path", { d: `M${RIGHT + 14} ${TOP + 10 + color * 17}h20`, ...look }), drawn("text", { x: RIGHT + 40, y: TOP + 14 + color * 17 }, name));
  });
  // The band of choices: one piece for each, with its name where there is room.
  const broad = taken.flatMap((name, index) => { const value = lines.find((it) => it.name === name)?.points.find(([at]) => at === index)?.[1]; return value > 0 ? [[index, value]] : []; });
  if (broad.length) svg.append(drawn("path", { class: "taken c7", d: path(broad) }));
  for (let from = 0; from < taken.length;) {
    let to = from;
    while (to + 1 < taken.length && taken[to + 1] === taken[from]) to += 1;
    if (taken[from]) {
      const color = lines.findIndex((it) => it.name === taken[from]);
      const [begin, end] = [Math.max(LEFT, x(from - 0.5)), Math.min(RIGHT, x(to + 0.5))];
      svg.append(drawn("rect", { class: `band f${color % 8}`, x: begin, y: BOTTOM + 2, width: end - begin, height: 16 }, drawn("title", {}, `${taken[from]} from ${size(bytes[from])} to ${size(bytes[to])}`)));
      if (end - begin > 7 * taken[from].length) svg.append(drawn("text", { class: "x", x: (begin + end) / 2, y: BOTTOM + 14 }, taken[from]));
    }
    from = to + 1;
  }
  // A cursor reads the values of one size.
  const cursor = drawn("path", { class: "cursor" });
  svg.append(cursor);
  const reading = element("p", { class: "reading", "aria-live": "polite" }, "Point at a size, or use the arrow keys.");
  let at = -1;
  const read = (index) => {
    at = Math.min(Math.max(index, 0), bytes.length - 1);
    cursor.setAttribute("d", `M${x(at)} ${TOP}V${BOTTOM}`);
    const all = lines.flatMap((it) => { const value = it.points.find(([place]) => place === at)?.[1]; return value > 0 ? [[it.name, value]] : []; });
    reading.textContent = `${size(bytes[at])}: ${all.map(([name, value]) => `${name} ${number(value)}${taken[at] === name ? " (taken)" : ""}`).join(", ")} ${unit}`;
  };
  filled(svg, { onpointermove: (event) => { const box = svg.getBoundingClientRect(); const place = ((event.clientX - box.left) / box.width) * WIDTH; read(Math.round(((place - LEFT) / (RIGHT - LEFT)) * (bytes.length - 1))); },
    onkeydown: (event) => { const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key]; if (step) { event.preventDefault(); read(at + step); } } }, []);
  return element("div", {}, svg, reading);
}
