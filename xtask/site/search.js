// Finds sections that have all words; those with them in their title come first.
const input = document.getElementById("search");
const found = document.getElementById("found");
input.addEventListener("input", () => {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const rank = ([title, , text]) => {
    const [head, all] = [title.toLowerCase(), text.toLowerCase()];
    if (!words.every((it) => head.includes(it) || all.includes(it))) return 0;
    return 1 + words.filter((it) => head.includes(it)).length;
  };
  const ranked = words.length ? SECTIONS.map((it) => [rank(it), it]).filter(([it]) => it).sort(([one], [other]) => other - one).slice(0, 12) : [];
  found.replaceChildren(...ranked.map(([, [title, address]]) => Object.assign(document.createElement("a"), { href: document.body.dataset.root + address, textContent: title })));
  if (words.length && !ranked.length) found.textContent = "No section has these words.";
});
