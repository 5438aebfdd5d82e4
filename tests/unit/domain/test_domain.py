import json
import math
import tomllib
from datetime import date
from decimal import Decimal

import narwhals as nw
import numpy as np
import pytest

from samples import but_spark
from tailrace import ConfigError, DataError
from tailrace.domain import Box, Categorical, Integer, Real, Schema, from_dict

INF, NAN = math.inf, math.nan
CONTENT = {
    "age": ("int64", [0, 99, 100, -1, None, 50, 2**62 + 1, -(2**62), 7, 7, 7, 7]),
    "level": ("float64", [0.0, 2.0, 1.5, -0.0, None, NAN, INF, -INF, 1e300, 2.0, -0.5, 1.0]),
    "income": (
        "float64",
        [0.0, 10.0, 9.999999, 20.0, None, NAN, INF, -INF, 20.000001, -1e-300, 5e-324, 15.0],
    ),
    "sex": ("string", ["f", "m", "x", "", None, "F", "f ", "f\0", "é", "m", "f", "m"]),
    "code": ("int32", [5, -3, 11, 0, None, 5, 5, 4, 11, 11, -3, 6]),
    "flag": ("bool", [True, False, None, True, False, True, None, True, False, True, True, False]),
    "lon": (
        "float64",
        [-1.0, 1.0, 0.0, 1.0000001, None, NAN, INF, -INF, 0.999999, -0.3, 0.25, -0.25],
    ),
    "lat": ("float32", [0.0, 2.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, None, NAN, 1.9999, -0.1]),
    "small": ("uint8", [0, 255, 3, None, 4, 5, 6, 7, 8, 9, 10, 11]),
    "wide": ("uint64", [0, 2**64 - 1, 3, None, 4, 5, 6, 7, 8, 9, 2**63, 2**53 + 1]),
}
ENGINES = {
    "pyarrow": lambda table, spark: table,
    "pandas": lambda table, spark: table.to_pandas(),
    "pandas nullable": lambda table, spark: table.to_pandas().convert_dtypes(),
    "pandas arrow": lambda table, spark: table.to_pandas(
        types_mapper=pytest.importorskip("pandas").ArrowDtype
    ),
    "pandas objects": lambda table, spark: table.to_pandas().astype(object),
    "polars": lambda table, spark: pytest.importorskip("polars").from_arrow(table),
    "polars lazy": lambda table, spark: pytest.importorskip("polars").from_arrow(table).lazy(),
    "duckdb": lambda table, spark: pytest.importorskip("duckdb").from_arrow(table),
    "pyspark": lambda table, spark: spark().createDataFrame(signed(table)),
}


def signed(table):
    """Spark has no unsigned integers."""
    pa = pytest.importorskip("pyarrow")
    types = {pa.uint8(): pa.int16(), pa.uint64(): pa.decimal128(20, 0)}
    return table.cast(
        pa.schema([(field.name, types.get(field.type, field.type)) for field in table.schema])
    )


@pytest.fixture(params=but_spark(ENGINES))
def engine(request, spark):
    """Makes the same frame in every engine from columns given as (Arrow type, values)."""
    pa = pytest.importorskip("pyarrow", reason="the frames are made from an Arrow table")
    if "pandas" in request.param:
        pytest.importorskip("pandas", reason="pandas is not installed")

    def make(content):
        types = {
            "int64": pa.int64(),
            "float64": pa.float64(),
            "bool": pa.bool_(),
            "string": pa.string(),
        }
        named = {
            name: (types.get(kind) or pa.type_for_alias(kind)) if isinstance(kind, str) else kind
            for name, (kind, _) in content.items()
        }
        arrays = {name: pa.array(values, named[name]) for name, (_, values) in content.items()}
        rows = len(next(iter(arrays.values())))
        return ENGINES[request.param](pa.table({"row": list(range(rows)), **arrays}), spark)

    return make


def by_expression(codes, frame):
    """The cell of each row, by the engine itself."""
    rows = nw.from_native(frame)
    found = rows.select("row", codes.cell(rows).alias("cell")).lazy().collect()
    order = np.argsort(found["row"].to_numpy().astype(np.int64))
    cells = found["cell"].fill_null(-1).to_numpy()[order]
    return [None if cell < 0 else int(cell) for cell in cells]


def by_kernel(codes, frame):
    cells = codes.cells(nw.from_native(frame))
    assert cells.dtype == np.int64
    return [None if cell < 0 else int(cell) for cell in cells]


