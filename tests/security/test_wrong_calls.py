"""Every public name, called wrongly in every way that a list of wrong values allows.

A call works, or is refused by a sentence that names an argument: never by a raw error of Python,
numpy or an engine, and never by waiting without end. Each name has a right call; the wrong ones
change one argument of it to each wrong value, leave one out, add one, or change two at once (drawn
with a fixed seed).
"""

import faulthandler
import importlib
import inspect
import itertools
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import shapely

import tailrace as tr
from tailrace.counting.marginals import all_ways
from tailrace.sources.reading import Reader
from tailrace.sources.used import Used

SAMPLE, SEED, PAIRS = (
    25,
    15,
    60,
)  # calls of each name in the default suite; of the draws; of two arguments at once
LONGEST = 600.0  # seconds of one call, on any machine

NAMESPACES = {
    "tailrace": tr,
    **{
        name: importlib.import_module(f"tailrace.{name}")
        for name in (
            *("counters", "metrics", "papers", "sinks", "sources", "models.tables", "mechanisms"),
            *("mechanisms.panel.queries", "mechanisms.snapshot", "mechanisms.trajectories"),
        )
    },
}
WARD = tr.Schema(sex=tr.Categorical(["f", "m"]), age=tr.Integer(0, 3), ill=tr.Integer(0, 1))
BIT = tr.Schema(poor=tr.Integer(0, 1))
CITY = tr.Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)
PERSON = tr.User(column="id", records=1)
PURE, RHO = tr.PureDP(epsilon=1), tr.ZCDP(rho="1/2")
ROWS = pl.DataFrame({"sex": ["f", "m"], "age": [1, 2], "ill": [0, 1]})
TRIP = pl.DataFrame({"trip": [1, 1], "at": [0, 1], "x": [0.1, 0.5], "y": [0.1, 0.5]})
DAILY = tr.Calendar(start="2026-01-01", period="1 day")
CALENDAR = {"reader": Reader(domain=WARD, time="day"), "calendar": DAILY, "late": "drop"}
NEVER = Path("there-is-no-such-folder")
HISTOGRAM = {"domain": WARD, "privacy": PURE, "unit": tr.Event(), "horizon": 4}
SPATIAL = {**HISTOGRAM, "domain": CITY}
SNAPSHOT = {**HISTOGRAM, "unit": PERSON}
PANEL = {
    "domain": BIT,
    "privacy": RHO,
    "unit": tr.User(column="id"),
    "horizon": 4,
    "neighbours": tr.AddRemove,
}
JOURNEY = {"domain": CITY, "privacy": PURE, "unit": tr.Event(), "trajectory": "trip", "order": "at"}
RNG, ARRAY = np.random.default_rng(0), np.array([1.0, 2.0, 3.0, 4.0])
BOXES = tr.metrics.Rectangles(np.zeros((2, 2)), np.ones((2, 2)))
TRACKS = tr.metrics.Tracks(np.array([0, 2]), np.array([0.1, 0.2]), np.array([0.1, 0.2]))
RANGES = tr.metrics.Ranges(np.zeros((2, 1), np.int64), np.ones((2, 1), np.int64))
POINTS = np.array([[0.1, 0.2], [0.3, 0.4]])
CORNERS = {"low": (0.0, 0.0), "high": (1.0, 1.0)}
TABLE = tr.Stream(tr.HistogramStream(**HISTOGRAM), noise=tr.Noise.insecure(1)).push(ROWS)

PUBLIC = tempfile.TemporaryDirectory(prefix="tailrace-")
with tr.Stream.create(
    f"{PUBLIC.name}/w", tr.HistogramStream(**HISTOGRAM), population="w"
) as stream:
    stream.push(ROWS)

