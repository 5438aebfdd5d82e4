"""Amounts: clipped, in whole units, added up by group with noise by their bound."""

import math

import narwhals as nw
import numpy as np
import polars as pl
import pytest

import tailrace as tr
from processes import call
from samples import LOSSES
from tailrace.counting.plan import Plan

SHOPS = tr.Schema(
    shop=tr.Categorical(["a", "b"], outside="other"),
    price=tr.Amount(0, 20, unit=0.5),
    age=tr.Integer(0, 3),
    change=tr.Amount(-10, 10),
)
ROWS = pl.DataFrame(
    {
        "shop": ["a", "a", "b", "z", "b", "a"],
        "price": [1.0, 99.0, 2.6, -3.0, None, math.nan],
        "age": [0, 1, 2, 3, 0, 0],
        "change": [-10, 4, 0, 99, 1, 1],
    }
)
EVENT = {"privacy": tr.PureDP(epsilon=1), "unit": tr.Event(), "horizon": 4}


def view(rows=ROWS, **options):
    """A view with hardly any noise."""
    parts = {"domain": SHOPS, "privacy": tr.PureDP(epsilon=2000), "unit": tr.Event(), "horizon": 1}
    return tr.Stream(tr.HistogramStream(**{**parts, **options})).push(rows).view


def test_totals_and_means_are_of_clipped_whole_units():
    found = view()
    assert round(found.count().value) == 4, "a row whose amount is missing is not counted"
    assert found.total("price").value == pytest.approx(1 + 20 + 2.5 + 0, abs=0.2)
    assert found.total("price", shop="a").value == pytest.approx(21, abs=0.1)
    assert found.mean("price", shop="a", age=[0, 1]).value == pytest.approx(10.5, abs=0.1)
    assert found.total("change").value == pytest.approx(-10 + 4 + 0 + 10, abs=0.2)
    assert found.mean("change", shop="b").value == pytest.approx(0, abs=0.1)
    empty = found.mean("price", shop="b", age=0)
    assert 0 <= empty.value <= 20, "a mean lies within the bounds"


def test_groups_are_the_columns_that_were_named():
    found = view(totals_by=["shop"]).totals("price")
    assert found.total == pytest.approx([21, 2.5, 0], abs=0.1)
    assert found.mean[:2] == pytest.approx([10.5, 2.5], abs=0.1)
    assert view(totals_by=[]).total("price").value == pytest.approx(23.5, abs=0.1)
    with pytest.raises(tr.ConfigError, match="added up by shop only"):
        view(totals_by=["shop"]).total("price", age=1)
    with pytest.raises(tr.ConfigError, match="over all rows only"):
        view(totals_by=[]).total("price", age=1)
    with pytest.raises(
        tr.ConfigError, match="no amount 'age' in this stream; it has price, change"
    ):
        view().total("age")


def test_amounts_are_in_no_synthetic_row():
    mechanism = tr.HistogramStream(domain=SHOPS, **EVENT)
    assert tr.Stream(mechanism).push(ROWS).table.columns == ["shop", "age"]