def both_ways(codes, frame):
    """By the kernel where the frame is in memory, and by the expression unless a column holds
    Python objects.
    """
    rows = nw.from_native(frame)
    memory = isinstance(rows, nw.DataFrame)
    objects = rows.implementation.is_pandas() and "object" in map(
        str, frame[list(codes.columns)].dtypes
    )
    assert memory or not objects
    return ([by_kernel(codes, frame)] if memory else []) + (
        [] if objects else [by_expression(codes, frame)]
    )


def code_of(attribute, value):
    """The slow and obvious way, value by value."""
    missing = value is None or value != value
    other = attribute.size - 1 if attribute.outside == "other" else None
    clip = attribute.outside == "clip"
    if missing:
        return other
    if isinstance(attribute, Categorical):
        value = value.strip() if isinstance(value, str) else value
        return next((i for i, known in enumerate(attribute.values) if known == value), other)
    if isinstance(attribute, Integer):
        if clip:
            value = (
                attribute.low
                if value < attribute.low
                else attribute.high
                if value > attribute.high
                else math.floor(value)
            )
        inside = attribute.low <= value <= attribute.high and value == math.floor(value)
        return int(value) - attribute.low if inside else other
    edges = attribute.edges
    if clip:
        value = min(max(value, edges[0]), edges[-1])
    if not edges[0] <= value <= edges[-1]:
        return other
    return max(i for i in range(len(edges) - 1) if edges[i] <= value)


def expected(schema, content):
    result = []
    for row in range(len(next(iter(content.values()))[1])):
        cell = 0
        for column, attribute in zip(schema.columns, schema.attributes, strict=True):
            code = code_of(attribute, content[column][1][row])
            cell = None if cell is None or code is None else cell * attribute.size + code
        result.append(cell)
    return result


