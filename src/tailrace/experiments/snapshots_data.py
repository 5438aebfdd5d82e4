"""Series of snapshots: a census-like table, traffic, taxis.

The table is generated, traffic is Oldenburg's, taxis are of dpcomp.

One person has one record in a snapshot at most.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from tailrace import Integer, Schema
from tailrace.experiments.runner import data
from tailrace.experiments.spatial_data import city

CENSUS = (96, 2, 12, 2, 2, 3)


@dataclass(frozen=True, eq=False)
class Series:
    """Snapshots as cells and counts, so that many of a large table fit in memory."""

    name: str
    shape: tuple[int, ...]
    population: int  # public: about how many people there are
    snapshots: list[np.ndarray]  # (cells,) int32 histograms, or (rows,) cells where `sparse`
    sparse: bool = False

    @property
    def domain(self) -> Schema:
        return Schema(**{f"side{i}": Integer(0, side - 1) for i, side in enumerate(self.shape)})

    @property
    def bins(self) -> int:
        return int(np.prod(self.shape))

    def __len__(self) -> int:
        return len(self.snapshots)

    def __iter__(self) -> Iterator[np.ndarray]:
        for snapshot in self.snapshots:
            counts = np.bincount(snapshot, minlength=self.bins) if self.sparse else snapshot
            yield counts.astype(np.int64)


def census(
    *,
    steps: int = 500,
    people: int = 500_000,
    rate: float = 0.5,
    sides: int = 6,
    regimes: int = 10,
    seed: int = 0,
) -> Series:
    """The paper's construction: m people leave at each step and m come from one pool.

    m is normal around rate people / 2, with another mean in each of ten regimes. `sides` keeps the
    first of the six attributes.
    """
    rng = np.random.default_rng(seed)
    shape = CENSUS[:sides]
    share = _joint(np.random.default_rng(1)).reshape(*shape, -1).sum(axis=-1).reshape(-1)
    # Times the mean: none to twice.
    pace = np.random.default_rng(2).permutation(np.linspace(0.0, 2.0, regimes))
    now = rng.multinomial(people, share)
    found = [now.astype(np.int32)]
    for t in range(1, steps):
        m = rng.normal(pace[t * regimes // steps] * rate * people / 2, 316)
        leave = int(np.clip(m, 0, people))
        now = (
            now
            - rng.multivariate_hypergeometric(now, leave, method="marginals")
            + rng.multinomial(leave, share)
        )
        found.append(now.astype(np.int32))
    return Series("census", shape, people, found)


def _joint(rng: np.random.Generator) -> np.ndarray:
    """A joint distribution: schooling, insurance, marriage and income hang on age, as they do."""
    age = np.arange(96)
    weight = np.interp(age, [0, 20, 60, 80, 95], [1.0, 1.1, 1.0, 0.5, 0.08])
    table = (weight / weight.sum())[:, None] * np.array([0.49, 0.51])
    for values in CENSUS[2:]:
        low, high = rng.normal(0, 1.5, (2, values))
        bend = rng.normal(0, 1.0, (2, values))
        rows = table.reshape(96, 2, -1)
        lean = (low + (high - low) * (age / 95)[:, None])[:, None, None, :] + bend[None, :, None, :]
        lean = lean + 0.3 * rng.normal(0, 1, (1, 1, rows.shape[2], values))
        part = np.exp(lean - lean.max(axis=-1, keepdims=True))
        table = rows[..., None] * part / part.sum(axis=-1, keepdims=True)
    return table / table.sum()


def traffic(*, side: int = 1024, steps: int = 200) -> Series:
    """Where the objects are, on a grid of side x side cells, at each of up to 200 steps."""
    points = pl.read_parquet(data("oldenburg_traffic", "points.parquet")).sort("t")
    x, y = (
        np.clip(points[name].to_numpy() * side // 100_000, 0, side - 1) for name in ("x_dm", "y_dm")
    )
    cells, step = (x * side + y).astype(np.int32), points["t"].to_numpy()
    starts = np.searchsorted(step, np.arange(steps + 1))
    parts = [cells[a:b] for a, b in itertools.pairwise(starts)]
    return Series("traffic", (side, side), 4000, parts, sparse=True)


def moving(
    *, side: int = 256, steps: int = 200, people: int = 4000, stay: int = 20, seed: int = 0
) -> Series:
    """A generated city on a grid: who came in the last `stay` steps."""
    adds = [new for new, _ in city(steps=steps, events=people // stay, stay=None, seed=seed)]
    cells = [np.minimum((new * side).astype(np.int32), side - 1) @ [side, 1] for new in adds]
    parts = [np.concatenate(cells[max(0, t - stay + 1) : t + 1]) for t in range(steps)]
    return Series("moving", (side, side), people, parts, sparse=True)


def taxis(*, steps: int = 400, people: int = 100_000, rate: float = 0.1, seed: int = 0) -> Series:
    """Taxis that wait where trips start or end in Beijing; the share of the two changes."""
    found = pl.read_parquet(data("dpcomp_hist", "histograms.parquet"))
    maps = []
    for name in ("BeijingTaxiS_256_256", "BeijingTaxiE_256_256"):
        rows = found.filter(pl.col("dataset") == name)
        table = np.zeros((256, 256))
        table[rows["i"].to_numpy(), rows["j"].to_numpy()] = rows["count"].to_numpy()
        maps.append(table.reshape(-1) / table.sum())
    rng = np.random.default_rng(seed)
    place = rng.choice(256 * 256, people, p=maps[0])
    snapshots = [place.astype(np.int32)]
    for t in range(1, steps):
        ends = 0.5 - 0.5 * np.cos(2 * np.pi * t / 100)
        move = rng.random(people) < rate
        place = place.copy()
        place[move] = rng.choice(
            256 * 256, int(move.sum()), p=(1 - ends) * maps[0] + ends * maps[1]
        )
        snapshots.append(place.astype(np.int32))
    return Series("taxis", (256, 256), people, snapshots, sparse=True)
