"""Places with attributes: where in the tree values are halved, beside trivial answers.

Errors of counts per value, of counts without it (mean absolute, in parts of the mean count), of
shares of values, and how often 95 % intervals of counts per value hold the truth, in rectangles
that hold rows. Settings were chosen on generated maps; real ones had no part in any choice.

A map has clusters; each value has weights of its own on them, drawn from a Dirichlet distribution
(concentration 1: values live apart; "alike": all have the same). Rows come in ten steps.
"""

import functools
import itertools
from datetime import timedelta

import numpy as np
import polars as pl

from runner import data, main, measurement
from tailrace import Box, Event, Integer, Noise, Places, PureDP, Schema
from tailrace.counting.plan import Counts
from tailrace.domain.geometry import partition
from tailrace.domain.geometry.partition import Partition
from tailrace.domain.geometry.shares import shares
from tailrace.mechanisms.spatial.stream import SpatialStream

SIDE, STEPS = 512, 10
SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=SIDE)
SIZES = {"small": (0.0001, 0.001), "medium": (0.001, 0.01), "large": (0.01, 0.1)}
ASKED = 120
# How often places are halved before values are; "in turn": x, y, value.
ORDERS = {"values first": 0, "after 4": 4, "after 8": 8, "after 12": 12, "in turn": -1}
TRIVIAL = (
    "places, independent shares",
    "a stream each",
    "a stream each, budget divided",
    "uniform",
)
METHODS = (*ORDERS, *TRIVIAL)
GENERATED = [
    (f"{values} {kind}", rows, epsilon)
    for values in (2, 5, 20)
    for kind in ("even", "skewed", "alike")
    for rows in (1_000, 30_000, 1_000_000)
    for epsilon in (0.5, 1.0, 2.0)
    if (epsilon == 1 or (rows == 30_000 and values == 5)) and (kind != "alike" or values == 5)
]
REAL = (
    "evictions by reason (18)",
    "evictions by reason (5)",
    "geolife by mode (6)",
    "gowalla by part of the day (4)",
    "uber by part of the day (4)",
)


def weights_of(values: int, kind: str, rng: np.random.Generator) -> np.ndarray:
    """The share of each value: one has 1 % where they are skewed."""
    if kind != "skewed":
        return np.full(values, 1 / values)
    found = rng.permutation(1.6 ** -np.arange(values - 1.0))
    return np.append(0.99 * found / found.sum(), 0.01)


