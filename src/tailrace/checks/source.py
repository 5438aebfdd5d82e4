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
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw

from tailrace.sources import Batch, Feed, Portion, Source

Read = tuple[Counter[str], Counter[str]]


@dataclass(frozen=True)
class _Kept:
    """What a stream has kept of a feed: early rows by their step, and the note."""

    early: Mapping[int, Read] = field(default_factory=dict)
    note: Any = None


def check_source(make: Callable[[], Source | Feed], *, rows: Sequence[int]) -> None:
    """Run every check of a source.

    Parameters
        make: gives the source as a new process would open it, over the same data each time.
        rows: how many rows are inserted at each step from the first; each of them is ready.
    """
    going, kept = make(), _Kept()
    for step, expected in enumerate(rows, start=1):
        cut = _cut(going)
        assert going.ready(step) is True, f"step {step}, whose rows are there, is ready"
        assert going.ready(step) is True, "asking whether a step is ready changes nothing"
        first, after = _read(going, step, kept)
        assert first[0].total() == expected, (
            f"each row is given exactly once: step {step} has {expected} rows, "
            f"not {first[0].total()}"
        )
        asked = _read(going, step, kept)[0]
        assert asked == first, "a step that is asked for again has the same rows"
        again = make()
        assert again.ready(step) is True, "a step is ready in a new process too"
        asked = _read(again, step, kept)[0]
        assert asked == first, "a new process is given the same rows of a step"
        assert _cut(going) == cut == _cut(again), "the cut is fixed when a source is opened"
        kept = after
    assert isinstance(going.over, bool), "over is True or False"


def _cut(source: Source | Feed) -> Any:
    """How the source says that it cuts rows, which a stream keeps as JSON."""
    cut = getattr(source, "cut", None)
    assert _plain(cut), "the cut is made of plain values: texts, numbers, lists and tables"
    return cut


def _plain(value: Any) -> bool:
    try:
        return json.loads(json.dumps(value)) == value
    except (TypeError, ValueError):
        return False


def _read(source: Source | Feed, step: int, kept: _Kept) -> tuple[Read, _Kept]:
    """The rows of a step, and what a stream has kept once they are in."""
    if not isinstance(source, Feed):
        return _batch(source.batch(step)), kept
    found, note = dict(kept.early), kept.note
    for portion in source.more(step, kept.note):
        assert isinstance(portion, Portion), "a feed gives each Portion with its note"
        assert _plain(portion.note), "a note is made of plain values: texts, numbers, lists, tables"
        for own, batch in portion.batches.items():
            assert own >= step, "rows go to no step that is released"
            adds, deletes = _batch(batch)
            before = found.get(own, (Counter(), Counter()))
            found[own] = (before[0] + adds, before[1] + deletes)
        note = portion.note
    assert not list(source.more(step, note)), "what a note tells of is not given again"
    return found.pop(step, (Counter(), Counter())), _Kept(found, note)


def _batch(batch: Any) -> Read:
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
