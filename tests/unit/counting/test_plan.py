import functools

import narwhals as nw
import numpy as np
import pytest

from samples import but_spark, unit_rows
from tailrace import ConfigError, DataError, Places
from tailrace.counting.marginals import Marginals, all_ways, chosen
from tailrace.counting.memory import counted
from tailrace.counting.plan import Counts, Plan
from tailrace.domain import Box, Categorical, Integer, Real, Schema
from tailrace.privacy.unit import User

SCHEMA = Schema(
    age=Integer(0, 4, outside="clip"),
    sex=Categorical(["f", "m"], outside="other"),
    income=Real(edges=[0, 10, 20]),
)
BOX = Box(low=(0, 0), high=(1, 20), columns=("place", "income"), cells=16)
CITY = Places(
    Box(low=(0, 0), high=(1, 20), columns=("place", "income"), cells=4),
    Schema(age=SCHEMA.attributes[0], sex=SCHEMA.attributes[1]),
)
ENGINES = {
    "pyarrow": lambda table, spark: table,
    "pandas": lambda table, spark: table.to_pandas(),
    "pandas nullable": lambda table, spark: table.to_pandas().convert_dtypes(),
    "pandas objects": lambda table, spark: table.to_pandas().astype(object),
    "polars": lambda table, spark: pytest.importorskip("polars").from_arrow(table),
    "polars lazy": lambda table, spark: pytest.importorskip("polars").from_arrow(table).lazy(),
    "duckdb": lambda table, spark: pytest.importorskip("duckdb").from_arrow(table),
    "pyspark": lambda table, spark: spark().createDataFrame(table),
}


@pytest.fixture(params=but_spark(ENGINES))
def engine(request, spark):
    """Makes a frame of the engine from an Arrow table."""
    pytest.importorskip("pyarrow", reason="the frames are made from an Arrow table")
    if "pandas" in request.param:
        pytest.importorskip("pandas", reason="pandas is not installed")
    return lambda table: ENGINES[request.param](table, spark)


def random_table(rows, seed=0):
    pa = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(seed)

    def holes(values, kind):
        return pa.array(values, kind, mask=rng.random(rows) < 0.1)

    income = rng.choice([*np.linspace(-3, 23, 40), np.nan, np.inf, -np.inf], rows)
    return pa.table(
        {
            "id": holes(rng.integers(0, 50, rows) + 2**60, pa.int64()),
            "name": holes(rng.choice(["ann", "bob", "é"], rows), pa.string()),
            "age": holes(rng.integers(-3, 9, rows), pa.int64()),
            "sex": holes(rng.choice(["f", "m", "?"], rows), pa.string()),
            "income": holes(income, pa.float64()),
            "place": holes(rng.random(rows) * 1.2 - 0.1, pa.float64()),
        }
    )


@pytest.mark.parametrize("codes", [SCHEMA, BOX, CITY], ids=["schema", "box", "places"])
def test_every_engine_counts_the_same(engine, codes):
    table = random_table(2000)
    reference = np.bincount(
        [c for c in codes.cells(nw.from_native(table)) if c >= 0], minlength=codes.size
    )
    assert 500 < reference.sum() < 2000  # some rows are dropped, most are not
    counts = Plan(codes).count(engine(table))
    assert counts.dtype == np.int64 and counts.tolist() == reference.tolist()


def test_counts_add_up_over_any_partition(engine):
    table, plan = random_table(300, seed=1), Plan(SCHEMA)
    parts = [table.slice(0, 7), table.slice(7, 0), table.slice(7, 200), table.slice(207)]
    assert (
        sum(plan.count(engine(part)) for part in parts).tolist()
        == plan.count(engine(table)).tolist()
    )


def test_nothing_counts_as_nothing(engine):
    plan = Plan(SCHEMA, key="id")
    for frame in (None, engine(random_table(0))):
        assert plan.count(frame).tolist() == [0] * SCHEMA.size
        units, cells = unit_rows(plan, frame)
        assert len(units) == len(cells) == 0


def test_an_empty_list_of_records_is_an_empty_frame():
    for library in ("pandas", "polars"):
        frame = pytest.importorskip(library).DataFrame([])
        assert Plan(SCHEMA).count(frame).sum() == 0


def test_adds_and_deletes_are_counted_apart():
    pl = pytest.importorskip("polars")
    plan = Plan(Schema(age=Integer(0, 2)))
    one, two = pl.DataFrame({"age": [0, 0, 1]}), pl.DataFrame({"age": [1, 2]})
    counts = plan.counts(one, two) + plan.counts(two)
    assert counts.adds.tolist() == [2, 2, 1] and counts.deletes.tolist() == [0, 1, 1]
    assert counts.net.tolist() == [2, 1, 0]


