"""Who is protected, and what it costs: an event, a person within any month, a person for good.

Generated streams of 360 days, 1,000 rows a day, in which 120,000 people come again and again;
blocks of 30 days. A bound is the least that cuts at most 1 % of the rows, over a block (`Window`)
or over all days (`User`). Places leave after 30 days and are judged by medium rectangles at 9 days;
tables grow and are judged by the total variation of all pairs at the same days. Nothing was chosen
here: all settings are the defaults. Beside them the trivial answers: no places, and uniform
columns. Means over noise seeds with standard errors.
"""

import functools
from collections.abc import Iterator

import numpy as np
import polars as pl

from runner import main, mean_error, measurement
from tailrace import (
    ZCDP,
    Event,
    Integer,
    Noise,
    PureDP,
    Schema,
    SpatialStream,
    Stream,
    TabularStream,
    User,
    Window,
)
from tailrace.counting.marginals import Marginals
from tailrace.experiments import spatial_data
from tailrace.metrics.ranges import count, error_of_counts, standard_queries
from tailrace.metrics.workloads import workload_error

FRESH = 2026
STEPS, MONTH, EVENTS, PEOPLE = 360, 30, 1000, 120_000
JUDGED = range(40, STEPS + 1, 40)
LOSSES = {"epsilon 1": PureDP(epsilon=1), "rho 0.1": ZCDP(rho="1/10")}
WHO = ("event", "person within 30 days", "person", "nothing released")
TABLE = Schema(**{f"c{i}": Integer(0, size - 1) for i, size in enumerate((2, 3, 5, 8, 4, 6))})


@functools.lru_cache(maxsize=1)
def people() -> np.ndarray:
    """(steps, events) who came: some often, most seldom."""
    rng = np.random.default_rng(FRESH)
    often = rng.gamma(1.0, 1.0, PEOPLE)
    return rng.choice(PEOPLE, (STEPS, EVENTS), p=often / often.sum())


def bound(steps: int) -> int:
    """The least bound on a person's rows in blocks of so many steps that cuts at most 1 %."""
    blocks = people().reshape(-1, steps * EVENTS)
    many = np.concatenate([np.bincount(block) for block in blocks])
    return next(m for m in range(1, STEPS) if np.maximum(many - m, 0).sum() <= 0.01 * many.sum())


def unit(who: str) -> Event | User | Window:
    if who == "event":
        return Event()
    if who == "person":
        return User(column="id", events=bound(STEPS))
    return Window(steps=MONTH, column="id", events=bound(MONTH))


@functools.lru_cache(maxsize=1)
def places() -> list[pl.DataFrame]:
    days = spatial_data.city(steps=STEPS, events=EVENTS, stay=None, seed=FRESH)
    return [
        pl.DataFrame({"id": who, "x": points[:, 0], "y": points[:, 1]})
        for who, (points, _) in zip(people(), days, strict=True)
    ]


@functools.lru_cache(maxsize=1)
def tables() -> list[pl.DataFrame]:
    """Columns that hang on a hidden kind of person, whose shares drift."""
    rng = np.random.default_rng(FRESH)
    kinds = 6
    shares = [rng.dirichlet(np.full(size, 0.5), kinds) for size in TABLE.shape]
    found = []
    for step, who in enumerate(people()):
        now = 1 + 0.5 * np.sin(2 * np.pi * (step / STEPS + np.arange(kinds) / kinds))
        kind = rng.choice(kinds, EVENTS, p=now / now.sum())
        columns = {
            name: (share[kind].cumsum(axis=1) > rng.random((EVENTS, 1))).argmax(axis=1)
            for name, share in zip(TABLE.columns, shares, strict=True)
        }
        found.append(pl.DataFrame({"id": who, **columns}))
    return found


def released(mechanism, days: list[pl.DataFrame], seed: int) -> Iterator[tuple[int, dict]]:
    """The synthetic columns of the steps that count."""
    with Stream(mechanism, noise=Noise.insecure(seed)) as stream:
        for step, day in enumerate(days, start=1):
            release = stream.push(day)
            if step in JUDGED:
                yield step, release.table.to_dict(as_series=False)


def error_of_places(who: str, loss, seed: int) -> float:
    box = spatial_data.SQUARE
    about = {"domain": box, "privacy": loss, "horizon": STEPS, "retention": MONTH}
    queries = standard_queries(np.random.default_rng(FRESH), low=box.low, high=box.high)["medium"]
    none = ((step, {"x": [], "y": []}) for step in JUDGED)
    ours = (
        none if who == WHO[-1] else released(SpatialStream(unit=unit(who), **about), places(), seed)
    )
    errors = []
    for step, found in ours:
        there = np.concatenate(
            [day.select("x", "y").to_numpy() for day in places()[:step][-MONTH:]]
        )
        points = np.stack([np.asarray(found[name], float) for name in ("x", "y")], axis=1)
        true, held = count(there, queries), count(points, queries)
        errors.append(error_of_counts(true, held, len(there)).every)
    return float(np.mean(errors))


def error_of_tables(who: str, loss, seed: int) -> float:
    about = {"domain": TABLE, "privacy": loss, "horizon": STEPS, "deletes": False}
    pairs = Marginals(TABLE.shape, tuple((i, j) for j in range(len(TABLE.shape)) for i in range(j)))
    rng = np.random.default_rng(seed)
    uniform = {
        name: rng.integers(0, size, 50_000)
        for name, size in zip(TABLE.columns, TABLE.shape, strict=True)
    }
    none = ((step, uniform) for step in JUDGED)
    ours = (
        none if who == WHO[-1] else released(TabularStream(unit=unit(who), **about), tables(), seed)
    )
    errors = []
    for step, found in ours:
        there = pl.concat(tables()[:step])
        true, held = (
            counted(pairs, np.stack([np.asarray(of[name]) for name in TABLE.columns], axis=1))
            for of in (there.to_dict(), found)
        )
        errors.append(workload_error(true, held, pairs).average_variation)
    return float(np.mean(errors))


def counted(pairs: Marginals, digits: np.ndarray) -> np.ndarray:
    """Flat counts of all pairs."""
    parts = [
        np.bincount(
            digits[:, i] * TABLE.shape[j] + digits[:, j],
            minlength=TABLE.shape[i] * TABLE.shape[j],
        )
        for i, j in pairs.cliques
    ]
    return np.concatenate(parts)


@measurement(
    "windows",
    keys="data | loss | protected",
    columns="bound | error",
    cases=[(data, loss, who) for data in ("places", "tables") for loss in LOSSES for who in WHO],
)
def windows(data: str, loss: str, who: str, seeds: int = 3) -> Iterator[list[object]]:
    """Error by the unit of privacy, at one loss for each."""
    work = error_of_places if data == "places" else error_of_tables
    found = [work(who, LOSSES[loss], FRESH + seed) for seed in range(seeds)]
    most = {"person": bound(STEPS), "person within 30 days": bound(MONTH)}.get(who)
    shown = f"{np.mean(found):.3f}+-{mean_error(np.array(found)):.3f}"
    yield [data, loss, who, most, shown]


if __name__ == "__main__":
    main(__doc__)
