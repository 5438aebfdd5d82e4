"""What every source must keep, built in or plugged in.

`check_source(make, rows=...)` raises `AssertionError` with a sentence that names the promise
broken:

>>> from tailrace.sources import Frames
>>> check_source(lambda: Frames([{"sex": ["f", "m"]}, {"sex": ["f"]}]), rows=[2, 1])
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import narwhals as nw

from tailrace.sources import Batch, Source

Read = tuple[Counter[str], Counter[str]]


def check_source(make: Callable[[], Source], *, rows: Sequence[int]) -> None:
    """Run every check of a source.

    Parameters
        make: gives the source as a new process would open it, over the same data each time.
        rows: how many rows are inserted at each step from the first; each of them is ready.
    """
    going = make()
    for step, expected in enumerate(rows, start=1):
        cut = _cut(going)
        assert going.ready(step) is True, f"step {step}, whose rows are there, is ready"
        assert going.ready(step) is True, "asking whether a step is ready changes nothing"
        first = _read(going, step)
        assert first[0].total() == expected, (
            f"each row is given exactly once: step {step} has {expected} rows, "
            f"not {first[0].total()}"
        )
        assert _read(going, step) == first, "a step that is asked for again has the same rows"
        again = make()
        assert again.ready(step) is True, "a step is ready in a new process too"
        assert _read(again, step) == first, "a new process is given the same rows of a step"
        assert _cut(going) == cut == _cut(again), "the cut is fixed when a source is opened"
    assert isinstance(going.over, bool), "over is True or False"


def _cut(source: Source) -> Any:
    """How the source says that it cuts rows, which a stream keeps as JSON."""
    cut = getattr(source, "cut", None)
    try:
        plain = cut is None or json.loads(json.dumps(cut)) == cut
    except (TypeError, ValueError):
        plain = False
    assert plain, "the cut is made of plain values: texts, numbers, lists and tables"
    return cut


def _read(source: Source, step: int) -> Read:
    batch = source.batch(step)
    assert isinstance(batch, Batch), "a step is given as a Batch"
    return _rows(batch.adds), _rows(batch.deletes)


def _rows(frame: Any) -> Counter[str]:
    """Rows of a frame with how often each is there, in any order."""
    if frame is None:
        return Counter()
    if isinstance(frame, Mapping):
        return Counter(map(repr, zip(*frame.values(), strict=True)))
    wrapped = nw.from_native(frame)
    eager = wrapped.collect() if isinstance(wrapped, nw.LazyFrame) else wrapped
    return Counter(map(repr, eager.iter_rows()))