@pytest.mark.parametrize("key", ["id", "name"])
def test_rows_give_the_unit_and_the_cell_of_every_row(engine, key):
    table = random_table(500, seed=2)
    if (
        key == "id"
    ):  # whole ids beyond 2**53 must arrive whole; pandas alone cannot hold them with nulls
        table = table.filter(table["id"].is_valid())
    expected = zip(
        table[key].to_pylist(), SCHEMA.cells(nw.from_native(table)).tolist(), strict=True
    )
    units, cells = unit_rows(Plan(SCHEMA, key=key), engine(table))
    units = units.to_pylist() if hasattr(units, "to_pylist") else units.tolist()
    units = [None if unit != unit else unit for unit in units]
    assert cells.dtype == np.int64
    assert sorted(zip(units, cells.tolist(), strict=True), key=repr) == sorted(expected, key=repr)


def test_ids_with_a_missing_one_stay_whole():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"id": [2**60 + 1, None], "age": [0, 0]})
    for rows in (frame, frame.lazy(), frame.to_arrow()):
        units, _ = unit_rows(Plan(Schema(age=Integer(0, 2)), key="id"), rows)
        assert units.to_pylist() == [2**60 + 1, None]


def test_categories_of_ids_are_what_they_stand_for():
    pa, pd, pl = (pytest.importorskip(name) for name in ("pyarrow", "pandas", "polars"))
    plan = Plan(Schema(age=Integer(0, 2)), key="id")
    for ids in ([2**60 + 1, None, 7], ["a", None, "b"]):
        for frame in (
            pd.DataFrame({"id": pd.Categorical(ids, categories=[ids[2], ids[0]]), "age": 0}),
            pa.table({"id": pa.array(ids).dictionary_encode(), "age": [0] * 3}),
        ):
            assert unit_rows(plan, frame)[0].to_pylist() == ids
    frame = pl.DataFrame({"id": ids, "age": 0}, schema_overrides={"id": pl.Categorical})
    assert (
        unit_rows(plan, frame)[0].to_pylist() == unit_rows(plan, frame.lazy())[0].to_pylist() == ids
    )


def test_a_column_called_cell_or_unit_is_no_trouble(engine):
    pa = pytest.importorskip("pyarrow")
    frame = engine(pa.table({"cell": [1, 2], "unit": [5, 6], "rows": [0, 1]}))
    plan = Plan(Schema(cell=Integer(0, 2), rows=Integer(0, 1)), key="unit")
    assert plan.count(frame).tolist() == [0, 0, 1, 0, 0, 1]
    assert unit_rows(plan, frame)[1].tolist() == [2, 5]


def test_a_wrong_shape_is_refused(engine):
    frame = engine(random_table(5))
    for codes, key, words in (
        (Schema(weight=Integer(0, 1)), None, "no column 'weight'"),
        (SCHEMA, "person", "no column 'person'"),
    ):
        with pytest.raises(DataError, match=words):
            unit_rows(Plan(codes, key=key), frame) if key else Plan(codes).count(frame)


def test_what_is_no_frame_is_refused():
    for wrong in (
        np.zeros(3),
        [1, 2],
        {"age": [1]},
        "day.csv",
        pytest.importorskip("polars").Series([1]),
    ):
        with pytest.raises(DataError, match="must be a data frame") as caught:
            Plan(SCHEMA).count(wrong)
        assert caught.value.__suppress_context__


def test_two_columns_of_one_name_are_refused():
    frame = pytest.importorskip("pandas").DataFrame([[1, 2]], columns=["age", "age"])
    with pytest.raises(DataError, match="two columns of the same name"):
        Plan(Schema(age=Integer(0, 2))).count(frame)


def test_a_failing_engine_is_not_quoted():
    pl, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    lazy = pl.LazyFrame({"age": ["secret"]}).with_columns(pl.col("age").cast(pl.Int64))
    relation = duckdb.sql("select cast(a as int) as age from (values ('secret')) t(a)")
    for frame in (lazy, relation):
        with pytest.raises(DataError, match="could not be computed") as caught:
            Plan(Schema(age=Integer(0, 2))).count(frame)
        assert "secret" not in str(caught.value) and caught.value.__suppress_context__
    with pytest.raises(DataError, match="could not be read"):
        Plan(Schema(age=Integer(0, 2))).count(pl.LazyFrame({"age": [1]}).select("secret"))


