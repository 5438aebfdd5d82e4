"""A generated city for the demonstration; nobody is in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tailrace.domain import Box

DAYS = 60
CITY = Box(low=(0.0, 0.0), high=(12.0, 9.0), columns=("east", "north"))  # kilometres


@dataclass(frozen=True)
class Day:
    """Places of arrivals and departures; a move is both."""

    came: np.ndarray  # (rows, 2)
    left: np.ndarray


def days(
    seed: int = 60, *, arrivals: int = 700, moves: float = 0.02, leaves: float = 0.01
) -> Iterator[Day]:
    """Generate sixty days of arrivals and departures.

    Quarters grow and drift, nobody lives in the river, and a new quarter begins at half time.
    """
    rng = np.random.default_rng(seed)
    quarters = rng.uniform((1.0, 1.0), (11.0, 8.0), (14, 2))
    drift = rng.normal(0, 0.02, (14, 2))
    width = rng.uniform(0.15, 0.6, 14)
    size = rng.dirichlet(np.full(14, 1.5))
    people = np.zeros((0, 2))
    for day in range(DAYS):
        grown = size.copy()
        grown[-1] *= 6.0 if day >= DAYS // 2 else 0.0  # the new quarter
        centres = quarters + drift * day
        leaving = rng.random(len(people)) < leaves
        moving = ~leaving & (rng.random(len(people)) < moves)
        came = _homes(rng, arrivals + int(moving.sum()), centres, width, grown / grown.sum())
        gone = people[leaving | moving]
        people = np.concatenate([people[~(leaving | moving)], came])
        yield Day(came, gone)


def _homes(
    rng: np.random.Generator, count: int, centres: np.ndarray, width: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """Draw places around the centres, on dry ground."""
    homes = np.zeros((0, 2))
    while len(homes) < count:
        quarter = rng.choice(len(centres), count, p=share)
        found = centres[quarter] + rng.normal(0, 1, (count, 2)) * width[quarter, None]
        anywhere = rng.random(count) < 0.05
        found[anywhere] = rng.uniform(CITY.low, CITY.high, (int(anywhere.sum()), 2))
        river = 4.5 + 1.2 * np.sin(found[:, 0] * 0.6)
        dry = np.abs(found[:, 1] - river) > 0.18
        inside = ((found > CITY.low) & (found < CITY.high)).all(axis=1)
        homes = np.concatenate([homes, found[dry & inside]])
    return homes[:count]
