"""Points with the steps from which and until which they are there, made of what each step adds and removes."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

FULL = 65535  # the side of a map in its own units
_NEVER = FULL


@dataclass(frozen=True)
class Lives:
    """One row a point; `gone` is the first step at which it is not there any more."""

    points: np.ndarray  # (points, 2)
    born: np.ndarray  # (points,) steps
    gone: np.ndarray

    def at(self, step: int) -> np.ndarray:
        """The points that are there at a step."""
        return self.points[(self.born <= step) & (step < self.gone)]


def lives(changes: Iterable[tuple[np.ndarray, np.ndarray]]) -> Lives:
    """Of the points added and removed at steps 1, 2, ...: a removal ends the oldest life of a point at that place.

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
            if held:  # a deletion of what was never inserted ends nothing
                gone[held.pop(0)] = step
        for place in added:
            alive[place.tobytes()].append(len(points))
            points.append(place)
            born.append(step)
            gone.append(_NEVER)
    return Lives(np.array(points).reshape(-1, 2), np.array(born, np.int64), np.array(gone, np.int64))


def layer(
    name: str, title: str, colour: str, found: Lives, low: Sequence[float], high: Sequence[float]
) -> dict[str, Any]:
    """The lives as a map reads them."""
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


def on_map(points: np.ndarray, low: Sequence[float], high: Sequence[float]) -> np.ndarray:
    """Coordinates between the corners as whole numbers from 0 to FULL."""
    span = np.asarray(high, float) - np.asarray(low, float)
    return np.clip(np.rint((points - np.asarray(low)) / span * FULL), 0, FULL).astype(np.int64)


def packed(numbers: np.ndarray) -> str:
    """16-bit numbers as text."""
    return base64.b64encode(np.minimum(numbers, FULL).astype("<u2").tobytes()).decode()
