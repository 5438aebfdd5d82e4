"""`tailrace warm`: compile before the first release, for images."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

import tailrace as tr
from tailrace.checks.rows import made_up
from tailrace.cli import say
from tailrace.config import load
from tailrace.mechanisms.base import Mechanism, Takes

# Rows of a step, and points of a journey: enough for every loop to be called.
_ROWS, _POINTS = 600, 12
# A panel with a window of six begins at its sixth step.
_STEPS = 8


def warm_up(file: Path | None) -> None:
    """Release made-up rows in memory, and forget them."""
    before = time.perf_counter()
    mechanisms = [load(file).mechanism] if file is not None else list(_all())
    with say.compiling():
        for mechanism in mechanisms:
            rehearse(mechanism)
    seconds, names = time.perf_counter() - before, {type(one).__name__ for one in mechanisms}
    say.tell(f"Ready after {seconds:.1f} s: {', '.join(sorted(names))}.")


def rehearse(mechanism: Mechanism) -> None:
    """Push made-up rows; nothing is charged or kept."""
    noise = tr.Noise.insecure(0)
    rng = noise.at("rows").generator()
    steps = 1 if mechanism.takes is Takes.Once else min(mechanism.horizon or _STEPS, _STEPS)
    with tr.Stream(mechanism, noise=noise) as stream:
        for step in range(steps):
            # Ids are numbers or text.
            kind = pl.String if step % 2 else pl.Int64
            frame = made_up(mechanism, rng, rows=_ROWS, points=_POINTS, ids=kind)
            stream.push(frame, frame.head(9) if mechanism.deletes else None).table  # noqa: B018


def _all() -> Iterator[Any]:
    """One of each mechanism, small."""
    pure: dict[str, Any] = {"privacy": tr.PureDP(epsilon=1)}
    steps = {**pure, "horizon": _STEPS}
    pairs = tr.Schema(a=tr.Integer(0, 5), b=tr.Categorical(["x", "y"]), c=tr.Real(edges=[0, 1, 2]))
    square = tr.Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=16)
    panel: dict[str, Any] = {
        "domain": tr.Schema(a=tr.Integer(0, 1)),
        "unit": tr.User(column="person"),
        "horizon": _STEPS,
        "privacy": tr.ZCDP(rho=1),
        "neighbours": tr.AddRemove,
    }
    yield tr.HistogramStream(domain=pairs, unit=tr.Event(), **steps)
    yield tr.HistogramStream(domain=pairs, unit=tr.User(column="person", events=2), **steps)
    yield tr.SpatialStream(domain=square, unit=tr.Event(), **steps)
    yield tr.TabularStream(domain=pairs, unit=tr.Event(), **steps)
    yield tr.PanelWindow(window=3, **panel)
    yield tr.PanelColumns(
        window=2, **{**panel, "domain": tr.Schema(a=tr.Integer(0, 1), b=tr.Integer(0, 1))}
    )
    yield tr.PanelCumulative(**panel)
    yield tr.SnapshotHistogram(domain=pairs, unit=tr.User(column="person", records=1), **steps)
    yield tr.Trajectories(domain=square, unit=tr.Event(), trajectory="trip", order="minute", **pure)
    trips = {"domain": square, "trajectory": "trip", "order": "minute", **steps}
    yield tr.JourneyStream(unit=tr.User(column="person", events=2), **trips)
