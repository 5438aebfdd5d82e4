// One view of one or two maps: zoom, pan, keys, ground, scale bar and coordinates.
// The script behind this one gives `paint(layer, context, at)`, and calls `show()`.
const data = JSON.parse(document.getElementById("map-data").textContent);
const FULL = 65535, MOST = 64;
const element = (id) => document.getElementById(id);
const tone = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const numbers = (text) => {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i += 1) bytes[i] = letters.charCodeAt(i);
  return new Uint16Array(bytes.buffer);
};
const packed = (id) => numbers(element(id).textContent);
const unpacked = (lines) => ({ ...lines, x: numbers(lines.x), y: numbers(lines.y) });
const layers = data.layers.map((layer) => ({
  ...layer, canvas: element(`map-${layer.name}`), count: element(`count-${layer.name}`),
}));
const ground = unpacked(data.ground);
// The point in the middle, as parts of the map's width and height from its lower left corner.
const look = { x: 0.5, y: 0.5, zoom: 1 };

// Where things lie on a canvas, in pixels of the page.
const placed = (canvas) => {
  const width = canvas.clientWidth, height = canvas.clientHeight;
  const across = Math.min(width, height / data.shape) * look.zoom, up = across * data.shape;
  const left = width / 2 - look.x * across, bottom = height / 2 + look.y * up;
  return {
    width, height, across, up, left, bottom,
    x: (part) => left + part * across, y: (part) => bottom - part * up,
    wide: Math.min(0.5, width / 2 / across), high: Math.min(0.5, height / 2 / up),
  };
};

const each = (lines, visit) => {
  for (let i = 0, first = 0; i < lines.sizes.length; first += lines.sizes[i], i += 1) {
    if (visit(i, first, first + lines.sizes[i] - 1) === false) return;
  }
};

const trace = (context, at, lines, first, last) => {
  context.moveTo(at.x(lines.x[first] / FULL), at.y(lines.y[first] / FULL));
  for (let i = first + 1; i <= last; i += 1) {
    context.lineTo(at.x(lines.x[i] / FULL), at.y(lines.y[i] / FULL));
  }
};

const paintGround = (context, at) => {
  const shown = !element("ground") || element("ground").checked;
  context.fillStyle = tone(data.filled && shown ? "head" : "paper");
  context.fillRect(0, 0, at.width, at.height);
  if (!shown || !ground.sizes.length) return;
  context.beginPath();
  each(ground, (_, first, last) => trace(context, at, ground, first, last));
  if (data.filled) {
    context.fillStyle = tone("paper");
    context.fill("evenodd");
  }
  context.strokeStyle = tone("quiet");
  context.globalAlpha = data.filled ? 0.7 : 0.35;
  context.lineWidth = data.filled ? 1 : 1.4;
  context.stroke();
  context.globalAlpha = 1;
};

// The largest of 1, 2 and 5 times a power of ten that is not above a number.
const round = (most) => {
  const power = 10 ** Math.floor(Math.log10(most));
  return [5, 2, 1].find((factor) => factor * power <= most) * power;
};
const told = (value, step) => value.toFixed(Math.max(0, Math.min(8, -Math.floor(Math.log10(step)))));
const length = (value) => {
  if (data.metres === null) return `${Number(value.toPrecision(3))} ${data.columns[0]}`;
  return value >= 1000 ? `${value / 1000} km` : `${Number(value.toPrecision(3))} m`;
};

const paintEdges = (context, at) => {
  const label = (words, x, y, align, base) => {
    context.textAlign = align;
    context.textBaseline = base;
    context.strokeText(words, x, y);
    context.fillText(words, x, y);
  };
  context.font = "12px system-ui, sans-serif";
  context.lineJoin = "round";
  context.fillStyle = tone("ink");
  context.strokeStyle = tone("paper");
  context.lineWidth = 3;
  const [wide, high] = [0, 1].map((axis) => data.high[axis] - data.low[axis]);
  const stepX = round((170 / at.across) * wide), stepY = round((150 / at.up) * high);
  const ends = (low, span, from, size) => [low + (span * -from) / size.of, low + (span * (size.all - from)) / size.of];
  const [left, right] = ends(data.low[0], wide, at.left, { of: at.across, all: at.width });
  const [low, top] = ends(data.low[1], high, at.height - at.bottom, { of: at.up, all: at.height });
  for (let i = Math.ceil(left / stepX); i * stepX <= right; i += 1) {
    const x = at.x((i * stepX - data.low[0]) / wide);
    if (x < 34 || x > at.width - 24) continue;
    context.fillRect(x, at.height - 4, 1, 4);
    label(told(i * stepX, stepX), x, at.height - 7, "center", "bottom");
  }
  for (let i = Math.ceil(low / stepY); i * stepY <= top; i += 1) {
    const y = at.y((i * stepY - data.low[1]) / high);
    if (y < 34 || y > at.height - 30) continue;
    context.fillRect(0, y, 4, 1);
    label(told(i * stepY, stepY), 7, y, "left", "middle");
  }
  const unit = data.metres === null ? wide : data.metres;
  const size = round((at.width / 4 / at.across) * unit), bar = (size / unit) * at.across;
  context.globalAlpha = 0.8;
  context.fillStyle = tone("paper");
  context.fillRect(at.width - 22 - bar, 3, bar + 20, 28);
  context.globalAlpha = 1;
  context.fillStyle = tone("ink");
  context.fillRect(at.width - 12 - bar, 22, bar, 2);
  context.fillRect(at.width - 12 - bar, 18, 1, 6);
  context.fillRect(at.width - 13, 18, 1, 6);
  label(length(size), at.width - 12 - bar / 2, 17, "center", "bottom");
  return size;
};

