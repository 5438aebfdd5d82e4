// Points that exist from one step to another, as a density, over their partition.
for (const layer of layers) {
  const parts = 3 + data.attributes, all = packed(`points-${layer.name}`), many = all.length / parts;
  [layer.x, layer.y, layer.gone, ...layer.codes] =
    Array.from({ length: parts }, (_, part) => all.subarray(part * many, (part + 1) * many));
}
const partitions = data.partitions.map((part) => ({ ...part, boxes: numbers(part.boxes), codes: numbers(part.codes) }));
// Lists to choose values from, and those that are chosen: [attribute, code].
const lists = Array.from({ length: data.attributes }, (_, axis) => element(`value-${axis}`));
const chosen = () => lists.flatMap((list, axis) => (list.value === "" ? [] : [[axis, Number(list.value)]]));
const slider = element("step"), play = element("play");
// The side of a square in which points are counted, in pixels of the page.
const SQUARE = 3;
// Times the darkness of a square doubles from the lightest on.
const SHADES = 64;

const counted = (layer, step) => {
  const at = placed(layer.canvas), columns = Math.ceil(at.width / SQUARE), rows = Math.ceil(at.height / SQUARE);
  const squares = new Uint32Array(columns * rows);
  const perX = at.across / FULL / SQUARE, perY = at.up / FULL / SQUARE;
  const left = at.left / SQUARE, bottom = at.bottom / SQUARE, born = layer.born[step - 1];
  const wanted = chosen();
  let alive = 0, most = 0;
  for (let i = 0; i < born; i += 1) {
    if (layer.gone[i] <= step || wanted.some(([axis, code]) => layer.codes[axis][i] !== code)) continue;
    alive += 1;
    const x = Math.floor(left + layer.x[i] * perX), y = Math.floor(bottom - layer.y[i] * perY);
    if (x < 0 || y < 0 || x >= columns || y >= rows) continue;
    const now = (squares[y * columns + x] += 1);
    if (now > most) most = now;
  }
  return { squares, columns, rows, alive, most };
};

const colour = (words) => {
  const hex = words.length === 4 ? [...words.slice(1)].map((one) => one + one) : words.slice(1).match(/../g);
  return hex.map((one) => parseInt(one, 16));
};
const mixed = (from, to, part) => from.map((one, i) => Math.round(one + (to[i] - one) * part));
// From a light shade over the layer's own colour towards that of the text.
const shades = (layer) => {
  const [paper, own, ink] = ["paper", `c${layer.colour}`, "ink"].map((name) => colour(tone(name)));
  return Array.from({ length: SHADES }, (_, i) => {
    const part = i / (SHADES - 1);
    return part < 0.5 ? mixed(mixed(paper, own, 0.45), own, 2 * part) : mixed(own, mixed(own, ink, 0.75), 2 * part - 1);
  });
};

let scale = 1;
// Two maps have one scale, so that equal colours are equal numbers.
const prepare = () => {
  const step = Number(slider.value);
  for (const layer of layers) layer.found = counted(layer, step);
  scale = Math.log(1 + Math.max(1, ...layers.map((layer) => layer.found.most)));
  element("step-label").textContent = data.labels[step - 1];
};

const paintPartition = (context, at, step) => {
  const current = partitions.filter((part) => part.since <= step).pop();
  if (!current || !element("partition").checked) return;
  context.strokeStyle = tone("ink");
  context.globalAlpha = 0.16;
  context.lineWidth = 1;
  context.beginPath();
  const wanted = chosen(), many = data.attributes;
  const beside = (box) => wanted.some(([axis, code]) =>
    code < current.codes[2 * many * box + axis] || code >= current.codes[2 * many * box + many + axis]);
  for (let i = 0; i < current.boxes.length; i += 4) {
    if (beside(i / 4)) continue;
    const [left, low, right, high] = current.boxes.subarray(i, i + 4);
    const x = at.x(left / FULL), y = at.y(high / FULL), w = at.x(right / FULL) - x, h = at.y(low / FULL) - y;
    if (x + w < 0 || y + h < 0 || x > at.width || y > at.height) continue;
    context.rect(Math.round(x) + 0.5, Math.round(y) + 0.5, Math.round(w), Math.round(h));
  }
  context.stroke();
  context.globalAlpha = 1;
};

const paint = (layer, context, at) => {
  paintPartition(context, at, Number(slider.value));
  const { squares, columns, rows, alive, most } = layer.found, ramp = shades(layer);
  const picture = new ImageData(columns, rows), pixels = picture.data;
  const shade = (many) => ramp[Math.round((SHADES - 1) * Math.min(1, Math.log(many) / Math.max(scale - 0.69, 0.1)))];
  for (let i = 0; i < squares.length; i += 1) {
    if (!squares[i]) continue;
    pixels.set(shade(squares[i]), 4 * i);
    pixels[4 * i + 3] = 255;
  }
  layer.sheet ??= document.createElement("canvas");
  [layer.sheet.width, layer.sheet.height] = [columns, rows];
  layer.sheet.getContext("2d").putImageData(picture, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(layer.sheet, 0, 0, columns * SQUARE, rows * SQUARE);
  layer.count.textContent = alive.toLocaleString("en");
  const only = lists.flatMap((list) => (list.value === "" ? [] : [` (${list.selectedOptions[0].textContent})`]));
  layer.canvas.setAttribute("aria-label",
    `Map of ${alive.toLocaleString("en")} ${layer.title} points${only.join("")}, ${data.labels[Number(slider.value) - 1]}. The table below has their numbers by area.`);
  const legend = element(`legend-${layer.name}`), top = Math.max(1, Math.exp(scale) - 1);
  legend.querySelector(".ramp").style.background = `linear-gradient(to right, ${ramp.map((one) => `rgb(${one})`).join(", ")})`;
  legend.querySelector(".most").textContent = Math.round(top).toLocaleString("en");
  const unit = data.metres === null ? data.high[0] - data.low[0] : data.metres;
  const side = (SQUARE / at.across) * unit;
  legend.querySelector(".square").textContent = length(side >= 10 ? Math.round(side) : Number(side.toPrecision(2)));
};

let timer = null;
const stop = () => {
  clearInterval(timer);
  timer = null;
  play.textContent = "Play";
};
play.addEventListener("click", () => {
  if (timer !== null) return stop();
  if (slider.value === slider.max) slider.value = slider.min;
  play.textContent = "Pause";
  timer = setInterval(() => {
    if (slider.value === slider.max) return stop();
    slider.value = Number(slider.value) + 1;
    show();
  }, 180);
});
slider.addEventListener("input", show);
for (const list of lists) list.addEventListener("change", show);
show();
