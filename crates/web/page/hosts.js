// Jobs whose hosts differ.

// The different hosts of the job as cards, one of which is shown, and what adds another one.
function cards() {
  const go = (change) => { Object.assign(state, { highlight: null, chosen: [], machine: 0 }, change); return update(); };
  const card = (it, index) => element("button", { type: "button", class: "card", title: it.summary, "aria-pressed": String(index === state.machine), onclick: () => go({ machine: index }) }, element("b", {}, `${it.hosts} × ${it.name}`), element("br"), `ranks from ${it.first_ranks.slice(0, 3).join(", ")}${it.first_ranks.length > 3 ? " …" : ""}`);
  const shown = state.others.find((it) => it.name === plan.machines[state.machine].name);
  const parts = plan.machines.length > 1 ? [element("div", { class: "controls" }, ...plan.machines.map(card))] : [];
  if (state.others.length) parts.push(element("div", { class: "controls" }, shown && state.machine ? element("button", { type: "button", onclick: () => go({ machine: state.machine, other: shown, view: "Compare" }) }, "What differs?") : null,
    element("button", { type: "button", onclick: () => go({ others: [] }) }, `Only hosts like ${state.file.name}`)));
  parts.push(element("details", state.adds ? { open: "" } : {}, element("summary", { onclick: () => { state.adds = !state.adds; } }, "Hosts that differ"), element("div", { class: "controls" }, ...chooser("another", "A host like ", "or of a file ", (it) => go({ others: [...state.others, it] })))));
  return parts;
}
// What chooses a machine or a file.
function chooser(id, machine, file, take) {
  const choice = element("select", { id, onchange: ({ target }) => target.value && take({ name: target.value }) },
    element("option", { value: "" }, "choose …"), ...[...$("machine").options].filter((it) => it.value).map((it) => element("option", { value: it.value }, it.textContent)));
  const input = element("input", { type: "file", onchange: async ({ target }) => { const [taken] = target.files; take({ name: taken.name, text: await taken.text() }); } });
  return [element("label", {}, machine, choice), element("label", {}, file, input)];
}
