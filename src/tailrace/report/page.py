"""One self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

OURS = '<meta name="generator" content="tailrace">'  # by which a page of ours is known
_STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; color: #222; background: #fafafa;
       margin: 0 auto; max-width: 860px; padding: 2rem 1.2rem 4rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; }
h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.lead { color: #555; margin-top: 0; }
figure { margin: 1rem 0; }
svg { width: 100%; height: auto; border: 1px solid #e3e3e3; border-radius: 6px; }
figcaption { color: #555; font-size: .9rem; }
blockquote { border-left: 4px solid #1b6ca8; margin: 1rem 0; padding: .4rem 1rem; background: #eef4f9; }
table { border-collapse: collapse; width: 100%; background: #fff; font-size: .93rem; }
th, td { padding: .4rem .6rem; border-bottom: 1px solid #e5e5e5; text-align: right; }
th:first-child, td:first-child { text-align: left; }
th { background: #f0f0f0; }
.maps { display: flex; gap: .8rem; }
.map { flex: 1; min-width: 0; margin: 0; }
canvas { width: 100%; border: 1px solid #e3e3e3; border-radius: 6px; background: #fff; }
.controls { display: flex; gap: .8rem; align-items: center; flex-wrap: wrap; }
.controls input[type=range] { flex: 1; min-width: 12rem; }
.controls output { min-width: 9rem; font-variant-numeric: tabular-nums; }
"""


def page(title: str, lead: str, sections: Sequence[tuple[str, str]]) -> str:
    """A page of titled sections, whose bodies are HTML."""
    body = "\n".join(f"<section>\n<h2>{escape(heading)}</h2>\n{content}\n</section>" for heading, content in sections)
    head = (
        f'<meta charset="utf-8">\n{OURS}\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>"
    )
    top = f'<h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p>'
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{top}\n{body}\n</body>\n</html>\n'


def figure(svg: str, caption: str) -> str:
    """A chart with a caption."""
    return f"<figure>\n{svg}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"


def quote(text: str) -> str:
    """A sentence set apart."""
    return f"<blockquote>{escape(text)}</blockquote>"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, first column to the left."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    lines = ("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(lines) + "\n</tbody>\n</table>"
