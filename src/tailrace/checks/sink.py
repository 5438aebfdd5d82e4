"""What every sink must keep, built in or plugged in.

`check_sink(make)` raises `AssertionError` with a sentence that names the promise broken:

>>> from tailrace.sinks import Memory
>>> memory = Memory()
>>> check_sink(lambda: memory)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from tailrace.domain import Categorical, Schema
from tailrace.errors import Error
from tailrace.mechanisms.histogram import HistogramStream
from tailrace.noise import Noise
from tailrace.privacy.loss import PureDP
from tailrace.privacy.unit import Event
from tailrace.sinks import Sink
from tailrace.stream.release import Release
from tailrace.stream.stream import Stream

# More than any of our sinks reads the columns of one release: 12.
_READINGS = 200


def check_sink(make: Callable[[], Sink]) -> None:
    """Run every check of a sink.

    Parameters
        make: gives the sink as a new process would open it, over the same place each time; the
            place is empty at first.
    """
    one, two, three = _releases(1)
    assert make().holds() == set(), "a new sink holds no step"
    _cut_off(make, one)
    make().put(one)
    assert make().holds() == {1}, "a sink holds the step that was put in, for a new process too"
    make().put(one)
    assert make().holds() == {1}, "a release that is put in again changes nothing"
    _refuses(make, _releases(2)[0])
    make().put(one)
    make().put(three)
    assert make().holds() == {1, 3}, "a sink holds the steps that it has, and no others"
    make().put(two)
    assert make().holds() == {1, 2, 3}, "a step that was left out can follow"


def _refuses(make: Callable[[], Sink], other: Release) -> None:
    try:
        make().put(other)
    except Error:
        assert make().holds() == {1}, "a release that is refused changes nothing"
    else:
        raise AssertionError("another release of a step that is held is refused")


def _cut_off(make: Callable[[], Sink], release: Release) -> None:
    """Cut a delivery off at each reading of its rows: no step may appear in part."""
    for reading in range(_READINGS):
        rows = release.rows.at(slice(None))
        rows.columns = columns = _Torn(release.rows.columns, reading)
        torn = dataclasses.replace(release, rows=rows)
        try:
            make().put(torn)
        except Exception:
            assert make().holds() == set(), "a release goes in whole, or not at all"
        else:
            assert columns.left >= 0, "a sink does not hide that a delivery was cut off"
            # A sink in memory may hold these columns themselves.
            columns.left = math.inf
            return
    raise AssertionError(f"a sink reads a release less than {_READINGS} times")


class _Cut(Exception):
    """A delivery is cut off here."""


class _Torn(dict[str, Any]):
    """Columns that can be read `left` times."""

    def __init__(self, columns: dict[str, Any], left: float) -> None:
        super().__init__(columns)
        self.left = left

    def _read(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _Cut

    def __getitem__(self, name: str) -> Any:
        self._read()
        return super().__getitem__(name)

    def values(self) -> Any:
        self._read()
        return super().values()

    def items(self) -> Any:
        self._read()
        return super().items()


def _releases(seed: int) -> list[Release]:
    """Three steps of a stream, with texts that formats find hard."""
    texts = ["f", 'a "quoted", text', "née\n☃ ", "NULL"]
    mechanism = HistogramStream(
        domain=Schema(sex=Categorical(texts), smokes=Categorical([True, False])),
        privacy=PureDP(epsilon=1),
        unit=Event(),
        horizon=3,
    )
    with Stream(mechanism, noise=Noise.insecure(seed)) as stream:
        rows = {"sex": texts * 5 * seed, "smokes": [True, False] * 10 * seed}
        return [stream.push(_frame(rows)) for _ in range(3)]


def _frame(rows: dict[str, list[Any]]) -> Any:
    import polars as pl

    return pl.DataFrame(rows)