def test_ids_must_be_text_or_whole_numbers(engine):
    pa = pytest.importorskip("pyarrow")
    plan = Plan(Schema(age=Integer(0, 2)), key="id")
    for ids, words in (
        ([[1]], "must hold ids as text or as whole numbers"),
        ([1.0], "holds ids as floats"),
    ):
        frame = engine(pa.table({"age": [1], "id": pa.array(ids)}))
        if nw.from_native(frame).implementation.is_pandas() and str(frame["id"].dtype) == "object":
            continue  # objects are looked at one by one
        if str(getattr(frame, "dtypes", {}).get("id") if hasattr(frame, "iloc") else "") == "Int64":
            continue  # pandas made integers of floats
        with pytest.raises(DataError, match=f"Column 'id' {words}"):
            unit_rows(plan, frame)


def test_a_plan_is_a_value_and_counts_keep_their_shape():
    assert Plan(SCHEMA, key="id") == Plan(SCHEMA, key="id") and hash(Plan(SCHEMA)) == hash(
        Plan(SCHEMA)
    )
    with pytest.raises(ConfigError, match="key must name the column"):
        Plan(SCHEMA, key="")
    with pytest.raises(ConfigError, match="no key="):
        unit_rows(Plan(SCHEMA), None)
    with pytest.raises(DataError, match="same shape"):
        Counts(np.zeros(2, int), np.zeros(3, int))
    with pytest.raises(DataError, match="integer counts"):
        Counts(np.zeros(2), np.zeros(2))
    with pytest.raises(DataError, match="same plan"):
        Counts(np.zeros(2, int), np.zeros(2, int)) + Counts(np.zeros(3, int), np.zeros(3, int))


def test_too_many_cells_are_refused_only_when_they_are_to_be_counted():
    plan = Plan(Schema(a=Integer(0, 2**16), b=Integer(0, 2**16)), key="id")
    with pytest.raises(ConfigError, match="4,295,098,369 cells; at most 2,147,483,648"):
        plan.count(None)
    frame = pytest.importorskip("polars").DataFrame({"a": [1], "b": [2], "id": [3]})
    assert unit_rows(plan, frame)[1].tolist() == [2**16 + 3]


def test_groups_add_cells_up_on_every_engine(engine):
    table = random_table(300)
    plain = Plan(SCHEMA)
    groups = np.arange(SCHEMA.size) % 3 - 1  # every third cell is not counted
    grouped = Plan(SCHEMA, groups=groups)
    cells = plain.count(engine(table))
    assert np.array_equal(
        grouped.count(engine(table)), [cells[groups == 0].sum(), cells[groups == 1].sum()]
    )
    assert grouped.size == 2 and np.array_equal(grouped.count(None), [0, 0])


def test_groups_must_cover_the_cells():
    with pytest.raises(ConfigError, match="every cell"):
        Plan(SCHEMA, groups=np.zeros(3, np.int64))


def summed(cells, marginals):
    """The flat counts of marginals from those of all cells."""
    table = cells.reshape(marginals.shape)
    others = [tuple(set(range(table.ndim)) - set(clique)) for clique in marginals.cliques]
    return np.concatenate([table.sum(axis=axes).ravel() for axes in others])


