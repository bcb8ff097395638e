// What a reader takes along: the command, the picture, the text.

// An argument as a shell takes it. Characters that control a terminal are written as numbers.
function quoted(text) {
  if (/^[\w./:=,+-]+$/.test(text)) return text;
  if (!/\p{C}/u.test(text)) return `'${text.replaceAll("'", "'\\''")}'`;
  const code = (it) => `\\U${it.codePointAt(0).toString(16).padStart(8, "0")}`;
  return `$'${text.replaceAll(/[\\'\p{C}]/gu, code)}'`;
}
// A file's name, which is no option.
const path = (name) => (name.startsWith("-") ? `./${name}` : name);
// The options of the job, as the program takes them.
function options() {
  const flags = [];
  if (hosts() > 1 && !state.others.length) flags.push("--hosts", String(hosts()));
  if ($("domain").checked && !(state.view === "Step" && state.domainHosts)) flags.push("--nvlink-domain");
  if ($("gpus").value) flags.push("--gpus", words($("gpus").value).join(","));
  if ($("nccl").value !== $("nccl").options[0].value) flags.push("--nccl", $("nccl").value);
  for (const it of words($("set").value)) flags.push("--set", it);
  for (const it of words($("without").value)) flags.push("--without", it);
  return flags;
}
// The command whose page says the same as the view.
function command() {
  const name = path(state.file.name);
  // Each host of a job whose hosts differ.
  const machines = state.others.length ? [...Array(hosts()).fill(name), ...state.others.map((it) => path(it.name))] : state.file.name.split(" + ").map(path);
  const [from, to] = state.chosen;
  const parts = {
    Machine: to && from !== to ? ["show", name, "--path", from, to] : ["plan", ...machines], Search: ["plan", ...machines, "--explain"], Cost: ["cost", ...machines], Bound: state.trees ? ["plan", ...machines, "--strategy", "forest"] : ["bound", ...machines], Engines: ["engines", ...machines], Expect: ["expect", ...machines], Tune: ["tune", ...machines],
    Compare: ["diff", name, path(state.other?.name ?? "OTHER")], Doctor: ["doctor", name], Results: ["results", path(state.results?.name ?? "FILE"), ...(state.meant ? ["--topology", name] : []), ...(state.fit ? ["--fit", "profile.toml"] : [])], Step: ["step", ...(state.step?.map((it) => path(it.name)) ?? ["WORKLOAD"]), "--cluster", ...machines, ...(state.domainHosts ? ["--domain-hosts", String(state.domainHosts)] : []), ...(state.tflops ? ["--gpu-tflops", String(state.tflops)] : []), ...(state.placed ? ["--placement", "search"] : [])], Log: ["diagnose", "--log", path(state.log?.name ?? "FILE")],
    Diagnose: ["diagnose", ...(state.evidence.length ? state.evidence.map((it) => path(it.name)) : ["FILE"])], Files: ["plan", ...machines, "-o", "plan.json"],
  }[state.view];
  const ofJob = !["Log", "Diagnose"].includes(state.view);
  return ["topo", ...parts, ...(ofJob ? options() : [])].map(quoted).join(" ");
}
// The view as text: headings, sentences, and tables as Markdown.
function text() {
  const lines = [`\`${command()}\``, ""];
  const cells = (row) => [...row.children].map((it) => it.textContent.replaceAll("|", "\\|"));
  const walk = (node) => {
    for (const it of node.children)
      if (it.matches("table")) {
        const rows = [...it.querySelectorAll("tr")].map(cells);
        lines.push(...rows.flatMap((row, index) => [`| ${row.join(" | ")} |`, ...(index === 0 ? [`|${row.map(() => "---").join("|")}|`] : [])]), "");
      } else if (it.matches("h2, h3")) lines.push(`**${it.textContent}**`, "");
      else if (it.matches("p, li")) lines.push(it.textContent, "");
      else if (!it.matches("svg, button, .controls")) walk(it);
  };
  walk($("view"));
  return lines.join("\n");
}
// The picture in pixels, with the colors that it has on the page.
async function pixels() {
  const shown = ($("view").querySelector("svg.plot") ?? $("picture").querySelector("svg"));
  const copy = shown.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const [all, copies] = [shown, copy].map((it) => [...it.querySelectorAll("*")]);
  all.forEach((it, index) => {
    const look = getComputedStyle(it);
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "fill-opacity", "stroke-opacity", "opacity", "font", "text-anchor"]) copies[index].style.setProperty(name, look.getPropertyValue(name));
  });
  const [, , width, height] = shown.getAttribute("viewBox").split(" ").map(Number);
  const image = new Image();
  await new Promise((resolve, reject) => { filled(image, { onload: resolve, onerror: reject }, []); image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`; });
  const canvas = element("canvas", { width: 2 * width, height: 2 * height });
  const drawing = canvas.getContext("2d");
  drawing.fillStyle = getComputedStyle(document.body).backgroundColor;
  drawing.fillRect(0, 0, canvas.width, canvas.height);
  drawing.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
// Copies, or saves where the browser forbids to copy.
async function copy(what, content, type, name) {
  try {
    await navigator.clipboard.write([new ClipboardItem({ [type]: content })]);
    status(`Copied ${what}.`);
  } catch {
    element("a", { href: URL.createObjectURL(await content), download: name }).click();
    status(`This browser does not let a page copy ${what}; it is saved as ${name}.`);
  }
}
function share() {
  const plain = (it) => Promise.resolve(new Blob([it], { type: "text/plain" }));
  const button = (label, action) => element("button", { type: "button", onclick: action }, label);
  $("share").replaceChildren(element("code", { id: "command" }, command()), button("Copy as command", () => copy("the command", plain(command()), "text/plain", "command.txt")),
    button("Copy as text for an issue", () => copy("the text", plain(text()), "text/plain", "topo.md")), button("Copy as picture", () => copy("the picture", pixels(), "image/png", "topo.png")),
    button("Copy the address", () => copy("the address", plain(location.href), "text/plain", "address.txt")));
}
