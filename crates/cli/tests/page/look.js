// The look of a screenshot as text: a letter for each square of pixels. Blank is the background, a
// dot is text or a line, `#` is much of it, a letter is a color: red, yellow, green, cyan, blue,
// magenta; a capital is a color with text on it.
const SQUARE = 16;
const COLORS = "rygcbm";
// Differences of a channel from which a pixel is not the background, has a tint, and is colored.
const INK = 40, TINT = 12, COLORED = 64;
const [png, done] = arguments;
const image = new Image();
image.onerror = () => done("");
image.onload = () => {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, image.width, image.height);
  const [columns, rows] = [Math.floor(image.width / SQUARE), Math.floor(image.height / SQUARE)];
  const letter = (row, column) => {
    let ink = 0;
    const [tinted, colored] = [Array(6).fill(0), Array(6).fill(0)];
    for (let y = row * SQUARE; y < (row + 1) * SQUARE; y += 1)
      for (let x = column * SQUARE; x < (column + 1) * SQUARE; x += 1) {
        const at = 4 * (y * image.width + x);
        const [red, green, blue] = [data[at], data[at + 1], data[at + 2]];
        const [high, low] = [Math.max(red, green, blue), Math.min(red, green, blue)];
        ink += Math.max(...[0, 1, 2].map((it) => Math.abs(data[at + it] - data[it]))) > INK;
        if (high - low < TINT) continue;
        const hue = high === red ? (green - blue) / (high - low) : high === green ? 2 + (blue - red) / (high - low) : 4 + (red - green) / (high - low);
        tinted[(Math.round(hue) + 6) % 6] += 1;
        if (high - low >= COLORED) colored[(Math.round(hue) + 6) % 6] += 1;
      }
    const all = SQUARE * SQUARE;
    for (const [pixels, share] of [[colored, 0.15], [tinted, 0.4]]) {
      const most = Math.max(...pixels);
      if (most <= share * all) continue;
      const color = COLORS[pixels.indexOf(most)];
      // Text on a tint.
      return pixels === tinted && ink > 0.08 * all ? color.toUpperCase() : color;
    }
    return ink < 0.03 * all ? " " : ink < 0.3 * all ? "." : "#";
  };
  const lines = Array.from({ length: rows }, (_, row) => Array.from({ length: columns }, (_, column) => letter(row, column)).join("").trimEnd());
  done(lines.join("\n").trimEnd());
};
image.src = `data:image/png;base64,${png}`;