def wide_table(schema, rows, seed=0):
    """Some rows of a schema of texts, whole numbers and reals by turns, with missing and unknown
    values.
    """
    pa = pytest.importorskip("pyarrow")
    rng, columns = np.random.default_rng(seed), {"id": np.arange(rows) // 2}
    for column, attribute in zip(schema.columns, schema.attributes, strict=True):
        good, odd = rng.integers(0, 2, rows), rng.random(rows) < 0.002
        if isinstance(attribute, Categorical):
            columns[column] = pa.array(
                np.where(odd, "?", np.array(["a", "b"])[good]),
                pa.string(),
                mask=rng.random(rows) < 0.002,
            )
        else:
            columns[column] = (
                np.where(odd, np.nan, good)
                if isinstance(attribute, Real)
                else np.where(odd, 9, good)
            )
    return pa.table(columns)


def wide_schema(attributes):
    kinds = [Categorical(["a", "b"], outside="other"), Integer(0, 2), Real(edges=[0, 0.5, 1, 2])]
    return Schema(**{f"c{i}": kinds[i % 3] for i in range(attributes)})


@pytest.mark.parametrize("ways", [1, 2, 3])
def test_every_engine_counts_the_same_marginals(engine, ways):
    table, marginals = random_table(2000), all_ways(SCHEMA.shape, ways)
    plan = Plan(SCHEMA, marginals=marginals)
    counts = plan.counts(engine(table), engine(table.slice(0, 300)))
    for part, rows in ((counts.adds, table), (counts.deletes, table.slice(0, 300))):
        assert part.dtype == np.int64 and part.shape == (plan.size,)
        assert part.tolist() == summed(Plan(SCHEMA).count(rows), marginals).tolist()
    assert 500 < marginals.part(counts.adds, 0).sum() < 2000
    assert (
        plan.count(engine(random_table(0))).tolist() == plan.count(None).tolist() == [0] * plan.size
    )


@functools.cache
def wide_plan():
    """All pairs of a hundred columns, rows, and their counts."""
    schema = wide_schema(100)
    assert schema.size > 2**63
    table, plan = wide_table(schema, 400), Plan(schema, marginals=all_ways(schema.shape, 2))
    return plan, table, plan.count(table).tolist(), schema.digits(nw.from_native(table))


def test_every_engine_counts_the_marginals_of_a_wide_table(engine):
    plan, table, wanted, digits = wide_plan()
    counts, kept = plan.count(engine(table)), digits[digits[:, 0] >= 0]
    assert 100 < len(kept) < 400
    for i in (0, 17, 2000, 4949):
        a, b = plan.marginals.cliques[i]
        expected = np.bincount(3 * kept[:, a] + kept[:, b], minlength=9)
        assert plan.marginals.part(counts, i).ravel().tolist() == expected.tolist()
    assert counts.tolist() == wanted


def test_marginals_add_up_over_any_partition(engine):
    table = random_table(300, seed=1)
    plan = Plan(SCHEMA, marginals=chosen(SCHEMA, (("age", "sex"), ("income",))))
    parts = [table.slice(0, 7), table.slice(7, 0), table.slice(7, 200), table.slice(207)]
    assert (
        sum(plan.count(engine(part)) for part in parts).tolist()
        == plan.count(engine(table)).tolist()
    )


def test_marginals_are_counted_in_one_query_on_any_connection_of_duckdb():
    duckdb = pytest.importorskip("duckdb")
    schema = wide_schema(12)
    table, plan = wide_table(schema, 200), Plan(schema, marginals=all_ways(schema.shape, 2))
    assert len(plan.marginals.covering.cliques) > 1
    with duckdb.connect() as connection:
        assert plan.count(connection.from_arrow(table)).tolist() == plan.count(table).tolist()


def test_a_column_without_a_value_drops_its_rows_or_is_another_value(engine):
    pa = pytest.importorskip("pyarrow")
    nothing = pa.table(
        {"age": [1, 2], "sex": ["f", "m"], "income": pa.array([None, None], pa.float64())}
    )
    plan = Plan(SCHEMA, marginals=all_ways(SCHEMA.shape, 2))
    assert plan.count(engine(nothing)).sum() == 0
    unknown = pa.table(
        {"age": [1, 2], "sex": pa.array([None, None], pa.string()), "income": [5.0, 15.0]}
    )
    assert plan.marginals.part(plan.count(engine(unknown)), 0)[:, 2].tolist() == [0, 1, 1, 0, 0]


@pytest.mark.parametrize("attributes", [3, 38], ids=["small", "beyond doubles"])
def test_bounded_rows_are_counted_in_marginals(engine, attributes, tmp_path):
    """The rows that a person may contribute are known by their number, also where no double can
    hold it.
    """
    schema = wide_schema(attributes)
    assert attributes == 3 or 2**53 < schema.size < 2**62
    table, unit = wide_table(schema, 60), User(column="id", events=1)
    marginals = Marginals(schema.shape, ((0, 1), (1, attributes - 1)))
    plan = Plan(schema, key="id", marginals=marginals)
    options = {"old": None, "key": bytes(16)}
    here = counted(plan, unit, table, table.slice(0, 20), new=tmp_path / "here", **options)
    there = counted(
        plan, unit, engine(table), engine(table.slice(0, 20)), new=tmp_path / "there", **options
    )
    assert (
        here.adds.tolist() == there.adds.tolist()
        and here.deletes.tolist() == there.deletes.tolist()
    )
    assert 25 <= marginals.part(here.adds, 0).sum() <= 30  # one of two rows each
    if attributes == 3:
        cells = counted(
            Plan(schema, key="id"),
            unit,
            table,
            table.slice(0, 20),
            new=tmp_path / "cells",
            **options,
        )
        assert here.net.tolist() == summed(cells.net, marginals).tolist()


def test_marginals_must_be_those_of_the_schema():
    pairs = all_ways(SCHEMA.shape, 2)
    for codes, options in (
        (BOX, {}),
        (wide_schema(3), {}),
        (SCHEMA, {"groups": np.zeros(SCHEMA.size, np.int64)}),
    ):
        with pytest.raises(ConfigError, match="marginals"):
            Plan(codes, marginals=pairs, **options)
    wide = wide_schema(100)
    with pytest.raises(ConfigError, match="rows of each unit cannot be told apart"):
        Plan(wide, key="id", marginals=all_ways(wide.shape, 1))
    assert (
        Plan(SCHEMA, marginals=pairs)
        == Plan(SCHEMA, marginals=all_ways(SCHEMA.shape, 2))
        != Plan(SCHEMA)
    )
