"""Panels: windows, weights and index sets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace import papers
from tailrace.audit import gallery
from tailrace.audit.losses.replaying import Points, metered, replayed
from tailrace.counting.plan import Counts
from tailrace.domain import Integer, Schema
from tailrace.mechanisms.panel.window import PanelWindow
from tailrace.noise import Noise
from tailrace.privacy.loss import ZCDP
from tailrace.privacy.unit import Null, Replace, User

_HALF = Fraction(1, 2)
_POOR = Schema(poor=Integer(0, 1))
_PERSON = User(column="id")


def panel_windows() -> Points:
    """One person of one step, replaced."""
    zero, one = np.array([[0]]), np.array([[1]])

    def published(history: np.ndarray, noise: Any) -> np.ndarray:
        return gallery.published_panel_counts(history, window=1, rho=_HALF, noise=noise)

    made = PanelWindow(
        domain=_POOR,
        unit=_PERSON,
        window=1,
        horizon=1,
        privacy=ZCDP(rho=_HALF),
        neighbours=Replace,
        people=1,
        complete=True,
    )

    def ours(history: np.ndarray, noise: Any) -> np.ndarray:
        counts = np.bincount(history[:, 0], minlength=2)
        made.measure(made.init(), Counts(counts, 0 * counts), noise)
        return np.zeros(0)

    lost = replayed(published, zero, one, "rho")
    return [("k = T = 1", lost / 0.5, replayed(ours, zero, one, "rho") / 0.5)]


def panel_windows_noise() -> Iterator[tuple[str, float, float]]:
    """Of one bin, people replaced."""
    rho = Fraction("0.005")
    for window, horizon in ((1, 12), (3, 12)):
        corrected = papers.panel_window(
            domain=_POOR,
            unit=_PERSON,
            window=window,
            horizon=horizon,
            privacy=ZCDP(rho=rho),
            neighbours=Replace,
            people=1000,
        )
        printed = math.sqrt((horizon - window + 1) / (2 * rho))
        yield (
            f"k = {window}, T = {horizon}, rho = 0.005",
            printed,
            math.sqrt(corrected._atoms[0].scale),
        )


def panel_weights() -> Points:
    """A person with the value at every step against one who never has it."""
    points: Points = []
    for horizon in (2, 4, 8, 12):
        worlds = [np.full((1, horizon), value) for value in (1, 0)]

        def published(history: np.ndarray, noise: Any) -> np.ndarray:
            return gallery.published_panel_sums(history, rho=_HALF, noise=noise)

        made = papers.panel_cumulative(
            domain=_POOR,
            unit=_PERSON,
            horizon=horizon,
            privacy=ZCDP(rho=_HALF),
            neighbours=Null,
            people=30,
        )
        lost = replayed(published, worlds[0], worlds[1], "rho") / 0.5
        points.append((horizon, lost, metered(made)))
    return points


def panel_hats() -> Points:
    """How often person 3's row is 1 although nobody of prefix 0 gets a 1."""
    others = [[0, 0, 0]] * 2
    worlds = [np.array([*others, last]) for last in ([1, 1, 1], [0, 0, 0])]
    hits = []
    for world in worlds:
        rows = [
            gallery.published_panel_people(world, window=2, rho=_HALF, noise=Noise.insecure(seed))
            for seed in range(300)
        ]
        hits.append(sum(row[2] == 1 and row[3] == 0 for row in rows))
    lost = math.inf if hits[0] > 0 and hits[1] == 0 else math.nan
    made = PanelWindow(
        domain=_POOR,
        unit=_PERSON,
        window=2,
        horizon=3,
        privacy=ZCDP(rho=_HALF),
        neighbours=Replace,
        people=30,
    )
    return [("3 people, 3 steps", lost, metered(made))]
