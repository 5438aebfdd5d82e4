// Draws points that exist from one step to another, and the partition below them.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("map-data").textContent);
  const numbers = (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Uint16Array(bytes.buffer);
  };
  const layers = data.layers.map((layer) => ({
    ...layer,
    x: numbers(layer.x), y: numbers(layer.y), born: numbers(layer.born), gone: numbers(layer.gone),
    canvas: document.getElementById(`map-${layer.name}`),
    count: document.getElementById(`count-${layer.name}`),
  }));
  const partitions = data.partitions.map((part) => ({ since: part.since, boxes: numbers(part.boxes) }));
  const slider = document.getElementById("step");
  const label = document.getElementById("step-label");
  const overlay = document.getElementById("partition");
  const play = document.getElementById("play");
  const FULL = 65535;
  const tone = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  const drawPartition = (context, step, width, height) => {
    const current = partitions.filter((part) => part.since <= step).pop();
    if (!current || !overlay.checked) return;
    context.strokeStyle = tone("ink");
    context.globalAlpha = 0.16;
    context.lineWidth = 1;
    context.beginPath();
    for (let i = 0; i < current.boxes.length; i += 4) {
      const [left, low, right, high] = current.boxes.subarray(i, i + 4);
      const x = Math.round((left / FULL) * width) + 0.5;
      const y = Math.round((1 - high / FULL) * height) + 0.5;
      context.rect(x, y, Math.round(((right - left) / FULL) * width), Math.round(((high - low) / FULL) * height));
    }
    context.stroke();
  };

  const draw = (layer, step) => {
    const context = layer.canvas.getContext("2d");
    const { width, height } = layer.canvas;
    context.globalAlpha = 1;
    context.fillStyle = tone("paper");
    context.fillRect(0, 0, width, height);
    drawPartition(context, step, width, height);
    context.fillStyle = tone(`c${layer.colour}`);
    context.globalAlpha = 0.55;
    let shown = 0;
    for (let i = 0; i < layer.x.length && layer.born[i] <= step; i += 1) {
      if (layer.gone[i] <= step) continue;
      context.fillRect((layer.x[i] / FULL) * (width - 2), (1 - layer.y[i] / FULL) * (height - 2), 2, 2);
      shown += 1;
    }
    layer.count.textContent = shown.toLocaleString("en");
  };

  const show = () => {
    const step = Number(slider.value);
    label.textContent = data.labels[step - 1];
    layers.forEach((layer) => draw(layer, step));
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
  overlay.addEventListener("change", show);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
})();
