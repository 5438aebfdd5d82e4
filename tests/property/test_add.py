"""Steps filled by many calls: any split, order, engine and repetition of the same rows makes the
release that one push of all of them makes.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

import duckdb
from hypothesis import given
from hypothesis import strategies as st

from samples import examples, rows
from tailrace import (
    ZCDP,
    AddRemove,
    Amount,
    Box,
    Categorical,
    Event,
    HistogramStream,
    Integer,
    Noise,
    PanelWindow,
    PureDP,
    Schema,
    SnapshotHistogram,
    SpatialStream,
    Stream,
    TabularStream,
    Trajectories,
    User,
    Window,
)
from tailrace.storage.codec import pack
from tailrace.stream.release import Kind

WARD = Schema(sex=Categorical(["f", "m"]), age=Integer(0, 2))
SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)
SPENT = Schema(sex=WARD.attributes[0], x=Amount(0, 1, unit=0.125))
PURE = {"privacy": PureDP(epsilon=1), "horizon": 2}
TRIPS = {"trajectory": "trip", "order": "time", "privacy": PureDP(epsilon=3), "domain": SQUARE}
PANEL = {"domain": Schema(sex=WARD.attributes[0]), "window": 2, "neighbours": AddRemove}
MECHANISMS = {
    "events": HistogramStream(domain=WARD, unit=Event(), deletes=True, **PURE),
    "people": HistogramStream(domain=WARD, unit=User(column="id", events=2), deletes=True, **PURE),
    "places": SpatialStream(domain=SQUARE, unit=Event(), deletes=True, **PURE),
    "table": TabularStream(domain=WARD, unit=Event(), deletes=True, **PURE),
    "panel": PanelWindow(unit=User(column="id"), privacy=ZCDP(rho=1), horizon=2, **PANEL),
    "snapshot": SnapshotHistogram(domain=WARD, unit=User(column="id", records=2), **PURE),
    "window": SnapshotHistogram(domain=WARD, unit=Window(steps=2, column="id", records=2), **PURE),
    "month": HistogramStream(domain=WARD, unit=Window(steps=2, column="id", events=2), **PURE),
    "sums": HistogramStream(domain=SPENT, unit=Event(), **PURE),
    "spending": HistogramStream(domain=SPENT, unit=User(column="id", events=2), **PURE),
    "trips": Trajectories(unit=Event(), **TRIPS),
    "travellers": Trajectories(unit=User(column="id"), **TRIPS),
}
ENGINES = {
    "polars": lambda frame: frame,
    "lazy": lambda frame: frame.lazy(),
    "pandas": lambda frame: frame.to_pandas(),
    "pyarrow": lambda frame: frame.to_arrow(),
    "duckdb": lambda frame: duckdb.from_arrow(frame.to_arrow()),
}
COLUMNS = {"panel": ["id", "sex"], "trips": ["trip", "time", "x", "y"]}


@st.composite
def calls(draw, name):
    """The calls of one step: frames, whether they are deletes, and keys; and all rows together."""
    deletes = MECHANISMS[name].deletes
    whole = rows(draw(st.integers(0, 99)), draw(st.integers(0, 40))).with_row_index("row")
    parts = draw(st.lists(st.integers(0, 4), min_size=len(whole), max_size=len(whole)))
    gone = draw(st.sets(st.integers(0, 4))) if deletes else set()
    frames = {
        part: whole.filter([p == part for p in parts]).sample(fraction=1, shuffle=True, seed=part)
        for part in range(5)
    }
    order = draw(
        st.lists(st.sampled_from(range(5)), max_size=5).map(lambda more: [*range(5), *more])
    )
    order = draw(st.permutations(order))
    engines = [draw(st.sampled_from(sorted(ENGINES))) for _ in order]
    wanted = COLUMNS.get(name, [column for column in whole.columns if column != "row"])
    made = [
        (ENGINES[engine](frames[part].select(wanted)), part in gone, f"{part}")
        for part, engine in zip(order, engines, strict=True)
    ]
    inserted, deleted = (
        whole.filter([(p in gone) == side for p in parts]).select(wanted) for side in (False, True)
    )
    return made, inserted, deleted if deletes else None


def seen(stream, release):
    """All that a step left: its table, its states, and the memory of its units."""
    state, segment = stream._standing.state, stream._standing.segment
    memory = [] if segment is None else sorted((stream._segments / segment).rglob("*"))
    return [
        release.table.to_dict(as_series=False),
        pack(state.public),
        pack(state.private),
        [(path.name, path.read_bytes()) for path in memory if path.is_file()],
    ]


@examples(100)
@given(st.sampled_from(sorted(MECHANISMS)), st.data())
def test_any_split_order_and_engine_makes_the_release_of_one_push(name, data):
    mechanism = MECHANISMS[name]
    steps = [data.draw(calls(name)) for _ in range(mechanism.horizon or 1)]
    last, kept = data.draw(st.booleans()), data.draw(st.booleans())
    with tempfile.TemporaryDirectory() as folder:
        made = {"noise": Noise.insecure(1)}
        whole = Stream(mechanism, **made)
        parts = Stream(mechanism, **made)
        if kept:
            parts = Stream.create(Path(folder) / "ward.tail", mechanism, population="p", **made)
        with whole, parts:
            ahead = set()
            for step, (each, inserted, deleted) in enumerate(steps, start=1):
                expected = seen(whole, whole.push(inserted, deleted))
                # The last call may be a push, which publishes what was added with it.
                *early, final = each if last else [*each, None]
                came = set(ahead) if step == 2 else set()
                if step == 1 < len(steps):
                    # Some rows of the next step come before this one is released.
                    for frame, gone, key in steps[1][0][: data.draw(st.integers(0, 5))]:
                        pair = (None, frame) if gone else (frame, None)
                        new = parts.add(None, later={2: pair}, key=f"2/{key}")
                        assert new == (key not in ahead)
                        ahead.add(key)
                for frame, gone, key in early:
                    added = parts.add(*((None, frame) if gone else (frame,)), key=f"{step}/{key}")
                    assert added == (key not in came)
                    came.add(key)
                if final is None or final[2] in came:
                    found = parts.publish()
                else:
                    found = parts.push(*((None, final[0]) if final[1] else (final[0],)))
                assert seen(parts, replace(found, kind=Kind())) == expected
