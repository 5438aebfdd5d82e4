"""Views of counts over time, and the true rows beside them."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import polars as pl

from tailrace.domain import Schema
from tailrace.mechanisms.histogram import HistogramView
from tailrace.mechanisms.snapshot.histogram import SnapshotView
from tailrace.mechanisms.tabular.view import TabularView
from tailrace.report import page
from tailrace.report.truth import frame_at, opened
from tailrace.stream.log import History
from tailrace.stream.stream import Stream

View = HistogramView | SnapshotView | TabularView
# Steps at which columns are looked at: a table of 24 columns takes a second.
_STEPS = 24


@dataclass(frozen=True, eq=False)
class Shown:
    """A stream's views over time, and perhaps the true rows."""

    stream: Stream
    view: View
    steps: np.ndarray  # (steps,) that are shown
    views: list[View | None]
    truth: History | None

    @classmethod
    def of(cls, stream: Stream, view: View, truth: History | None, most: int = _STEPS) -> Shown:
        steps = page.steps_of(stream, most=most)
        return cls(stream, view, steps, [stream.view(int(step)) for step in steps], truth)

    @functools.cached_property
    def since(self) -> list[tuple[int, View]]:
        """The views to compare with: of the step before, and the first there is."""
        found = [] if self.stream.step == 1 else [self.stream.step - 1]
        found += [
            int(step)
            for step, one in zip(self.steps, self.views, strict=True)
            if one is not None and step < self.stream.step - 1
        ][:1]
        views = [(step, self.stream.view(step)) for step in found]
        return [(step, one) for step, one in views if one is not None]

    def true_frame(self, step: int) -> pl.DataFrame:
        """The true rows of a step."""
        assert self.truth is not None
        return frame_at(self.truth, step)

    @functools.cached_property
    def true_counts(self) -> list[np.ndarray] | None:
        """By column, the true number of rows with each code now."""
        if self.truth is None:
            return None
        domain, frame = self.view.domain, self.true_frame(self.stream.step)
        return [
            np.bincount(codes_of(domain, name, frame), minlength=attribute.size)
            for name, attribute in zip(domain.columns, domain.attributes, strict=True)
        ]


def codes_of(domain: Schema, name: str, frame: pl.DataFrame) -> np.ndarray:
    """Code one column of true rows; all of them are counted."""
    attribute = domain.attributes[domain.columns.index(name)]
    return Schema(**{name: attribute}).cells(opened(frame, name))
