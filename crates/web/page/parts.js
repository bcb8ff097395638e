"use strict";
const $ = (id) => document.getElementById(id);

// An element with attributes and children; text is never read as markup.
function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}
function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}
function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes))
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  made.append(...children.filter((it) => it !== null && it !== undefined));
  return made;
}
// `about` gives the devices of a row: to choose the row lights them up.
function table(head, rows, about = () => []) {
  const cell = (it) => element("td", typeof it === "number" ? { class: "n" } : {}, it === null || it === undefined ? "–" : typeof it === "number" ? number(it) : it);
  const line = (row, index) => {
    const made = element("tr", {}, ...row.map(cell));
    const devices = about(index);
    if (devices.length) {
      const choose = () => {
        const isOn = made.getAttribute("aria-selected") !== "true";
        for (const other of document.querySelectorAll("tr.about")) other.setAttribute("aria-selected", "false");
        made.setAttribute("aria-selected", String(isOn));
        light(isOn ? devices : []);
      };
      filled(made, { class: "about", tabindex: "0", "aria-selected": "false", onclick: choose,
        onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } } }, []);
    }
    return made;
  };
  return element("table", {}, element("thead", {}, element("tr", {}, ...head.map((it) => (it ? element("th", { scope: "col" }, it) : element("td"))))), element("tbody", {}, ...rows.map(line)));
}
const number = (it) => (Number.isInteger(it) ? String(it) : Math.abs(it) >= 100 ? it.toFixed(0) : it.toPrecision(3));
const size = (bytes) => (bytes >= 2 ** 30 ? `${number(bytes / 2 ** 30)} GiB` : bytes >= 2 ** 20 ? `${number(bytes / 2 ** 20)} MiB` : bytes >= 1024 ? `${number(bytes / 1024)} KiB` : `${bytes} B`);
const sentence = (text) => text && text[0].toUpperCase() + text.slice(1);

// A page as the planner makes it: what it says is its own, and what it looks like is said here.
function paragraph(text, tone) {
  return element("p", tone === "notice" ? { class: "error" } : tone === "faint" ? { class: "faint" } : {}, text);
}
function block({ kind, it }) {
  if (kind === "table") return table(it.headers, it.rows.map((row) => row.map((cell, at) => (it.right.includes(at) ? element("span", { class: "n" }, cell) : cell))), (row) => it.devices?.[row] ?? []);
  if (kind === "text") return paragraph((it.label ?? "") + it.text, it.tone);
  if (kind === "fields") return table(["", ""], it.map(({ name, value }) => [name, value]));
  if (kind === "entry") return element("section", {}, element("h3", {}, `${it.word}: ${it.about}`), paragraph(it.text, it.tone));
  return it.trim() ? element("pre", {}, it) : null;
}
// The sections of a page; `extra` adds what a picture of the view needs after a section's title.
function sections(page, extra = () => []) {
  return page.sections.flatMap(({ title, remark, blocks }) => [
    title && element("h2", {}, title), remark && element("p", { class: "faint" }, remark), ...extra(title), ...blocks.map(block)]).filter(Boolean);
}
// A whole page, with its head.
const drawnPage = (page) => [page.title && element("h2", {}, page.title), page.remark && element("p", { class: "faint" }, page.remark),
  page.fields.length ? block({ kind: "fields", it: page.fields }) : null, ...sections(page)].filter(Boolean);
