"""The gallery's page: published flaws, ours beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from tailrace.report import page
from tailrace.report.chart import Line, line_chart

if TYPE_CHECKING:
    from tailrace.audit.exhibits import Exhibit
    from tailrace.audit.losses.replaying import Points

_TITLE = "Where published guarantees fail"
_LEAD = (
    "Every flaw that Tailrace corrects: the claim, the event that refutes it, what is lost, and "
    "the corrected version beside it. Recomputed when this page was made; nothing private is in it."
)
_ALL = (
    "A loss is a multiple of the claim: above 1 the claim is refuted. Infinite: an outcome that is "
    "possible in one of two neighbouring worlds only. Ours is the same event where it can be asked "
    "of the corrected version, and otherwise the largest loss that the replay meter finds in it."
)


def gallery_page(found: Sequence[tuple[Exhibit, Points]]) -> str:
    """Write exhibits with their points as one HTML file."""
    rows = []
    for exhibit, points in found:
        published, ours = exhibit.summary(points)
        rows.append((exhibit.name, published, ours, exhibit.what, exhibit.paper))
    header = ("exhibit", "published", "ours", "fails in", "text")
    sections = [("All of them", page.note(_ALL) + page.table(header, rows, "words"))]
    sections += [(exhibit.title, _section(exhibit, points)) for exhibit, points in found]
    return page.html(_TITLE, _LEAD, sections)


def _section(exhibit: Exhibit, points: Points) -> str:
    published, ours = exhibit.summary(points)
    facts = (
        ("Where", f"{exhibit.paper}: {exhibit.place}"),
        ("Claim", exhibit.claim),
        ("Event", exhibit.event),
        (f"Published ({exhibit.evidence})", f"{exhibit.y}: {published}"),
        ("Ours", ours),
        ("Correction", exhibit.correction),
        ("Again", f"tailrace audit --gallery {exhibit.name}"),
    )
    body = "".join(f"<dt><b>{escape(name)}</b></dt><dd>{escape(text)}</dd>" for name, text in facts)
    return f"<dl>{body}</dl>{_figure(exhibit, points)}"


def _figure(exhibit: Exhibit, points: Points) -> str:
    """A chart where there are several points, all of them finite."""
    shown = [point for point in points if math.isfinite(point[1]) and not isinstance(point[0], str)]
    if len(shown) < 3:
        return ""
    x, published, ours = (np.array([float(point[at]) for point in shown]) for at in range(3))
    label = exhibit.x
    if x[-1] > 50 * x[0] > 0:
        x, label = np.log10(x), f"log10 of {exhibit.x}"
    lines = [Line("published", x, published, dots=published), Line("ours", x, ours, dots=ours)]
    if exhibit.what == "privacy":
        lines.append(Line("claimed", x, np.ones(len(x)), dashed=True))
    chart = line_chart(lines, title=exhibit.y, x_label=label, y_label="")
    return page.figure(chart, f"{exhibit.y}, by {exhibit.x}.")
