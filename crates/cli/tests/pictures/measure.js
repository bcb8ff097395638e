// Lists labels over each other and labels beyond the edge of their picture; the argument takes it.
// A long page may still be loading when the script begins.
const done = arguments[0];
function measure() {
  const found = [];
  let pictures = 0;
  for (const part of document.querySelectorAll("[data-name]")) {
    const picture = part.querySelector("svg");
    const edge = picture.getBoundingClientRect();
    const texts = [...picture.querySelectorAll("text")].map((text) => {
      const { left, right, top, bottom } = text.getBoundingClientRect();
      return { left, right, top: top + 2, bottom: bottom - 2, text: text.textContent };
    });
    pictures += 1;
    for (const [number, one] of texts.entries()) {
      if (one.left < edge.left || one.right > edge.right || one.bottom > edge.bottom)
        found.push(`${part.dataset.name}: "${one.text}" is beyond the edge`);
      for (const other of texts.slice(number + 1)) {
        const apart = one.right <= other.left || other.right <= one.left || one.bottom <= other.top || other.bottom <= one.top;
        if (!apart) found.push(`${part.dataset.name}: "${one.text}" is over "${other.text}"`);
      }
    }
  }
  done(pictures > 100 && found.length === 0 ? "measured" : `${pictures} pictures\n${found.slice(0, 40).join("\n")}`);
}
if (document.readyState === "complete") measure();
else addEventListener("load", measure);
