// Journeys as lines over roads or borders, of all hours or of one.
for (const layer of layers) layer.lines = unpacked(layer.lines);
const slider = element("many"), hour = element("hour");

let chosen = [];
const prepare = () => {
  const many = Number(slider.value), at = hour ? Number(hour.value) : -1;
  element("many-label").textContent = many === 1 ? "1 journey" : `${many.toLocaleString("en")} journeys`;
  if (hour) element("hour-label").textContent = at < 0 ? "all day" : `${at}:00 to ${at}:59`;
  chosen = layers.map((layer) => {
    const drawn = new Uint8Array(layer.drawn);
    let left = many;
    for (let i = 0; i < layer.drawn && left; i += 1) {
      if (at < 0 || layer.hours[i] === at) {
        drawn[i] = 1;
        left -= 1;
      }
    }
    return { drawn, many: many - left };
  });
};

const paint = (layer, context, at) => {
  const { drawn, many } = chosen[layers.indexOf(layer)], { owners } = layer.lines;
  context.lineJoin = context.lineCap = "round";
  // Each is stroked by itself, so that common ways are stronger; fewer are drawn stronger.
  const strength = Math.min(0.9, Math.max(0.1, 2.5 / Math.sqrt(Math.max(1, many))));
  context.strokeStyle = context.fillStyle = tone(`c${layer.colour}`);
  context.lineWidth = many < 50 ? 2 : 1.4;
  context.globalAlpha = strength;
  each(layer.lines, (i, first, last) => {
    if (!drawn[owners[i]]) return;
    context.beginPath();
    trace(context, at, layer.lines, first, last);
    context.stroke();
  });
  if (element("ends").checked) {
    context.globalAlpha = Math.min(1, 3 * strength);
    const spot = (i) => [at.x(layer.lines.x[i] / FULL), at.y(layer.lines.y[i] / FULL)];
    each(layer.lines, (i, first, last) => {
      if (!drawn[owners[i]]) return;
      if (owners[i + 1] !== owners[i]) {
        const [x, y] = spot(last);
        context.fillRect(x - 2.5, y - 2.5, 5, 5);
      }
      if (owners[i - 1] === owners[i]) return;
      context.beginPath();
      context.arc(...spot(first), 3, 0, 2 * Math.PI);
      context.stroke();
    });
  }
  layer.count.textContent = many.toLocaleString("en");
  layer.canvas.setAttribute("aria-label",
    `Map of ${many.toLocaleString("en")} ${layer.title} journeys as lines. The table below has their ends by area.`);
};

slider.addEventListener("input", show);
hour?.addEventListener("input", show);
show();