SCHEMAS = [
    *(Schema(age=Integer(0, 99, outside=outside)) for outside in ("drop", "clip", "other")),
    *(Schema(level=Integer(-1, 2, outside=outside)) for outside in ("drop", "clip", "other")),
    *(
        Schema(income=Real(edges=[0, 10, 15, 20], outside=outside))
        for outside in ("drop", "clip", "other")
    ),
    *(Schema(sex=Categorical(["f", "m", "é"], outside=outside)) for outside in ("drop", "other")),
    *(Schema(code=Categorical([11, -3, 5], outside=outside)) for outside in ("drop", "other")),
    *(Schema(level=Categorical([2, 0], outside=outside)) for outside in ("drop", "other")),
    *(Schema(flag=Categorical([True, False], outside=outside)) for outside in ("drop", "other")),
    Schema(flag=Categorical([True])),
    Schema(age=Real(edges=[-1.5, 0, 99.5], outside="clip")),
    Schema(
        small=Integer(-5, 1000, outside="other"),
        wide=Integer(2**53 - 1000, 2**53 - 1, outside="clip"),
    ),
    Schema(wide=Integer(1, 2**53 - 1)),
    Schema(income=Real(edges=[0, 20])),
    Schema(
        age=Integer(0, 99, outside="clip"),
        sex=Categorical(["f", "m"], outside="other"),
        income=Real(edges=[0, 10, 20], outside="other"),
        flag=Categorical([False, True], outside="other"),
    ),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_every_engine_gives_the_cells_of_the_obvious_way(engine, schema):
    assert all(cells == expected(schema, CONTENT) for cells in both_ways(schema, engine(CONTENT)))


@pytest.mark.parametrize("outside", ["drop", "clip"])
def test_every_engine_gives_the_cells_of_a_box(engine, outside):
    box = Box(low=(-1, 0), high=(1, 2), columns=("lon", "lat"), cells=8, outside=outside)
    drop = outside == "drop"
    # lon: cells are 0.25 wide from -1; lat the same from 0; both ends are inside
    lon = [
        0,
        7,
        4,
        None if drop else 7,
        None,
        None,
        None if drop else 7,
        None if drop else 0,
        7,
        2,
        5,
        3,
    ]
    lat = [0, 7, 2, 4, 4, 4, 4, 4, None, None, 7, None if drop else 0]
    cells = [None if x is None or y is None else x * 8 + y for x, y in zip(lon, lat, strict=True)]
    assert all(found == cells for found in both_ways(box, engine(CONTENT)))


def test_hundreds_of_categories_and_edges_work_on_every_engine(engine):
    rng = np.random.default_rng(1)
    texts, numbers = [f"c{i}" for i in range(400)], [7 * i - 900 for i in range(400)]
    edges = np.sort(rng.normal(size=400)).tolist()
    schemas = [
        Schema(text=Categorical(texts, outside="other")),
        Schema(number=Categorical(numbers)),
        Schema(real=Real(edges=edges, outside="other")),
    ]
    content = {
        "text": ("string", [f"c{i}" for i in rng.integers(0, 500, 300)]),
        "number": ("int64", rng.integers(-1000, 2000, 300).tolist()),
        "real": ("float64", [*rng.normal(size=200).tolist(), *edges[:100]]),
    }
    frame = engine(content)
    for schema in schemas:
        assert all(cells == expected(schema, content) for cells in both_ways(schema, frame))


def test_points_near_the_edges_of_cells_agree_on_every_engine(engine):
    """The arithmetic is the same to the last bit, so rounding at an edge falls on the same side
    everywhere.
    """
    box = Box(low=(-74.26,), high=(-73.70,), columns=("lon",), cells=1000)
    edges = -74.26 + np.arange(1001) * ((-73.70 + 74.26) / 1000)
    lon = np.concatenate([edges, np.nextafter(edges, -80), np.nextafter(edges, -70)])
    frame = engine({"lon": ("float64", lon.tolist())})
    table = pytest.importorskip("polars").DataFrame({"lon": lon})
    assert all(cells == by_kernel(box, table) for cells in both_ways(box, frame))


def test_a_column_without_one_value_is_no_error(engine):
    frame = engine({"x": ("null", [None, None])})
    for attribute in (
        Integer(0, 1),
        Real(edges=[0, 1]),
        Categorical(["a"]),
        Categorical([1]),
        Categorical([True]),
    ):
        assert all(cells == [None, None] for cells in both_ways(Schema(x=attribute), frame))
    other = Schema(x=Categorical(["a"], outside="other"))
    assert all(cells == [1, 1] for cells in both_ways(other, frame))


def test_an_empty_frame_has_no_cells(engine):
    frame = engine({name: (kind, []) for name, (kind, _) in CONTENT.items()})
    assert all(cells == [] for cells in both_ways(SCHEMAS[-1], frame))


@pytest.mark.parametrize(
    ("column", "attribute", "codes"),
    [
        ("sex", Integer(0, 1), [None] * 6),
        ("sex", Categorical([True, False]), [1, None, None, None, None, 1]),
        ("flag", Integer(0, 1), [1, 0, None, 1, 0, 1]),
        ("flag", Categorical(["false", "true"]), [1, 0, None, 1, 0, 1]),
        ("age", Categorical(["099", "7", "0", "f"], outside="other"), [2, 0, 4, 4, 4, 4]),
        ("age", Categorical([False, True], outside="other"), [0, 2, 2, 2, 2, 2]),
        ("level", Categorical(["1.5", "0", "00", "2"]), [1, 3, 0, 1, None, None]),
        ("spelt", Integer(0, 99, outside="clip"), [7, 99, 1, None, None, 0]),
        ("spelt", Real(edges=[0, 8, 1e9], outside="other"), [0, 2, 0, 2, 2, 2]),
        ("spelt", Categorical(["7", "x"]), [0, None, None, 1, None, None]),
        ("day", Integer(0, 99), [None] * 6),
        ("day", Categorical(["2026-01-02"]), [0, None, None, None, 0, None]),
    ],
)
def test_a_cell_means_the_same_in_a_column_of_any_type(engine, column, attribute, codes):
    days = ["2026-01-02", "2026-01-03", None, None, "2026-01-02", None]
    content = {
        **{name: (kind, values[:6]) for name, (kind, values) in CONTENT.items()},
        "sex": ("string", ["f", "m", "x", "", None, " NO "]),
        "spelt": ("string", ["07.0", "1e400", " TRUE", "x", None, "-Infinity"]),
        "day": ("date32", [None if day is None else date.fromisoformat(day) for day in days]),
    }
    assert all(
        cells == codes for cells in both_ways(Schema(**{column: attribute}), engine(content))
    )


@pytest.mark.parametrize(
    "attribute", [Integer(0, 1), Real(edges=[0, 1]), Categorical(["f"]), Categorical([True])]
)
def test_a_column_of_lists_is_refused_by_every_engine(engine, request, attribute):
    pa = pytest.importorskip("pyarrow")
    frame = engine({"x": (pa.list_(pa.int64()), [[1], [2]])})
    if (
        "pandas" in request.node.callspec.params["engine"]
        and "arrow" not in request.node.callspec.params["engine"]
    ):
        assert by_kernel(Schema(x=attribute), frame) == [
            None,
            None,
        ]  # pandas has objects, whose type is their content
        return
    with pytest.raises(DataError, match=f"Column 'x' must hold {attribute.holds}") as caught:
        Schema(x=attribute).check(nw.from_native(frame))
    assert caught.value.__cause__ is None


def test_a_missing_column_is_refused_by_every_engine(engine):
    with pytest.raises(DataError, match="no column 'weight'"):
        Schema(age=Integer(0, 1), weight=Integer(0, 1)).check(nw.from_native(engine(CONTENT)))


def test_objects_are_read_one_by_one_and_never_raise():
    pd = pytest.importorskip("pandas")
    values = [
        1,
        1.0,
        Decimal(1),
        np.int8(1),
        True,
        "1",
        "a",
        "\ud800",
        [1],
        {},
        None,
        pd.NA,
        NAN,
        10**400,
        -(10**400),
        Decimal("sNaN"),
    ]
    frame = pd.DataFrame({"row": range(len(values)), "x": pd.Series(values, dtype=object)})
    number = [1, 1, 1, 1, 1, 1, *[None] * 7, 3, 0, None]
    schema = Schema(x=Integer(0, 3, outside="clip"))
    assert by_kernel(schema, frame) == number
    text = Schema(x=Categorical(["1", "a"], outside="other"))
    assert by_kernel(text, frame) == [0, 0, 0, 0, 2, 0, 1, *[2] * 9]
    flag = Schema(x=Categorical([False, True]))
    assert by_kernel(flag, frame) == [1] * 6 + [None] * 10
    with pytest.raises(DataError, match="Python objects have no expression"):
        flag.cell(nw.from_native(frame))


def test_categories_of_the_engine_are_read_as_what_they_stand_for():
    pa, pd, pl = (pytest.importorskip(name) for name in ("pyarrow", "pandas", "polars"))
    texts, numbers = ["f", None, "m", "x"], [1, None, 2, 9]
    row = [0, 1, 2, 3]
    sex, number = Schema(c=Categorical(["m", "f"])), Schema(c=Categorical([2, 1]))
    for frame in (
        pd.DataFrame({"row": row, "c": pd.Categorical(texts)}),
        pl.DataFrame({"row": row, "c": texts}, schema_overrides={"c": pl.Categorical}),
        pl.DataFrame({"row": row, "c": texts}, schema_overrides={"c": pl.Enum(["x", "f", "m"])}),
        pa.table({"row": row, "c": pa.array(texts).dictionary_encode()}),
    ):
        assert by_kernel(sex, frame) == by_expression(sex, frame) == [1, None, 0, None]
    for frame in (
        pd.DataFrame({"row": row, "c": pd.Categorical(numbers)}),
        pa.table({"row": row, "c": pa.array(numbers).dictionary_encode()}),
    ):
        assert by_kernel(number, frame) == by_expression(number, frame) == [1, None, 0, None]
        assert by_kernel(sex, frame) == by_expression(sex, frame) == [None] * 4


def test_decimals_and_huge_integers_of_databases_are_numbers():
    duckdb = pytest.importorskip("duckdb")
    frame = duckdb.sql(
        "select 0 as row, 1.5 as x, (10::hugeint)**30 as h union all select 1, 2.0, 7::hugeint"
    )
    assert by_expression(Schema(x=Real(edges=[1, 2, 3])), frame) == [0, 1]
    assert by_expression(Schema(x=Integer(1, 2), h=Integer(5, 9)), frame) == [None, 1 * 5 + 2]


def test_decoding_gives_the_declared_values_and_types():
    rng = np.random.default_rng(0)
    codes = np.array([0, 1, 2, 1])
    for attribute, values, kind in (
        (Categorical(["b", "a\0", "c"]), ["b", "a\0", "c", "a\0"], "O"),
        (Categorical(["b", "a"], outside="other"), ["b", "a", None, "a"], "O"),
        (Categorical([9, -4, 5]), [9, -4, 5, -4], "i"),
        (Categorical([True, False], outside="other"), [True, False, None, False], "O"),
        (Categorical([9, 4], outside="other"), [9, 4, None, 4], "O"),
        (Integer(-1, 1), [-1, 0, 1, 0], "i"),
        (Integer(-1, 0, outside="other"), [-1, 0, None, 0], "O"),
    ):
        decoded = attribute.decode(codes, rng)
        assert decoded.tolist() == values and decoded.dtype.kind == kind
    assert Categorical([True, False]).decode(np.array([1, 0]), rng).dtype == bool
    real = Real(edges=[0, 1, 3], outside="other").decode(codes, rng)
    assert 0 <= real[0] < 1 <= real[1] <= 3 and np.isnan(real[2])


def test_a_bin_is_filled_evenly_and_never_left():
    rng = np.random.default_rng(0)
    values = Real(edges=[-10, 5, 5.0000001]).decode(np.zeros(4000, int), rng)
    assert values.min() >= -10 and values.max() < 5
    assert np.abs(np.histogram(values, 4, (-10, 5))[0] - 1000).max() < 150
    point = Box(low=(2,), high=(6,), columns=("x",), cells=2).decode(np.ones(4000, int), rng)["x"]
    assert point.min() >= 4 and point.max() <= 6
    assert np.abs(np.histogram(point, 4, (4, 6))[0] - 1000).max() < 150
    huge = Real(edges=[-1.7e308, 1.7e308]).decode(np.zeros(100, int), rng)
    assert np.isfinite(huge).all() and huge.min() < 0 < huge.max()
    tight = Real(edges=[1, math.nextafter(1, 2), 2]).decode(np.zeros(100, int), rng)
    assert set(tight.tolist()) == {1.0}


@pytest.mark.parametrize("share", [0.0, 1 - 2**-53])
def test_a_point_at_the_very_edge_of_its_cell_is_counted_in_it(share):
    class Extreme:
        def random(self, size):
            return np.full(size, share)

    box = Box(low=(-74.26,), high=(-73.70,), columns=("lon",), cells=1000)
    frame = nw.from_dict(box.decode(np.arange(1000), Extreme()), backend="polars")
    assert box.cells(frame).tolist() == list(range(1000))


def test_attributes_are_values():
    assert Categorical(["a"]) == Categorical(("a",)) and hash(Categorical(["a"])) == hash(
        Categorical(("a",))
    )
    assert Categorical([0, 1]) != Categorical([False, True])
    assert Schema(a=Integer(0, 1), b=Integer(0, 2)) != Schema(b=Integer(0, 2), a=Integer(0, 1))
    assert len({Schema(a=Integer(0, 1)), Schema(a=Integer(0, 1)), Schema(b=Integer(0, 1))}) == 2
    box = Box(low=[0, 0], high=[1, 1], columns=["x", "y"])
    assert box == eval(repr(box)) and hash(box) == hash(eval(repr(box)))
    assert Real(edges=np.array([0, 1.5])) == Real(edges=(-0.0, 1.5))
    assert Categorical(np.array(["a", "b"])).values == ("a", "b")
    with pytest.raises(AttributeError):
        box.low = (5,)


def test_sizes_count_the_other_code_and_are_told_even_when_huge():
    assert Schema(a=Integer(0, 9, outside="other"), b=Categorical([1, 2])).shape == (11, 2)
    huge = Schema(**{f"c{i}": Integer(0, 999) for i in range(9)})
    assert huge.size == 10**27
    with pytest.raises(ConfigError, match="too many to number"):
        huge.cells(
            nw.from_native(
                pytest.importorskip("polars").DataFrame({f"c{i}": [1] for i in range(9)})
            )
        )


def test_what_is_decoded_has_the_types_that_are_announced():
    schema = Schema(
        a=Categorical(["x"]),
        b=Categorical([1]),
        c=Categorical([True]),
        d=Integer(0, 1),
        e=Real(edges=[0, 1]),
    )
    assert list(schema.types.values()) == [
        nw.String(),
        nw.Int64(),
        nw.Boolean(),
        nw.Int64(),
        nw.Float64(),
    ]
    assert Box(low=(0,), high=(1,), columns=("x",)).types == {"x": nw.Float64()}


@pytest.mark.parametrize(
    "domain",
    [*SCHEMAS, Box(low=(0.1, -5), high=(0.7, 5), columns=("x", "y"), outside="clip")],
    ids=str,
)
def test_a_domain_is_stored_exactly(domain):
    plain = domain.to_dict()
    again = from_dict(json.loads(json.dumps(plain, sort_keys=True)))
    assert again == domain and hash(again) == hash(domain) and again.to_dict() == plain


def test_a_domain_is_read_from_a_hand_written_file():
    text = """
        [domain]
        kind = "Schema"
        attributes = [
          { column = "age", kind = "Integer", low = 0, high = 99 },
          { column = "income", kind = "Real", edges = [0, 10.5, 20], outside = "clip" },
          { column = "sex", kind = "Categorical", values = ["f", "m"] },
        ]"""
    schema = Schema(
        age=Integer(0, 99),
        income=Real(edges=[0, 10.5, 20], outside="clip"),
        sex=Categorical(["f", "m"]),
    )
    assert from_dict(tomllib.loads(text)["domain"]) == schema


@pytest.mark.parametrize(
    "plain",
    [
        {},
        [],
        {"kind": "Sphere"},
        {"kind": "Box", "radius": 1},
        {"kind": "Schema"},
        {"kind": "Schema", "attributes": [{"column": "a", "kind": "Text"}]},
        {"kind": "Schema", "attributes": [{"column": "a", "kind": "Integer", "low": 0}]},
        {"kind": "Schema", "attributes": [{"kind": "Integer", "low": 0, "high": 1}]},
        {
            "kind": "Schema",
            "attributes": [{"column": "a", "kind": "Integer", "low": 0, "high": 1}] * 2,
        },
        {"kind": "Schema", "attributes": [{"column": 5, "kind": "Integer", "low": 0, "high": 1}]},
    ],
)
def test_a_file_that_is_no_domain_is_refused_in_one_sentence(plain):
    with pytest.raises(ConfigError, match="stored") as caught:
        from_dict(plain)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Categorical([]), "one or more distinct values"),
        (lambda: Categorical("fm"), "a list of its values"),
        (lambda: Categorical(5), "a list of its values"),  # pyright: ignore
        (lambda: Categorical(["a", "a"]), "distinct"),
        (lambda: Categorical(["a", 1]), "all text"),
        (lambda: Categorical([1, True]), "all whole numbers"),
        (lambda: Categorical([1.5]), "all whole numbers"),
        (lambda: Categorical([[1]]), "all whole numbers"),
        (lambda: Categorical([2**53]), "strictly between"),
        (lambda: Categorical(["\ud800"]), "valid Unicode"),
        (
            lambda: Categorical(["a"], outside="clip"),
            "outside of Categorical must be one of 'drop', 'other'",
        ),
        (lambda: Integer(5, 4), "must not be above"),
        (lambda: Integer(0.5, 4), "whole number"),
        (lambda: Integer(True, 4), "whole number"),
        (lambda: Integer(0, 2**53), "strictly between"),
        (lambda: Integer(0, 1, outside="wrap"), "'drop', 'clip', 'other'"),
        (lambda: Real(edges=[1]), "two or more increasing"),
        (lambda: Real(edges=[1, 1]), "two or more increasing"),
        (lambda: Real(edges=[2, 1]), "two or more increasing"),
        (lambda: Real(edges=[0, INF]), "finite numbers"),
        (lambda: Real(edges=[0, NAN]), "finite numbers"),
        (lambda: Real(edges="01"), "finite numbers"),
        (lambda: Real(edges=["0", "1"]), "finite numbers"),
        (lambda: Real(edges=[0, 2**53 + 1]), "finite numbers"),
        (lambda: Real(edges=[0, None]), "finite numbers"),
        (lambda: Schema(), "one or more named attributes"),
        (lambda: Schema(a=5), "one or more named attributes"),
        (lambda: Schema(**{"": Integer(0, 1)}), "one or more named attributes"),
        (lambda: Box(low=(0,), high=(1,), columns="x"), "one to four different names"),
        (lambda: Box(low=(0,), high=(1,), columns=()), "one to four different names"),
        (lambda: Box(low=(0, 0), high=(1, 1), columns=("x", "x")), "one to four different names"),
        (
            lambda: Box(low=(0,) * 5, high=(1,) * 5, columns=tuple("abcde")),
            "one to four different names",
        ),
        (lambda: Box(low=(0,), high=(1, 2), columns=("x", "y")), "one number for each"),
        (lambda: Box(low=(0,), high=(0,), columns=("x",)), "below its high"),
        (lambda: Box(low=(-1e308,), high=(1e308,), columns=("x",)), "a finite width apart"),
        (lambda: Box(low=(0,), high=(1,), columns=("x",), cells=0), "cells"),
        (lambda: Box(low=(1e16,), high=(1e16 + 8,), columns=("x",)), "too narrow"),
        (lambda: Box(low=(0,), high=(1,), columns=("x",), outside="other"), "'drop', 'clip'"),
    ],
)
def test_what_cannot_be_a_domain_is_refused_in_one_sentence(make, words):
    with pytest.raises(ConfigError, match=words) as caught:
        make()
    assert caught.value.__cause__ is None
