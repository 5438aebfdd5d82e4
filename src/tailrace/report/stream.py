"""The report of any stream: places and journeys with their maps, the others with their totals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tailrace.errors import ConfigError
from tailrace.ledger import Entry
from tailrace.metrics.tracks import Tracks
from tailrace.report import page
from tailrace.report.chart import Line, line_chart
from tailrace.report.journeys import journeys_report, tracks_in
from tailrace.report.lives import Lives
from tailrace.report.spatial import charged, spatial_report
from tailrace.stream import Stream


def stream_report(stream: Stream, entries: Sequence[Entry], truth: Lives | Tracks | None = None) -> str:
    """The page of a stream; with the true points (or journeys) the private one, where there is a map to show them on."""
    if not stream.step:
        raise ConfigError("There is nothing to report yet: release a step first, with tailrace run.")
    mechanism, domain = stream.mechanism, stream.mechanism.domain
    if hasattr(mechanism, "trajectory"):
        assert truth is None or isinstance(truth, Tracks)
        synthetic = tracks_in(stream.release(stream.step).table, mechanism)
        return journeys_report(domain, synthetic, stream.guarantee, entries, truth)
    assert truth is None or isinstance(truth, Lives)
    if hasattr(domain, "low") and len(domain.columns) == 2:
        return spatial_report(stream, entries, truth)
    if truth is not None:
        raise ConfigError("The private report is a map: it needs a domain of points in two dimensions.")
    steps = np.arange(1, stream.step + 1)
    rows = np.array([len(stream.release(int(step)).rows.cells) for step in steps])
    chart = line_chart([Line("synthetic rows", steps, rows)], title="Rows released", x_label="step", y_label="rows")
    return page.page(
        "Synthetic data, released step by step",
        "Public: made of noisy counts only.",
        [
            ("The promise", page.quote(str(stream.guarantee))),
            ("Step by step", page.figure(chart, "The number of synthetic rows at each step, itself a noisy count.")),
            ("The ledger", page.table(("population", "stream", "charged", "step"), [charged(one) for one in entries])),
        ],
    )
