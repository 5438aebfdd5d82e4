"""Scripts that look at a report's map in a browser, for its tests."""

# How much of a canvas is drawn on.
INK = """const ink = (id) => { const c = document.getElementById(id); const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
  let n = 0; for (let i = 0; i < d.length; i += 4) if (d[i] + d[i + 1] + d[i + 2] < 750) n += 1; return n; };
"""
# Zooms and moves the map by keys; says where it went, what Tab reaches, and whether the page fits.
KEYS = """const canvas = document.getElementById("map-synthetic");
const drawing = () => canvas.toDataURL();
const key = (name) => { canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true })); return drawing(); };
const before = drawing(), closer = key("+"), aside = key("ArrowRight"), again = key("0");
told.keys = { zooms: closer !== before, moves: aside !== closer, returns: again === before,
  where: document.getElementById("where").textContent, label: canvas.getAttribute("aria-label") };
document.getElementById("closer").click();
told.keys.button = drawing() === closer;
document.getElementById("all").click();
told.tabs = [...document.querySelectorAll("a, button, input, canvas, summary")]
  .filter((one) => one.tabIndex === 0 && one.getClientRects().length).map((one) => one.id || one.tagName.toLowerCase());
told.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
"""