@functools.lru_cache(maxsize=2)
def made(name: str, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Points between 0 and 1, their values, and how many values there are."""
    rng, (many, kind) = np.random.default_rng(seed), name.split()
    values, clusters = int(many), 60
    centre, width = (
        rng.normal(0.5, 0.15, (clusters, 2)).clip(0.05, 0.95),
        rng.uniform(0.005, 0.03, clusters),
    )
    common = 1 / np.arange(1, clusters + 1)
    common /= common.sum()
    own = np.array([rng.dirichlet(clusters * common) for _ in range(values)])
    if kind == "alike":
        own[:] = common
    value = rng.choice(values, rows, p=weights_of(values, kind, rng))
    cluster = own.cumsum(axis=1)[value] < rng.random(rows)[:, None] * own.sum(axis=1)[value, None]
    cluster = np.minimum(cluster.sum(axis=1), clusters - 1)
    points = centre[cluster] + rng.normal(0, 1, (rows, 2)) * width[cluster, None]
    anywhere = rng.random(rows) < 0.03
    points[anywhere] = rng.random((int(anywhere.sum()), 2))
    return np.clip(1 - np.abs(1 - np.abs(points)), 0, 1), value, values


@functools.lru_cache(maxsize=2)
def read(name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Real points in order of time, scaled to a box that everybody knows."""
    if "evictions" in name:
        found = pl.read_parquet(data("sf_evictions") / "evictions.parquet").drop_nulls("lat")
        most = int(name.split("(")[1][:-1])
        known = found["reason"].value_counts(sort=True)["reason"].to_list()[: most - (most < 18)]
        value = found["reason"].replace_strict(
            {one: i for i, one in enumerate(known)}, default=len(known), return_dtype=pl.Int64
        )
        box = (-122.52, 37.70, -122.35, 37.84)
        return scaled(found["lon"], found["lat"], box), value.to_numpy(), most
    if "geolife" in name:
        folder = data("geolife")
        modes = ["walk", "bus", "bike", "taxi", "car", "subway"]
        label = pl.read_parquet(folder / "mode_labels.parquet")
        label = label.with_columns(pl.col("mode").cast(pl.String)).filter(
            pl.col("mode").is_in(modes)
        )
        label = label.with_columns(pl.col("start", "end").cast(pl.Datetime("ms"))).sort("start")
        points = pl.read_parquet(folder / "points.parquet").sort("ts")
        both = points.join_asof(label, left_on="ts", right_on="start", by="user")
        both = both.filter(pl.col("ts") <= pl.col("end")).sort("ts")
        value = both["mode"].replace_strict({one: i for i, one in enumerate(modes)}).to_numpy()
        x, y = both["lon_e5"] / 1e5, both["lat_e5"] / 1e5
        inside = (x.is_between(116.15, 116.60) & y.is_between(39.75, 40.10)).to_numpy()
        return scaled(x, y, (116.15, 39.75, 116.60, 40.10))[inside], value[inside], len(modes)
    if "gowalla" in name:
        found = pl.read_parquet(data("gowalla_nyc") / "checkins.parquet").sort("ts")
        local = found["ts"] - timedelta(hours=5)
        value = local.dt.hour().to_numpy().astype(np.int64) // 6
        return scaled(found["lon"], found["lat"], (-74.26, 40.48, -73.70, 40.92)), value, 4
    found = pl.read_parquet(data("uber_nyc_2014") / "pickups.parquet")
    value = found["hour_of_week"].to_numpy().astype(np.int64) % 24 // 6
    box = (-74.14, 40.61, -73.81, 40.86)
    return scaled(found["lon_e4"] / 1e4, found["lat_e4"] / 1e4, box), value, 4


def scaled(x: pl.Series, y: pl.Series, box: tuple[float, ...]) -> np.ndarray:
    """Points of a box, between 0 and 1."""
    low, high = np.array(box[:2]), np.array(box[2:])
    return np.clip((np.stack([x.to_numpy(), y.to_numpy()], axis=1) - low) / (high - low), 0, 1)


class Asked:
    """Rectangles along the finest cells, around rows, with true counts by value."""

    def __init__(self, points: np.ndarray, value: np.ndarray, values: int) -> None:
        rng, cell = np.random.default_rng(2026), np.minimum(points * SIDE, SIDE - 1).astype(int)
        exact = np.zeros((values, SIDE, SIDE))
        np.add.at(exact, (value, cell[:, 0], cell[:, 1]), 1)
        before = np.zeros((values, SIDE + 1, SIDE + 1))
        before[:, 1:, 1:] = exact.cumsum(axis=1).cumsum(axis=2)
        self.low, self.high, self.true = {}, {}, {}
        for name, (least, most) in SIZES.items():
            volume, ratio = rng.uniform(least, most, ASKED), rng.uniform(0.5, 2, ASKED)
            size = np.sqrt(volume)[:, None] * np.stack([ratio**0.5, ratio**-0.5], axis=1)
            size = np.maximum(np.rint(size * SIDE), 1).astype(int)
            corner = cell[rng.integers(0, len(cell), ASKED)] - (rng.random(size.shape) * size)
            low = np.clip(corner.astype(int), 0, SIDE - size)
            high = low + size
            (a, b), (c, d) = low.T, high.T
            self.true[name] = (
                before[:, c, d] - before[:, a, d] - before[:, c, b] + before[:, a, b]
            ).T
            self.low[name], self.high[name] = low / SIDE, high / SIDE
        self.total = exact.sum(axis=(1, 2))


def released(domain, cells, epsilon: float, seed: int):
    """The last view of a stream, of cells by step; (view, epochs)."""
    ours = SpatialStream(
        domain=domain, privacy=PureDP(epsilon=epsilon), unit=Event(), horizon=STEPS, deletes=False
    )
    state, noise, plan = ours.init(), Noise.insecure(seed), ours.plan(ours.init().public)
    nothing = plan.tally(np.zeros(0, np.int64))
    for step, some in enumerate(cells, 1):
        counts = Counts(plan.tally(some), nothing)
        state = ours.measure(state, counts, noise.at("step", step)).state
    return ours.view(state.public)


def answers(view, asked: Asked, values: int) -> dict[str, np.ndarray]:
    """(rectangles, values) counts by size; of places without values, one column."""
    leaves, codes = view.leaves, np.arange(values)
    held = np.ones((len(leaves.count), 1))
    if leaves.first.shape[1]:
        first, last = leaves.first[:, 0], leaves.last[:, 0]
        held = ((first[:, None] <= codes) & (codes < last[:, None])) / (last - first)[:, None]
    held = held * leaves.count[:, None]
    found = {}
    for name in SIZES:
        parts = [
            shares(SQUARE, leaves.low, leaves.high, low, high)
            for low, high in zip(asked.low[name], asked.high[name], strict=True)
        ]
        found[name] = np.array(parts) @ held
    found["shares"] = held.sum(axis=0)
    return found


def held(view, asked: Asked, values: int) -> float:
    """How many 95 % intervals of single values hold the truth."""
    inside = []
    for name, one, value in itertools.product(
        ("medium", "large"), range(20), range(min(values, 4))
    ):
        low, high = asked.low[name][one], asked.high[name][one]
        found = view.count(low=low, high=high, value=value)
        inside.append(abs(found.value - asked.true[name][one, value]) <= 1.96 * found.error)
    return float(np.mean(inside))


def ordered(first: int):
    """Halve places so often before values; -1: in turn."""
    own = Partition.turns.func

    def turns(self):
        found = own(self)
        values, ground = found[: self.coded], found[self.coded :]
        if first >= 0:
            return (*ground[:first], *values, *ground[first:])
        mixed = itertools.chain.from_iterable(
            (*ground[2 * i : 2 * i + 2], *values[i : i + 1]) for i in range(len(found))
        )
        return tuple(mixed)

    made = functools.cached_property(turns)
    made.__set_name__(Partition, "turns")
    return made


def asked_of(method, points, value, values, asked, epsilon, seed):
    """Answers of one method."""
    cell = np.minimum(points * SIDE, SIDE - 1).astype(np.int64)
    cells, parts = cell[:, 0] * SIDE + cell[:, 1], np.array_split(np.arange(len(points)), STEPS)
    rng = np.random.default_rng(seed)
    if method in ORDERS:
        kept = Partition.__dict__["turns"]
        try:
            setattr(Partition, "turns", ordered(ORDERS[method]))  # noqa: B010
            partition.partition_of.cache_clear()
            partition.area_before.cache_clear()
            domain = Places(SQUARE, Schema(value=Integer(0, values - 1)))
            numbers = value * SQUARE.size + cells
            view = released(domain, [numbers[part] for part in parts], epsilon, seed)
            return {**answers(view, asked, values), "held": held(view, asked, values)}
        finally:
            setattr(Partition, "turns", kept)  # noqa: B010
            partition.partition_of.cache_clear()
            partition.area_before.cache_clear()
    if method == "places, independent shares":
        view = released(SQUARE, [cells[part] for part in parts], 0.9 * epsilon, seed)
        noisy = asked.total + rng.laplace(0, 1 / (0.1 * epsilon), values)
        share = np.maximum(noisy, 0) / np.maximum(noisy, 0).sum()
        found = answers(view, asked, values)
        return {name: one.reshape(-1, 1) * share for name, one in found.items()} | {"shares": share}
    if method == "uniform":
        each = len(points) / values
        area = {n: np.prod(asked.high[n] - asked.low[n], axis=1)[:, None] for n in SIZES}
        return {n: np.repeat(one * each, values, axis=1) for n, one in area.items()} | {
            "shares": np.full(values, each)
        }
    own = epsilon / (values if "divided" in method else 1)
    each = []
    for code in range(values):
        some = [cells[part[value[part] == code]] for part in parts]
        each.append(answers(released(SQUARE, some, own, seed + 100 * code), asked, values))
    return {n: np.concatenate([one[n].reshape(-1, 1) for one in each], axis=1) for n in SIZES} | {
        "shares": np.array([one["shares"][0] for one in each])
    }


def errors(found, asked: Asked) -> list[float]:
    """Mean absolute errors by value, without it, and of shares; in parts of the mean count."""
    by_value, whole = [], []
    for name in SIZES:
        true = asked.true[name]
        by_value.append(np.abs(found[name] - true).mean() / max(true.mean(), 1e-9))
        off = np.abs(found[name].sum(axis=1) - true.sum(axis=1)).mean()
        whole.append(off / max(true.sum(axis=1).mean(), 1e-9))
    share, true = (one / max(one.sum(), 1e-9) for one in (found["shares"].ravel(), asked.total))
    return [*by_value, *whole, 100 * np.abs(share - true).mean(), found.get("held", np.nan)]


def places_alone(points, asked, epsilon, seed) -> list[float]:
    """Errors of counts without values, of places alone, under the whole budget."""
    cell = np.minimum(points * SIDE, SIDE - 1).astype(np.int64)
    cells = cell[:, 0] * SIDE + cell[:, 1]
    view = released(SQUARE, np.array_split(cells, STEPS), epsilon, seed)
    found, off = answers(view, asked, 1), []
    for name in SIZES:
        true = asked.true[name].sum(axis=1)
        off.append(np.abs(found[name][:, 0] - true).mean() / max(true.mean(), 1e-9))
    return off


COLUMNS = (
    "by value, small .3f | by value, medium .3f | by value, large .3f | all, small .3f"
    " | all, medium .3f | all, large .3f | shares, points .3f | covered .2f"
)


def rows_of(known, key, epsilon, methods, seeds):
    """A row for each method, then one of places alone."""
    for method in (*methods, "places alone, no values"):
        runs = []
        for seed in seeds:
            points, value, values = known(seed)
            asked = Asked(points, value, values)
            if method in METHODS:
                found = asked_of(method, points, value, values, asked, epsilon, seed)
                runs.append(errors(found, asked))
            else:
                off = places_alone(points, asked, epsilon, seed)
                runs.append([np.nan] * 3 + off + [np.nan] * 2)
        yield [*key, method, *("" if np.isnan(one) else one for one in np.mean(runs, axis=0))]


@measurement(
    "places_generated", keys="map | rows | epsilon | method", columns=COLUMNS, cases=GENERATED
)
def generated(name, rows, epsilon, seeds=2):
    """Chosen on: errors in parts of the mean count, by where values are halved."""
    many = seeds if rows < 1_000_000 else 1
    yield from rows_of(
        lambda seed: made(name, rows, seed), [name, rows, epsilon], epsilon, METHODS, range(many)
    )


@measurement(
    "places_real",
    keys="map | epsilon | method",
    columns=COLUMNS,
    cases=list(itertools.product(REAL, (0.5, 1.0, 2.0))),
)
def real(name, epsilon, seeds=2):
    """Reported on: real maps."""
    known = read(name)
    yield from rows_of(
        lambda _: known, [name, epsilon], epsilon, METHODS, range(2026, 2026 + seeds)
    )


if __name__ == "__main__":
    main(__doc__)
