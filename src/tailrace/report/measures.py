"""PRIVATE: how far synthetic rows are from the true ones."""

from __future__ import annotations

import numpy as np
import polars as pl

from tailrace.mechanisms.snapshot.histogram import SnapshotView
from tailrace.mechanisms.tabular.view import TabularView
from tailrace.metrics import answers, compare, random_ranges, snapshot_error, workload_error
from tailrace.report import page
from tailrace.report.shown import Shown, codes_of
from tailrace.report.truth import frame_at, opened

_QUERIES = 500  # random ranges that are asked of snapshots


def measures(shown: Shown) -> str:
    """Tabulate how far the synthetic rows are from the true ones."""
    true = shown.true_frame(shown.stream.step)
    made = frame_at(page.history_of(shown.stream), shown.stream.step)
    if not len(true) or not len(made):
        return page.note("There are no rows to compare at the last step.")
    names = list(shown.view.domain.columns)
    parts = [
        page.note(
            "Total variation: the share of synthetic rows that would have to move for a column, or "
            "two together, to be as in the true rows; then the largest difference of a cell's "
            "share. Numbers of many values are compared in 20 bins. The farthest are shown."
        ),
        page.table(
            ("columns", "cells", "total variation", "largest"),
            [
                (columns, f"{cells:,}", f"{100 * far:.1f} %", f"{100 * largest:.2f} %")
                for columns, cells, far, largest in compare(true[names], made[names])
                .head(20)
                .rows()
            ],
        ),
    ]
    if isinstance(shown.view, SnapshotView):
        parts.append(_snapshots(shown))
    if isinstance(shown.view, TabularView):
        parts.append(_workloads(shown.view, true, made))
    return "".join(parts)


def _snapshots(shown: Shown) -> str:
    """The errors of ranges over the steps shown."""
    domain = shown.view.domain
    ranges = random_ranges(np.random.default_rng(0), domain.shape, _QUERIES)
    asked_of: dict[int, np.ndarray] = {}

    def true(step: int) -> np.ndarray:
        if step not in asked_of:
            rows = opened(shown.true_frame(step), *domain.columns)
            counts = np.bincount(domain.cells(rows), minlength=domain.size)
            asked_of[step] = answers(counts, ranges, domain.shape)
        return asked_of[step]

    pairs = [
        (int(step), one)
        for step, one in zip(shown.steps, shown.views, strict=True)
        if isinstance(one, SnapshotView)
    ]
    found = snapshot_error(
        np.stack([true(step) for step, _ in pairs]),
        np.stack([answers(one.estimates, ranges, domain.shape) for _, one in pairs]),
        np.stack([true(one.measured) for _, one in pairs]),
    )
    words = page.note(
        f"Mean error of {_QUERIES} random ranges over the {len(pairs)} steps shown, and its two "
        "parts: the changes since the last measurement, and the noise in it."
    )
    names = ("records", "relative", "by changes", "by noise")
    values = (found.absolute, found.relative, found.update, found.perturbation)
    shown_values = [
        f"{one:,.3g}" if name == "relative" else f"{one:,.0f}"
        for name, one in zip(names, values, strict=True)
    ]
    return words + page.table(("error in", *names), [("ranges", *shown_values)])


def _workloads(view: TabularView, true: pl.DataFrame, made: pl.DataFrame) -> str:
    """The paper's errors over all workloads."""
    names = view.domain.columns
    true_counts, made_counts = (
        view.marginals.tally(np.stack([codes_of(view.domain, one, rows) for one in names], axis=1))
        for rows in (true, made)
    )
    found = workload_error(true_counts, made_counts, view.marginals)
    rows = [
        ("mean absolute error of a cell (AvgWE)", f"{found.average:.5f}"),
        ("of the worst workload (MaxWE)", f"{found.largest:.5f}"),
        ("mean relative error of a cell (AvgRelWE)", f"{found.average_relative:.3f}"),
        ("of the worst workload (MaxRelWE)", f"{found.largest_relative:.3f}"),
        ("mean total variation", f"{found.average_variation:.4f}"),
    ]
    words = page.note(f"Errors of proportions over all {len(view.marginals.cliques)} workloads.")
    return words + page.table(("measure", "synthetic rows"), rows)