RIGHT: dict[str, Any] = {
    "Releases": None,  # made by open_releases
    "plot": {"release": TABLE},
    "open_releases": {"where": f"{PUBLIC.name}/w"},
    "ZCDP": {"rho": 0.5},
    "PureDP": {"epsilon": 0.5},
    "ApproxDP": {"epsilon": 0.5, "delta": 1e-6},
    "User": {"column": "id", "events": 2},
    "Window": {"steps": 3, "column": "id", "records": 1},
    "Guarantee": {"loss": PURE, "unit": tr.Event(), "neighbours": tr.AddRemove, "horizon": 9},
    "Box": {**CORNERS, "columns": ("x", "y"), "cells": 8},
    "Region": {"polygons": shapely.box(0, 0, 1, 1), "cells": 8},
    "Roads": {"lines": shapely.LineString([(0, 0), (1, 1)]), "cells": 8},
    "Places": {
        "ground": tr.Box(**CORNERS, columns=("x", "y"), cells=8),
        "schema": tr.Schema(age=tr.Integer(0, 9)),
    },
    "Calendar": {"start": "2026-01-01", "period": "1 day"},
    "Categorical": {"values": ["f", "m"]},
    "Integer": {"low": 0, "high": 9},
    "Amount": {"low": 0, "high": 9, "unit": 0.5},
    "Real": {"edges": [0, 1, 2]},
    "Schema": {"age": tr.Integer(0, 9)},
    "Noise": None,  # made by Noise.fresh and Noise.insecure
    "Release": {name: getattr(TABLE, name) for name in inspect.signature(tr.Release).parameters},
    "Stream": {"mechanism": tr.HistogramStream(**HISTOGRAM)},
    "Ledger": {"path": "tailrace.ledger"},
    "plan": {"mechanism": tr.HistogramStream(**HISTOGRAM), "others": []},
    "release_once": {"mechanism": tr.Trajectories(**JOURNEY), "frame": TRIP},
    "run": {"stream": tr.Stream(tr.HistogramStream(**HISTOGRAM)), "source": tr.sources.Frames([])},
    "HistogramStream": HISTOGRAM,
    "TabularStream": HISTOGRAM,
    "TabularSteps": HISTOGRAM,
    "tabular_stream": HISTOGRAM,
    "streaming_mwem": HISTOGRAM,
    "SpatialStream": SPATIAL,
    "PrivTreeStream": SPATIAL,
    "privstream": SPATIAL,
    "SnapshotHistogram": SNAPSHOT,
    "dsft": {**SNAPSHOT, "threshold": 0.1},
    "dsat": SNAPSHOT,
    "budget_distribution": SNAPSHOT,
    "budget_absorption": SNAPSHOT,
    "PanelWindow": {**PANEL, "window": 2},
    "PanelCumulative": PANEL,
    "PanelColumns": {
        **PANEL,
        "domain": tr.Schema(a=tr.Integer(0, 1), b=tr.Integer(0, 1)),
        "window": 2,
    },
    "Between": {"first": 1, "last": 2},
    "panel_window": {**PANEL, "window": 2},
    "panel_cumulative": PANEL,
    "Trajectories": JOURNEY,
    "JourneyStream": {**JOURNEY, "horizon": 9},
    "PrivTreeTrajectories": JOURNEY,
    "trajectories": JOURNEY,
    "Bins": {"share": 0.1},
    "Octaves": {"share": 0.1},
    "Grids": {"share": 0.1, "sides": (4, 8)},
    "DayClock": {"start": 0, "end": 10},
    "DSFT": {"threshold": 0.1},
    "Unbounded": {"counter": tr.counters.Simple()},
    "best": {"privacy": PURE, "horizon": 9},
    "AtLeast": {"times": 1, "of": 2},
    "Spell": {"times": 1, "of": 2},
    "Pattern": None,  # any values
    "Weighted": {"by_window": np.ones((2, 2))},
    "Conditional": {"attribute": 0, "given": (), "table": ARRAY},
    "Measured": {"clique": (0,), "counts": ARRAY, "variance": 1.0},
    "TableModel": {"probabilities": ARRAY / 10, "total": 4.0},
    "TreeModel": None,  # made by a fit
    "RangeError": {"every": 0.1, "held": 0.1, "share": 0.1},
    "SnapshotError": {"absolute": 0.1, "relative": 0.1, "update": 0.1, "perturbation": 0.1},
    "TrajectoryError": dict.fromkeys(inspect.signature(tr.metrics.TrajectoryError).parameters, 0.1),
    "WorkloadError": {"absolute": ARRAY, "relative": ARRAY, "variation": ARRAY},
    "Ranges": {"low": RANGES.low, "high": RANGES.high},
    "Rectangles": {"low": BOXES.low, "high": BOXES.high},
    "Tracks": {"offsets": TRACKS.offsets, "x": TRACKS.x, "y": TRACKS.y},
    "answers": {"histogram": ARRAY, "ranges": RANGES, "shape": (4,)},
    "compare": {"real": ROWS, "synthetic": ROWS},
    "count": {"points": POINTS, "rectangles": BOXES},
    "random_ranges": {"rng": RNG, "shape": (4,), "number": 2},
    "ranges_of_size": {"rng": RNG, "shape": (4,), "number": 2, "share": 0.5},
    "random_rectangles": {"rng": RNG, **CORNERS, "number": 2, "least": 0.1, "most": 0.2},
    "small_rectangles": {"rng": RNG, **CORNERS},
    "standard_queries": {"rng": RNG, **CORNERS},
    "relative_error": {"true": POINTS, "synthetic": POINTS, "rectangles": BOXES},
    "snapshot_error": {"true": np.ones((2, 4)), "released": np.ones((2, 4))},
    "flow_error": {"true": TRACKS, "synthetic": TRACKS, "hours": ([0], [0]), **CORNERS},
    "trajectory_error": {"true": TRACKS, "synthetic": TRACKS, **CORNERS, "rectangles": BOXES},
    "workload_error": {
        "true": np.ones(12),
        "synthetic": np.ones(12),
        "marginals": all_ways((2, 2, 2), 2),
    },
    "CsvFolder": {"path": NEVER},
    "ParquetFolder": {"path": NEVER},
    "digest": {"release": TABLE},
    "Examination": dict.fromkeys(inspect.signature(tr.sources.Examination).parameters, 0),
    "examine": {"reader": Reader(domain=WARD), "calendar": None, "frame": ROWS},
    "Frames": {"frames": [None]},
    "Lines": {"lines": [b"{}"], "reader": Reader(domain=WARD)},
    "NamedFiles": {**CALENDAR, "path": NEVER, "name": "{date}.csv", "used": Used(NEVER)},
    "TimedFiles": {**CALENDAR, "shelf": tr.sources.Shelf(path=NEVER), "used": Used(NEVER)},
    "OrderedFiles": {
        "shelf": tr.sources.Shelf(path=NEVER),
        "reader": Reader(domain=WARD),
        "used": Used(NEVER),
    },
    "FolderSource": {"path": NEVER, "files": "*.csv"},
    "Given": {**CALENDAR, "used": Used(NEVER)},
    "SqlSource": {"url": "sqlite:///no.db", "table": "ward", "time": "day"},
    "TopicSource": {"servers": "no:1", "topic": "ward", "time": "day"},
    "Topic": {"servers": "no:1", "topic": "ward", **CALENDAR},
    "DeltaTables": {"path": "no"},
    "SparkTables": {"path": "no"},
    "SparkSource": {"loads": "parquet", "checkpoint": "no", "time": "day"},
    "SparkFeed": {
        "frame": SimpleNamespace(isStreaming=True, _jdf=None),
        "checkpoint": "no",
        **CALENDAR,
    },
    "Portion": {"batches": {}, "note": None},
    "Reader": {"domain": WARD},
    "Shelf": {"path": NEVER},
    "Used": {"path": NEVER},
    "named_shelf": {"path": NEVER, "name": "{date}.csv", "deletes": None},
    "sources.SqlTable": {"url": "sqlite:///no.db", "table": "ward", **CALENDAR},
    "sinks.SqlTable": {"url": "sqlite:///no.db", "table": "ward"},
}
WRONG: dict[str, Any] = {
    "None": None,
    "True": True,
    "0": 0,
    "-1": -1,
    "1": 1,
    "3": 3,
    "1/2": 0.5,
    "2.5": 2.5,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "1e308": 1e308,
    "1e-320": 1e-320,
    "10**30": 10**30,
    "2**61": 2**61,
    "-2**63": -(2**63),
    "10**400": 10**400,
    "empty text": "",
    "text": "x",
    "number as text": "0.5",
    "division by zero as text": "1/0",
    "broken text": "\ud800",
    "zero letter": "a\0b",
    "bytes": b"x",
    "empty list": [],
    "list": [1],
    "mixed list": [1, "x", None],
    "pair": (1, 2),
    "pair down": (2, 1),
    "nans": (float("nan"), float("nan")),
    "texts": ["a", "a"],
    "nested": [[[[]]]],
    "dict": {"a": 1},
    "set": {1},
    "range": range(3),
    "object": object(),
    "type": int,
    "Event": tr.Event,
    "PureDP": tr.PureDP,
    "Neighbours": tr.Neighbours,
    "function": len,
    "empty array": np.zeros(0),
    "array": np.array([1.5, np.nan]),
    "array of texts": np.array(["x"]),
    "array of objects": np.array([None, {}], dtype=object),
    "deep array": np.zeros((1, 1, 1, 1)),
    "int64": np.int64(3),
    "float32": np.float32(0.5),
    "Fraction": Fraction(1, 3),
    "Decimal": Decimal("NaN"),
    "complex": 1j,
    "date": date(2026, 1, 1),
    "Path": Path("x"),
    "frame": ROWS,
    "loss": PURE,
    "unit": tr.Window(steps=2, column="id", records=1),
    "schema": WARD,
    "box": CITY,
    "counter": tr.counters.Simple(),
    "mechanism": tr.HistogramStream(**HISTOGRAM),
    "policy": tr.papers.EveryStep(),
    "missing": tr.Missing.Drop,
}


