"""Whatever the content, both ways of counting agree, counts add up, and decoding leads back to the
cell.
"""

import math

import narwhals as nw
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from samples import examples
from tailrace import ConfigError
from tailrace.counting.plan import Plan
from tailrace.domain import Amount, Box, Categorical, Integer, Real, Schema, from_dict

pa = pytest.importorskip("pyarrow", reason="the frames are made from Arrow tables")

finite = st.floats(allow_nan=False, allow_infinity=False)
small = st.integers(-20, 20)
outside = st.sampled_from(["drop", "clip", "other"])
known = st.sampled_from(["drop", "other"])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)

integers = st.builds(
    lambda a, b, out: Integer(min(a, b), max(a, b), outside=out), small, small, outside
)
edges = st.one_of(
    st.lists(st.one_of(small.map(float), finite), min_size=2, max_size=9, unique=True),
    st.lists(st.sampled_from([-0.5, 0.1, 0.2, 0.3, 1.0, 7.5]), min_size=2, max_size=6, unique=True),
)
reals = st.builds(lambda e, out: Real(edges=sorted(e), outside=out), edges, outside)
words = st.builds(
    lambda v, out: Categorical(v, outside=out),
    st.lists(texts, min_size=1, max_size=5, unique=True),
    known,
)
members = st.builds(
    lambda v, out: Categorical(v, outside=out),
    st.lists(small, min_size=1, max_size=5, unique=True),
    known,
)
flags = st.builds(
    lambda v, out: Categorical(v, outside=out),
    st.sampled_from([[True], [False, True], [True, False]]),
    known,
)
amounts = st.builds(
    lambda low, units, unit, out: Amount(low, low + units * unit, unit=unit, outside=out),
    small,
    st.integers(1, 40),
    st.sampled_from([0.25, 0.5, 1, 3]),
    st.sampled_from(["clip", "drop"]),
)
attributes = st.one_of(integers, reals, words, members, flags, amounts)
schemas = st.lists(attributes, min_size=1, max_size=4).map(
    lambda attributes: Schema(**{f"c{i}": attribute for i, attribute in enumerate(attributes)})
)


@st.composite
def boxes(draw):
    sides = draw(st.integers(1, 4))
    low = [draw(st.floats(-1e6, 1e6)) for _ in range(sides)]
    high = [a + draw(st.floats(1e-3, 1e6)) for a in low]
    cells, out = draw(st.sampled_from([1, 2, 7, 64, 1024])), draw(st.sampled_from(["drop", "clip"]))
    try:
        return Box(
            low=low, high=high, columns=[f"c{i}" for i in range(sides)], cells=cells, outside=out
        )
    except ConfigError:
        assume(False)


def columns(codes, draw, rows):
    """Columns of types that fit, their content near the domain or anywhere."""
    for number, column in enumerate(codes.columns):
        attribute = codes.attributes[number] if isinstance(codes, Schema) else None
        holds = "numbers" if attribute is None else attribute.holds
        if holds == "text":
            values, kind = st.one_of(texts, st.sampled_from(attribute.values)), pa.string()
        elif holds == "booleans":
            values, kind = st.booleans(), pa.bool_()
        elif holds == "whole numbers" and draw(st.booleans()):
            values, kind = st.one_of(small, st.integers(-(2**63), 2**63 - 1)), pa.int64()
        else:
            near = attribute.edges if isinstance(attribute, Real) else (0.0, -0.5, 1.0)
            if attribute is None:
                near = (
                    codes.low[number],
                    codes.high[number],
                    math.nextafter(codes.high[number], math.inf),
                )
            values = st.one_of(
                small.map(float), st.sampled_from(near), st.floats(-20, 20), st.floats()
            )
            kind = pa.float64()
        yield (
            column,
            pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind),
        )


@st.composite
def batches(draw, domains):
    codes = draw(domains)
    return codes, pa.table(dict(columns(codes, draw, draw(st.integers(0, 12)))))


def frames(table):
    """The same rows in every engine that starts fast enough to be asked a thousand times."""
    pd, pl, duckdb = (pytest.importorskip(name) for name in ("pandas", "polars", "duckdb"))
    frame = pl.DataFrame({name: pl.from_arrow(table[name]) for name in table.column_names})
    yield from (table, frame, frame.lazy(), duckdb.from_arrow(table))
    yield from (
        table.to_pandas(),
        table.to_pandas(types_mapper=pd.ArrowDtype),
        table.to_pandas().astype(object),
    )


@examples(150)
@given(batches(schemas | boxes()))
def test_expression_and_kernel_agree_on_every_engine(batch):
    codes, table = batch
    expected = codes.cells(nw.from_native(table)).tolist()
    assert all(-1 <= cell < codes.size for cell in expected)
    for frame in frames(table):
        rows = nw.from_native(frame)
        if isinstance(rows, nw.DataFrame):
            assert codes.cells(rows).tolist() == expected
        if not rows.implementation.is_pandas() or "object" not in map(str, frame.dtypes):
            cells = (
                rows.select(codes.cell(rows).fill_null(-1).alias("cell")).lazy().collect()["cell"]
            )
            assert cells.to_numpy().tolist() == expected


@examples(100)
@given(batches(schemas), st.data())
def test_counting_adds_up_over_any_partition(batch, data):
    codes, table = batch
    plan = Plan(codes)
    parts = np.array(
        data.draw(st.lists(st.integers(0, 2), min_size=len(table), max_size=len(table))), int
    )
    split = sum(plan.count(table.filter(pa.array(parts == part, pa.bool_()))) for part in range(3))
    assert split.tolist() == plan.count(table).tolist()
    assert plan.count(table).sum() == (codes.cells(nw.from_native(table)) >= 0).sum()


@examples(200)
@given(schemas | boxes(), st.integers(0, 2**32))
def test_what_is_decoded_lies_in_its_cell(codes, seed):
    rng = np.random.default_rng(seed)
    cells = np.concatenate([rng.integers(0, codes.size, 50), [0, codes.size - 1]])
    decoded = codes.decode(cells, rng)
    assert list(decoded) == list(codes.columns)
    pl = pytest.importorskip("polars")
    types = {
        nw.String(): pl.String,
        nw.Int64(): pl.Int64,
        nw.Boolean(): pl.Boolean,
        nw.Float64(): pl.Float64,
    }
    frame = pl.DataFrame(
        {name: pl.Series(v.tolist(), dtype=types[codes.types[name]]) for name, v in decoded.items()}
    )
    assert codes.cells(nw.from_native(frame)).tolist() == cells.tolist()


@given(schemas | boxes())
def test_a_stored_domain_is_the_same_domain(codes):
    assert from_dict(codes.to_dict()) == codes
