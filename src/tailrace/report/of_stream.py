"""The report of a stream, with all pages registered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tailrace.errors import ConfigError
from tailrace.ledger import Entry

# Each of these registers the pages of its views.
from tailrace.report import journeys, panels, places, tables  # noqa: F401
from tailrace.report.page import page_of, rendered
from tailrace.stream.stream import Stream


def stream_report(stream: Stream, entries: Sequence[Entry], truth: Any = None) -> str:
    """Write a stream's page; with the truth, the curator's.

    Parameters:
        stream: an open stream.
        entries: its charges in the ledger.
        truth: the true points (`Lives`) or journeys (`Tracks`), for a page that can show them.
    """
    if not stream.step:
        raise ConfigError(
            "There is nothing to report yet: release a step first, with tailrace run."
        )
    page = page_of(stream.release(stream.step).view, stream, truth)
    if truth is not None and not page.private:
        raise ConfigError(
            "The private report is a map: it needs a release of points or journeys in two "
            "dimensions."
        )
    return rendered(page, stream.guarantee, entries)
