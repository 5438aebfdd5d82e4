"""A table beside the true one: how many rows would have to move."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import tailrace as tr
from tailrace.metrics import compare

WARD = tr.HistogramStream(
    domain=tr.Schema(sex=tr.Categorical(["f", "m"])),
    privacy=tr.PureDP(epsilon=50),
    unit=tr.Event(),
    horizon=9,
)


def test_the_same_table_is_at_no_distance_and_another_has_a_known_one():
    real = pl.DataFrame({"sex": ["f"] * 6 + ["m"] * 4, "city": ["a", "b"] * 5})
    found = compare(real, real)
    assert found["columns"].sort().to_list() == ["city", "sex", "sex, city"]
    assert found["variation"].to_list() == [0.0] * 3
    made = pl.DataFrame({"sex": ["f"] * 5 + ["x"] * 5, "city": ["a", "b"] * 5})
    by = dict(compare(real, made).select("columns", "variation").iter_rows())
    assert by["sex"] == pytest.approx(0.5) and by["city"] == 0
    assert compare(real, made)["columns"][0] in ("sex", "sex, city"), "the farthest first"


def test_numbers_are_cut_into_bins_of_the_true_rows():
    rng = np.random.default_rng(0)
    real = pl.DataFrame({"x": rng.normal(size=4000)})
    near = compare(real, pl.DataFrame({"x": rng.normal(size=4000)}))
    far = compare(real, pl.DataFrame({"x": rng.normal(2, size=4000)}))
    assert near["cells"].item() == 20
    assert near["variation"].item() < 0.06 < 0.5 < far["variation"].item()
    holes = compare(real, pl.DataFrame({"x": [None] * 10}, schema={"x": pl.Float64}))
    assert holes["variation"].item() == 1.0


def test_a_release_is_compared_with_a_frame_of_any_engine():
    real = pd.DataFrame({"sex": ["f"] * 30 + ["m"] * 10, "id": range(40)})
    found = compare(real, tr.Stream(WARD, noise=tr.Noise.insecure(1)).push(real))
    assert isinstance(found, pd.DataFrame), "of the kind of the true rows"
    assert found["columns"].to_list() == ["sex"] and found["variation"].item() < 0.1
    for wrong in (pl.DataFrame({"age": [1]}), real[:0]):
        with pytest.raises(tr.DataError, match="a column in common"):
            compare(real, wrong)
