"""Tables drawn from releases alone: the same wherever they are drawn, and true to their counts."""

import numpy as np
import polars as pl
import pytest

from executing import Session
from tailrace import (
    ZCDP,
    Box,
    Categorical,
    ConfigError,
    Event,
    HistogramStream,
    Integer,
    Noise,
    PureDP,
    Real,
    Schema,
    SpatialStream,
    Stream,
    TabularStream,
)
from tailrace.mechanisms.shared import strata as strata_module
from tailrace.mechanisms.shared.strata import Strata

WARD = Schema(
    sex=Categorical(["f", "m"], outside="other"), age=Integer(0, 9), weight=Real(edges=[0, 1, 2])
)
SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=16)
MADE = {
    "bins": HistogramStream(domain=WARD, privacy=PureDP(epsilon=1), unit=Event(), horizon=3),
    "places": SpatialStream(domain=SQUARE, privacy=PureDP(epsilon=1), unit=Event(), horizon=3),
}


def rows(step, many=3000):
    rng = np.random.default_rng(step)
    return pl.DataFrame(
        {
            "sex": rng.choice(["f", "m", "?"], many),
            "age": rng.integers(0, 10, many),
            "weight": 2 * rng.random(many),
            "x": rng.beta(2, 8, many),
            "y": rng.random(many),
        }
    )


@pytest.fixture
def small(monkeypatch):
    """Blocks of so few rows that a table has many."""
    monkeypatch.setattr(strata_module, "BLOCK", 128)


@pytest.mark.parametrize("mechanism", MADE.values(), ids=MADE)
def test_executors_draw_the_table_that_this_process_draws(mechanism, small):
    with Stream(mechanism, noise=Noise.insecure(1)) as stream:
        release = stream.push(rows(1))
    here = release.drawn()
    for twice in (False, True):
        there = pl.from_arrow(release.drawn(Session(twice=twice)).toArrow())
        assert isinstance(there, pl.DataFrame)
        assert there.equals(here) and len(here) > 1000
    assert list(here.columns) == list(release.types)


@pytest.mark.parametrize("mechanism", MADE.values(), ids=MADE)
def test_a_stream_without_tables_measures_the_same(mechanism, tmp_path):
    told = {"population": "ward", "noise": Noise.insecure(1)}
    tables, found = {}, {}
    for full in ("checkpoints", "none"):
        with Stream.create(tmp_path / full, mechanism, full=full, **told) as stream:
            for step in (1, 2):
                release = stream.push(rows(step))
            tables[full], found[full] = len(release.rows), release.drawn()
    assert tables["none"] == 0 and tables["checkpoints"] > 5000
    assert found["none"].equals(found["checkpoints"])
    # A reader draws it again, and tables may begin and end at any step.
    with Stream.open(tmp_path / "none", full="checkpoints") as stream:
        assert stream.release(2).drawn().equals(found["none"])
        assert len(stream.push(None).rows) > 5000
    with Stream.open(tmp_path / "checkpoints", full="none") as stream:
        release = stream.push(None)
        assert len(release.rows) == 0 and len(release.removed) == tables["checkpoints"]


def test_every_run_of_cells_has_its_count(small):
    rng = np.random.default_rng(0)
    counts = np.where(rng.random(256) < 0.5, 0, rng.gamma(0.3, 20, 256))
    counts[7] = 3000.4
    made = Strata(SQUARE, np.arange(1, 257), counts)
    rng = np.random.default_rng(1)
    parts = [made.block(number, rng) for number in range(made.blocks)]
    table = pl.concat([pl.DataFrame(part) for part in parts])
    assert len(table) == made.rows == round(counts.sum())
    from tailrace.counting.plan import Plan
    from tailrace.domain.geometry.partition import partition_of

    found = Plan(SQUARE).count(table)[partition_of(SQUARE).cells]
    assert np.all(found[counts == 0] == 0)
    due = counts * (made.rows / counts.sum())
    assert np.abs(np.cumsum(found) - np.cumsum(due)).max() < 1
    assert np.abs(found - due).max() < 2
    assert made.digest(1) != made.digest(2)


def test_what_cannot_be_drawn_is_refused():
    tabular = TabularStream(domain=WARD, privacy=ZCDP(rho=1), unit=Event(), horizon=3)
    with Stream(tabular, noise=Noise.insecure(1)) as stream:
        release = stream.push(rows(1))
    with pytest.raises(ConfigError, match=r"release\.table"):
        release.drawn()
    with Stream(MADE["bins"], noise=Noise.insecure(1)) as stream:
        release = stream.push(None)
    with pytest.raises(ConfigError, match="SparkSession"):
        release.drawn(3)


def test_nothing_released_draws_no_rows():
    with Stream(MADE["bins"], noise=Noise.insecure(3)) as stream:
        release = stream.push(None)
    assert release.drawn().columns == list(WARD.columns)
    made = Strata(SQUARE, np.arange(1, 257), np.zeros(256))
    assert made.rows == made.blocks == 0
