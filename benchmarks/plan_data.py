"""Streams that plans are compared on, with the mechanisms that release them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

import panel_joiners
import tables_data
import tailrace as tr
import trajectories_data
from runner import data
from tailrace.experiments import snapshots_data, spatial_data, tabular_data

EVENT = {"privacy": tr.PureDP(epsilon=1), "unit": tr.Event()}
PERSON = {"privacy": tr.PureDP(epsilon=1), "unit": tr.User(column="id", records=1)}


@dataclass(frozen=True, eq=False)
class Case:
    """A mechanism, real rows with their `step`, and what is stated about them.

    half: the column of what is halved whole; None: rows.
    facts: those that are not rows of a step.
    """

    mechanism: Any
    frame: pl.DataFrame
    steps: int
    facts: dict[str, Any]
    half: str | None = None

    def halves(self, seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The private half and the public one."""
        rng = np.random.default_rng(seed)
        if self.half is None:
            coin = rng.random(len(self.frame)) < 0.5
        else:
            number = self.frame[self.half].rank("dense").to_numpy() - 1
            coin = (rng.random(int(number.max()) + 1) < 0.5)[number]
        return self.frame.filter(coin), self.frame.filter(~coin)


def stepped(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """The rows of all steps, with their step."""
    return pl.concat([one.with_columns(step=pl.lit(step)) for step, one in enumerate(parts, 1)])


# Places


def places(stream: spatial_data.Steps, box: tr.Box, stays: int | None = None, **facts: Any) -> Case:
    """Points that come, and are deleted after some steps."""
    frame = stepped([spatial_data.frame(box, adds) for adds, _ in stream])
    steps, deletes = len(stream), stays is not None
    made = tr.SpatialStream(domain=box, horizon=steps, deletes=deletes, **EVENT)
    return Case(made, frame, steps, {"stays": stays, **facts})


def tenth(stream: spatial_data.Steps) -> spatial_data.Steps:
    """Every tenth point."""
    return [(adds[::10], deletes) for adds, deletes in stream]


def evictions_places() -> Case:
    """Notices in San Francisco by month, 1997 to 2015."""
    rows = pl.read_parquet(data("sf_evictions", "evictions_1997_2015_date_place.parquet"))
    month = (rows["file_date"].dt.year() - 1997) * 12 + rows["file_date"].dt.month()
    box = tr.Box(low=(-122.52, 37.70), high=(-122.35, 37.84), columns=("lon", "lat"))
    frame = rows.select("lon", "lat").with_columns(step=month.cast(pl.Int32))
    steps = int(month.max())  # pyright: ignore[reportArgumentType]
    made = tr.SpatialStream(domain=box, horizon=steps, deletes=False, **EVENT)
    return Case(made, frame, steps, {})


# Tables


def table(domain: tr.Schema, digits: np.ndarray, cuts: np.ndarray, **facts: Any) -> Case:
    """Rows of a table, given as the numbers of their values."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(domain.decode_digits(list(digits[: cuts[-1]].T), rng))
    steps = len(cuts) - 1
    step = np.repeat(np.arange(1, steps + 1), np.diff(cuts))
    made = tr.TabularStream(domain=domain, horizon=steps, deletes=False, **EVENT)
    return Case(made, frame.with_columns(step=step), steps, facts)


def known_table(name: str, order: str, **facts: Any) -> Case:
    found = tables_data.stream(name, order, 0)
    return table(found.domain, found.digits, found.cuts, **facts)


def published_table(name: str, every: int, **facts: Any) -> Case:
    """A stream of the paper, `every` steps of it in one."""
    found = tabular_data.stream(name)
    cuts = np.append(found.cuts[:-1:every], found.cuts[-1])
    return table(found.domain, found.digits, cuts, **facts)


# Snapshots


def snapshots(series: snapshots_data.Series, **facts: Any) -> Case:
    """People in cells; the rows of a step are everybody."""
    parts = []
    for counts in series:
        cells = np.repeat(np.arange(series.bins), counts)
        codes = np.unravel_index(cells, series.shape)
        names = series.domain.columns
        parts.append(
            pl.DataFrame({n: c.astype(np.int32) for n, c in zip(names, codes, strict=True)})
        )
    made = tr.SnapshotHistogram(domain=series.domain, horizon=len(series), **PERSON)
    return Case(made, stepped(parts), len(series), facts)


# Journeys


def journeys(tracks: Any, box: tr.Box, **facts: Any) -> Case:
    sizes = np.diff(tracks.offsets)
    trip = np.repeat(np.arange(len(sizes)), sizes)
    order = np.arange(len(trip)) - np.repeat(tracks.offsets[:-1], sizes)
    columns = dict(zip(box.columns, (tracks.x, tracks.y), strict=True))
    frame = pl.DataFrame({"trip": trip, "minute": order, **columns})
    made = tr.Trajectories(domain=box, trajectory="trip", order="minute", **EVENT)
    return Case(made, frame, 1, {"points": round(sizes.mean()), **facts}, half="trip")


CITY = spatial_data.SQUARE
TRIALS: dict[str, tuple[str, Callable[[], Case]]] = {
    "city (chosen)": (
        "places",
        lambda: places(spatial_data.city(steps=100), CITY, 60),
    ),
    "gowalla": (
        "places",
        lambda: places(spatial_data.gowalla(steps=100), spatial_data.NEW_YORK),
    ),
    "gowalla, 30 steps": (
        "places",
        lambda: places(spatial_data.gowalla(steps=100), spatial_data.NEW_YORK, 30),
    ),
    "evictions, places (chosen)": ("places", evictions_places),
    "uber": (
        "places",
        lambda: places(tenth(spatial_data.uber()), spatial_data.NEW_YORK),
    ),
    "nass_cds (chosen)": ("table", lambda: known_table("nass_cds", "random", matter=8)),
    "gss_wages (chosen)": (
        "table",
        lambda: known_table("gss_wages", "natural", matter=6, moving=0.01),
    ),
    "birds": ("table", lambda: known_table("birds", "natural", matter=8)),
    "adult": ("table", lambda: published_table("adult-randomized-200", 2, matter=8)),
    "adult, sorted": (
        "table",
        lambda: published_table("adult-ordered-200", 2, matter=8, moving=0.02),
    ),
    "census (chosen)": (
        "snapshots",
        lambda: snapshots(snapshots_data.census(steps=60, people=50_000, sides=3), changing=0.25),
    ),
    "taxis": (
        "snapshots",
        lambda: snapshots(snapshots_data.taxis(steps=100, people=20_000), changing=0.1),
    ),
    "traffic": ("snapshots", lambda: snapshots(snapshots_data.traffic(side=64), changing=0.3)),
    "geolife": (
        "journeys",
        lambda: journeys(trajectories_data.geolife(), trajectories_data.BEIJING),
    ),
    "oldenburg": (
        "journeys",
        lambda: journeys(trajectories_data.oldenburg(), trajectories_data.OLDENBURG, clusters=0),
    ),
}


# Histograms and panels, whose errors are exact


def histograms(name: str) -> Case:
    """Events on a coarse map or by district, counted in bins."""
    if name == "evictions":
        found = tabular_data.stream("evictions-weekly")
        frame = found.frame.select("supervisor_district").with_columns(
            step=np.repeat(np.arange(1, len(found) + 1), np.diff(found.cuts))
        )
        domain = tr.Schema(supervisor_district=tr.Integer(1, 11, outside="other"))
        steps = len(found)
    elif name == "adult":
        frame, whole = tabular_data.adult()
        domain = tr.Schema(**{one: whole.attributes[whole.columns.index(one)] for one in ADULT})
        steps = 200
        frame = frame.select(ADULT).with_columns(step=np.arange(len(frame)) * steps // len(frame))
    else:
        stream = spatial_data.uber() if name == "uber" else spatial_data.gowalla(steps=300)
        box = spatial_data.NEW_YORK
        scale = 16 / np.subtract(box.high, box.low)
        cells = [np.clip((adds - box.low) * scale, 0, 15).astype(np.int64) for adds, _ in stream]
        frame = stepped([pl.DataFrame({"east": c[:, 0], "north": c[:, 1]}) for c in cells])
        domain, steps = tr.Schema(east=tr.Integer(0, 15), north=tr.Integer(0, 15)), len(stream)
    made = tr.HistogramStream(domain=domain, horizon=steps, **EVENT)
    return Case(made, frame, steps, {})


ADULT = ("education", "sex", "income>50K")
PANELS = ("credit_delay", "cdnow_bought", "actcal_notworking", "mvad_jobless", "nlswork")


def panel(name: str) -> np.ndarray:
    """(steps, people) zeros and ones; 2 where a person is absent."""
    if name == "nlswork":
        return panel_joiners.nlswork("union")
    frame = pl.read_parquet(data("panels", f"{name}.parquet"))
    steps = sorted(one for one in frame.columns if one[0] == "t" and one[1:].isdigit())[:24]
    return frame.select(steps).to_numpy().T.astype(np.int64)
