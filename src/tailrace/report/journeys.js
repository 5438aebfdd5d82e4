// Draws journeys as lines over roads or borders.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("journeys-data").textContent);
  const numbers = (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Uint16Array(bytes.buffer);
  };
  const unpacked = (lines) => ({ ...lines, x: numbers(lines.x), y: numbers(lines.y) });
  const ground = unpacked(data.ground);
  const layers = data.layers.map((layer) => ({
    ...layer,
    lines: unpacked(layer.lines),
    canvas: document.getElementById(`map-${layer.name}`),
    count: document.getElementById(`count-${layer.name}`),
  }));
  const slider = document.getElementById("many");
  const label = document.getElementById("many-label");
  const roads = document.getElementById("ground");
  const ends = document.getElementById("ends");
  const FULL = 65535;
  const tone = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  // Calls `visit` with the first and last point of each line of the first `many` owners, and with
  // whether its owner begins and ends there.
  const each = (lines, many, visit) => {
    let first = 0;
    for (let i = 0; i < lines.sizes.length && lines.owners[i] < many; i += 1) {
      const owner = lines.owners[i];
      visit(first, first + lines.sizes[i] - 1, lines.owners[i - 1] !== owner, lines.owners[i + 1] !== owner);
      first += lines.sizes[i];
    }
  };

  const draw = (layer, many) => {
    const context = layer.canvas.getContext("2d");
    const { width, height } = layer.canvas;
    const x = (lines, i) => (lines.x[i] / FULL) * width;
    const y = (lines, i) => (1 - lines.y[i] / FULL) * height;
    const path = (lines, first, last) => {
      context.moveTo(x(lines, first), y(lines, first));
      for (let i = first + 1; i <= last; i += 1) context.lineTo(x(lines, i), y(lines, i));
    };
    context.globalAlpha = 1;
    context.fillStyle = tone("paper");
    context.fillRect(0, 0, width, height);
    context.lineJoin = "round";
    context.lineCap = "round";
    if (roads.checked) {
      context.strokeStyle = tone("quiet");
      context.globalAlpha = 0.35;
      context.lineWidth = 1.6;
      context.beginPath();
      each(ground, Infinity, (first, last) => path(ground, first, last));
      context.stroke();
    }
    // Each is stroked by itself, so that common ways are stronger; fewer are drawn stronger.
    const strength = Math.min(0.9, Math.max(0.1, 2.5 / Math.sqrt(many)));
    context.strokeStyle = tone(`c${layer.colour}`);
    context.fillStyle = context.strokeStyle;
    context.lineWidth = many < 50 ? 3 : 2;
    each(layer.lines, many, (first, last) => {
      context.globalAlpha = strength;
      context.beginPath();
      path(layer.lines, first, last);
      context.stroke();
    });
    if (ends.checked) {
      context.globalAlpha = Math.min(1, 3 * strength);
      each(layer.lines, many, (first, last, begins, finishes) => {
        if (finishes) context.fillRect(x(layer.lines, last) - 4.5, y(layer.lines, last) - 4.5, 9, 9);
        if (!begins) return;
        context.beginPath();
        context.arc(x(layer.lines, first), y(layer.lines, first), 5, 0, 2 * Math.PI);
        context.stroke();
      });
    }
    layer.count.textContent = Math.min(many, layer.drawn).toLocaleString("en");
  };

  const show = () => {
    const many = Number(slider.value);
    label.textContent = many === 1 ? "1 journey" : `${many.toLocaleString("en")} journeys`;
    layers.forEach((layer) => draw(layer, many));
  };

  slider.addEventListener("input", show);
  roads.addEventListener("change", show);
  ends.addEventListener("change", show);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
})();