@dataclass(frozen=True)
class Call:
    """A public name with arguments."""

    what: str
    made: Callable[..., Any]
    arguments: dict[str, Any] = field(repr=False)
    places: tuple[Any, ...] = field(default=(), repr=False)


def public() -> dict[str, Callable[..., Any]]:
    """Every public class and function once, by the shortest name that it has."""
    found: dict[Any, str] = {}
    for space, module in NAMESPACES.items():
        names = getattr(module, "__all__", None) or [
            name for name in vars(module) if not name.startswith("_")
        ]
        for name in names:
            made = getattr(module, name)
            home = "tailrace" if hasattr(module, "__all__") else module.__name__
            own = getattr(made, "__module__", "").startswith(home)
            contract = getattr(made, "_is_protocol", False) or inspect.isabstract(made)
            skipped = inspect.ismodule(made) or not callable(made) or contract
            if (
                skipped
                or not own
                or (
                    inspect.isclass(made)
                    and issubclass(made, Exception | tr.Neighbours | tr.Missing)
                )
            ):
                continue
            found.setdefault(made, f"{space}.{name}" if name == "SqlTable" else name)
    return {name: made for made, name in found.items() if RIGHT.get(name, {}) is not None}


NAMES = public()


def wrong_calls(name: str, made: Callable[..., Any]) -> list[Call]:
    """All wrong calls of a name, in an order that is drawn."""
    right, known = RIGHT.get(name, {}), inspect.signature(made).parameters
    free = any(one.kind is one.VAR_KEYWORD for one in known.values())
    arguments = (
        list(right)
        if free
        else [one.name for one in known.values() if one.kind is not one.VAR_POSITIONAL]
    )
    calls = [
        Call(f"{name}({argument}={label})", made, {**right, argument: value})
        for argument, (label, value) in itertools.product(arguments, WRONG.items())
    ]
    calls += [
        Call(
            f"{name} without {left}",
            made,
            {one: value for one, value in right.items() if one != left},
        )
        for left in right
    ]
    calls += [
        Call(f"{name}(unheard_of={label})", made, {**right, "unheard_of": WRONG[label]})
        for label in ("None", "1")
    ]
    calls += [
        Call(f"{name}({label}, by place)", made, right, (value,) * 9)
        for label, value in WRONG.items()
    ]
    calls += [Call(f"{name}({label})", made, {}, (value,)) for label, value in WRONG.items()]
    draw = random.Random(f"{SEED} {name}")
    for _ in range(PAIRS if len(arguments) > 1 else 0):
        two = {argument: draw.choice(list(WRONG)) for argument in draw.sample(arguments, 2)}
        calls.append(
            Call(
                f"{name}({two})",
                made,
                {**right, **{one: WRONG[label] for one, label in two.items()}},
            )
        )
    return draw.sample(calls, len(calls))