@pytest.mark.parametrize("privacy", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize(
    "unit",
    [tr.Event(), tr.User(column="id", events=2), tr.Window(steps=2, column="id", events=1)],
    ids=lambda unit: type(unit).__name__,
)
def test_the_whole_budget_is_spent_and_no_more(unit, privacy):
    mechanism = tr.HistogramStream(
        domain=SHOPS, privacy=privacy, unit=unit, horizon=30, totals_share=0.75
    )
    loss, number = mechanism.guarantee.loss, "rho" if isinstance(privacy, tr.ZCDP) else "epsilon"
    assert 0.999 < getattr(loss, number) / getattr(privacy, number) <= 1


def test_noise_is_that_of_a_count_times_the_bound():
    one = tr.HistogramStream(domain=SHOPS, **EVENT)
    of_count, (of_price, of_change) = one.counting.variance(1), one.adding
    # Each amount has half of what counts have.
    assert of_price.variance(1) == pytest.approx((2 * 40) ** 2 * of_count, rel=0.05)
    assert of_change.variance(1) == pytest.approx((2 * 20) ** 2 * of_count, rel=0.05)


def test_standard_errors_are_those_of_the_noise():
    """A thousand groups of known truth: errors of totals and means are as large as they say."""
    domain = tr.Schema(group=tr.Integer(0, 999), price=tr.Amount(10, 60, unit=0.5))
    mechanism = tr.HistogramStream(domain=domain, **{**EVENT, "horizon": 2})
    group = np.repeat(np.arange(1000), 400)
    price = 10 + np.random.default_rng(0).integers(0, 60, len(group)) / 2
    rows = pl.DataFrame({"group": group, "price": price})
    found = tr.Stream(mechanism, noise=tr.Noise.insecure(5)).push(rows).view.totals("price")
    truth = rows.group_by("group", maintain_order=True).agg(
        pl.col("price").sum().alias("total"), pl.col("price").mean().alias("mean")
    )
    for name in ("total", "mean"):
        off = (getattr(found, name) - truth[name].to_numpy()) / getattr(found, f"{name}_error")
        # Of Laplace noise the square has variance 5.
        assert abs(np.mean(off)) < 5 / math.sqrt(1000)
        assert np.mean(off**2) == pytest.approx(1, abs=5 * math.sqrt(5 / 1000))


def engines(frame):
    import duckdb
    import pandas as pd

    yield from (frame, frame.lazy(), frame.to_arrow(), duckdb.from_arrow(frame.to_arrow()))
    yield from (frame.to_pandas(), frame.select(pl.all().cast(pl.String)).lazy())
    yield pd.DataFrame(frame.to_dict(as_series=False), dtype=object)


@pytest.mark.parametrize("by", [None, ["age"], []])
def test_sums_are_the_same_on_every_engine_and_add_up(by):
    rng = np.random.default_rng(3)
    frame = pl.DataFrame(
        {
            "shop": rng.choice(["a", "b", "z", None], 300).tolist(),
            "price": rng.choice([0.25, 0.75, -1, 19.9, 1e300, math.inf, None], 300).tolist(),
            "age": rng.integers(-1, 5, 300),
            "change": rng.normal(0, 9, 300),
        }
    )
    mechanism = tr.HistogramStream(domain=SHOPS, totals_by=by, **EVENT)
    plan = mechanism.plan(mechanism.init().public)
    whole = plan.count(frame)
    assert isinstance(plan, Plan) and len(whole) == plan.size
    assert whole[12:].sum() > 0
    for other in engines(frame):
        assert np.array_equal(plan.count(other), whole)
    assert np.array_equal(plan.count(frame[:100]) + plan.count(frame[100:]), whole)
    cells = SHOPS.cells(nw.from_native(frame, eager_only=True))
    assert np.array_equal(plan.tally(cells), whole)


def test_a_stream_of_amounts_is_kept_resumed_and_asked(tmp_path):
    mechanism = tr.HistogramStream(
        domain=SHOPS, totals_by=["shop"], **{**EVENT, "privacy": tr.PureDP(epsilon=50)}
    )
    ledger = tmp_path / "l.ledger"
    with tr.Stream.create(tmp_path / "s", mechanism, population="shops", ledger=ledger) as stream:
        stream.push(ROWS)
    with tr.Stream.open(tmp_path / "s", ledger=ledger) as stream:
        stream.add(ROWS[:3], key="1")
        stream.add(ROWS[3:], key="2")
        kept = stream.publish().view
    releases = tr.open_releases(tmp_path / "s")
    assert releases.total("price", 2, shop="a") == kept.total("price", shop="a")
    assert releases.mean("change") == kept.mean("change")
    assert releases.count(shop="a") == kept.count(shop="a")
    frame = releases.totals("price", 1)
    assert frame.columns == ["shop", "total", "error", "mean", "mean_error"]
    assert frame["shop"].to_list() == ["a", "b", None]
    assert releases.ask("total of price where shop = a") == kept.total("price", shop="a")
    assert releases.ask("mean of 'change'") == kept.mean("change")
    measured = releases.measurements().filter(pl.col("what").list.last() == "total of price")
    assert measured["cells"].to_list() == [
        ["a", "0 to 20 by 0.5"],
        ["b", "0 to 20 by 0.5"],
        ["outside", "0 to 20 by 0.5"],
    ]
    assert releases.domain == SHOPS
    told = call("query", tmp_path / "s", "mean of price where shop = a", "--json")
    assert '"value"' in told.stdout
    for wrong, why in (
        ("total where shop = a", "A total is of an amount"),
        ("mean of age", "no amount 'age': there are price, change"),
        ("count where price = 3", "no column 'price'"),
    ):
        with pytest.raises(tr.ConfigError, match=why):
            releases.ask(wrong)


def test_a_deletion_takes_back_the_amount_that_came():
    person = tr.User(column="id", events=2)
    mechanism = tr.HistogramStream(
        domain=SHOPS,
        totals_by=[],
        **{**EVENT, "privacy": tr.PureDP(epsilon=4000), "unit": person},
    )
    stream = tr.Stream(mechanism)
    rows = ROWS[:3].with_columns(id=pl.Series([1, 1, 2]))
    stream.push(rows)
    other = rows[:1].with_columns(price=pl.lit(1.5))
    found = stream.push(None, deletes=pl.concat([rows[1:2], other])).view
    assert found.total("price").value == pytest.approx(3.5, abs=0.3), "an unknown row stays"
    assert round(found.count().value) == 2


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: tr.Amount(1, 1), "low of an Amount must lie below its high"),
        (lambda: tr.Amount(0, 1, unit=0), "unit above 0"),
        (lambda: tr.Amount(0, 1, unit=0.3), "whole number of units"),
        (lambda: tr.Amount(0, 1, unit=1e-12), "at most 1,000,000,000"),
        (lambda: tr.Amount(1e9, 1e9 + 1, unit=1e-8), "too small beside"),
        (lambda: tr.Amount(0, math.inf), "finite number"),
        (lambda: tr.Amount(0, 1, outside="other"), "one of 'clip', 'drop'"),
        (lambda: tr.Schema(price=tr.Amount(0, 1)).bins, "needs a column to count by"),
        (lambda: tr.TabularStream(domain=SHOPS, **EVENT), "domain has the amount 'price'"),
        (
            lambda: tr.HistogramStream(domain=SHOPS.bins, totals_by=["age"], **EVENT),
            "totals_by is a list of columns",
        ),
        (lambda: tr.HistogramStream(domain=SHOPS, totals_by="age", **EVENT), "list of columns"),
        (lambda: tr.HistogramStream(domain=SHOPS, totals_by=["x"], **EVENT), "no column 'x'"),
        (lambda: tr.HistogramStream(domain=SHOPS, totals_share=1, **EVENT), "below 1"),
    ],
)
def test_wrong_shapes_are_told_in_a_sentence(make, why):
    with pytest.raises(tr.ConfigError, match=why):
        make()