const where = (part, axis) => told(data.low[axis] + part * (data.high[axis] - data.low[axis]),
  (data.high[axis] - data.low[axis]) / look.zoom / 500);

const show = () => {
  for (const layer of layers) {
    const canvas = layer.canvas, ratio = window.devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    canvas.style.touchAction = look.zoom > 1 ? "none" : "pan-y";
  }
  const at = placed(layers[0].canvas);
  look.x = Math.min(1 - at.wide, Math.max(at.wide, look.x));
  look.y = Math.min(1 - at.high, Math.max(at.high, look.y));
  prepare();
  for (const layer of layers) {
    const context = layer.canvas.getContext("2d"), here = placed(layer.canvas);
    const ratio = layer.canvas.width / Math.max(1, here.width);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.globalAlpha = 1;
    paintGround(context, here);
    paint(layer, context, here);
    context.globalAlpha = 1;
    paintEdges(context, here);
  }
  element("where").textContent =
    `Middle: ${data.columns[0]} ${where(look.x, 0)}, ${data.columns[1]} ${where(look.y, 1)}; zoom ${Number(look.zoom.toFixed(1))}×.`;
};

let waiting = null;
const soon = () => {
  if (waiting === null) waiting = requestAnimationFrame(() => { waiting = null; show(); });
};
// Zooms by a factor around a point of a canvas, or around the middle.
const zoom = (factor, canvas = null, x = 0, y = 0) => {
  const before = canvas && placed(canvas);
  const part = before && [(x - before.left) / before.across, (before.bottom - y) / before.up];
  look.zoom = Math.min(MOST, Math.max(1, look.zoom * factor));
  if (!before) return;
  const after = placed(canvas);
  look.x += part[0] - (x - after.left) / after.across;
  look.y += part[1] - (after.bottom - y) / after.up;
};
const move = (canvas, right, up) => {
  const at = placed(canvas);
  look.x += right / at.across;
  look.y += up / at.up;
};
const everything = () => Object.assign(look, { x: 0.5, y: 0.5, zoom: 1 });

const keys = {
  "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: everything, Home: everything,
  ArrowLeft: (canvas) => move(canvas, -60, 0), ArrowRight: (canvas) => move(canvas, 60, 0),
  ArrowUp: (canvas) => move(canvas, 0, 60), ArrowDown: (canvas) => move(canvas, 0, -60),
};
for (const { canvas } of layers) {
  const held = new Map();
  const spread = () => {
    const [a, b] = [...held.values()];
    return { far: Math.hypot(a.x - b.x, a.y - b.y), x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
  };
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key](canvas);
    show();
  });
  canvas.addEventListener("pointerdown", (event) => {
    held.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const old = held.get(event.pointerId);
    if (!old) return;
    const before = held.size === 2 && spread();
    held.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    if (before) {
      const after = spread();
      zoom(after.far / Math.max(1, before.far), canvas, after.x, after.y);
    } else move(canvas, old.x - event.offsetX, event.offsetY - old.y);
    soon();
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => held.delete(event.pointerId));
  }
  canvas.addEventListener("dblclick", (event) => {
    zoom(2, canvas, event.offsetX, event.offsetY);
    soon();
  });
  // A page scrolls past a map: the wheel zooms one that was chosen, or with a key held.
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
    event.preventDefault();
    zoom(Math.exp(-Math.max(-60, Math.min(60, event.deltaY)) / 200), canvas, event.offsetX, event.offsetY);
    soon();
  }, { passive: false });
}
const press = (id, act) => element(id).addEventListener("click", () => { act(); show(); });
press("closer", () => zoom(1.5));
press("farther", () => zoom(1 / 1.5));
press("all", everything);
for (const id of ["ground", "partition", "ends"]) element(id)?.addEventListener("change", show);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
window.addEventListener("resize", soon);
