"""Points of people, added in several calls: what one push of them releases."""

import numpy as np
import polars as pl
import pytest

from tailrace import Box, Noise, PureDP, SpatialStream, Stream, User, Window


@pytest.mark.parametrize(
    "unit",
    [User(column="id", events=2), Window(steps=2, column="id", events=2)],
    ids=["user", "window"],
)
def test_people_in_places_may_come_in_parts(unit):
    square = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=16)
    told = {"domain": square, "privacy": PureDP(epsilon=1), "unit": unit, "horizon": 2}
    rng = np.random.default_rng(0)
    rows = pl.DataFrame(
        {"id": rng.integers(0, 90, 300), "x": rng.random(300), "y": rng.random(300)}
    )
    found = []
    for parts in ([rows], [rows[:120], rows[120:]]):
        with Stream(SpatialStream(**told), noise=Noise.insecure(1)) as stream:
            for part in parts[:-1]:
                stream.add(part)
            found.append([stream.push(parts[-1]).rows.cells.tolist(), stream.publish().step])
    assert found[0] == found[1]
