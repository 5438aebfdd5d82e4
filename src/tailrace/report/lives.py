"""Points with the steps at which they exist."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.report.maps import FULL, on_map, packed

_NEVER = FULL


@dataclass(frozen=True)
class Lives:
    """Points with their first step and their end.

    `gone` is the first step without the point.
    """

    points: np.ndarray  # (points, 2)
    born: np.ndarray  # (points,) steps
    gone: np.ndarray

    def at(self, step: int) -> np.ndarray:
        """Return the points that exist at a step."""
        return self.points[(self.born <= step) & (step < self.gone)]


def lives(changes: Iterable[tuple[np.ndarray, np.ndarray]]) -> Lives:
    """Follow points through the changes of steps 1, 2, ...

    Each step gives the points added and the points removed.

    A removal ends the oldest life of a point at that place; of a point never added, none.

    >>> place = np.array([[0.5, 0.5]])
    >>> lives([(place, place[:0]), (place[:0], place)]).gone
    array([2])
    """
    points: list[np.ndarray] = []
    born: list[int] = []
    gone: list[int] = []
    alive: dict[bytes, list[int]] = defaultdict(list)
    for step, (added, removed) in enumerate(changes, 1):
        for place in removed:
            held = alive.get(place.tobytes())
            if held:
                gone[held.pop(0)] = step
        for place in added:
            alive[place.tobytes()].append(len(points))
            points.append(place)
            born.append(step)
            gone.append(_NEVER)
    placed = np.array(points) if points else np.zeros((0, 2))
    return Lives(placed, np.array(born, np.int64), np.array(gone, np.int64))


def layer(
    name: str, title: str, colour: int, found: Lives, low: Sequence[float], high: Sequence[float]
) -> dict[str, Any]:
    """Write the lives as a map reads them."""
    scaled = on_map(found.points, low, high)
    return {
        "name": name,
        "title": title,
        "colour": colour,
        "x": packed(scaled[:, 0]),
        "y": packed(scaled[:, 1]),
        "born": packed(found.born),
        "gone": packed(found.gone),
    }