def fault(call: Call) -> str | None:
    """What is wrong with how a call ends; None where it works or is refused by a sentence."""
    try:
        made = call.made(*call.places, **call.arguments)
        if hasattr(made, "guarantee") and hasattr(made, "measure"):
            str(made.guarantee)
        return None
    except tr.Error as error:
        text = str(error)
        known = [*inspect.signature(call.made).parameters, *call.arguments, call.made.__name__]
        if not text.endswith((".", ")")) or "\n" in text:
            return f"{call.what}: no sentence: {text}"
        if not isinstance(error, tr.DataError) and not any(
            name.lower() in text.lower() for name in known
        ):
            return f"{call.what}: names no argument: {text}"
        return None
    except Exception as error:
        return f"{call.what}: {type(error).__name__}: {error}"


def faults(calls: list[Call]) -> list[str]:
    found = []
    for call in calls:
        faulthandler.dump_traceback_later(LONGEST, exit=True)  # a call that hangs says where
        try:
            found.append(fault(call))
        finally:
            faulthandler.cancel_dump_traceback_later()
    return [one for one in found if one is not None]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """No call leaves a file in the folder of the tests."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_the_right_call_works(name):
    """Otherwise the wrong ones would all fail at the same place."""
    NAMES[name](**RIGHT.get(name, {}))


@pytest.mark.parametrize("name", NAMES)
def test_some_wrong_calls_are_refused_by_a_sentence(name):
    assert faults(wrong_calls(name, NAMES[name])[:SAMPLE]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_wrong_call_is_refused_by_a_sentence(name):
    assert faults(wrong_calls(name, NAMES[name])) == []


def test_there_are_thousands_of_wrong_calls():
    assert sum(len(wrong_calls(name, made)) for name, made in NAMES.items()) > 18_807
