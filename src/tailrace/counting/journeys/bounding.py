"""Journeys of a unit within its bound, by the unit memory.

**Privacy.**

1. One unit can add or remove rows of its own, which make its own journeys.
2. A journey is known by a keyed hash of its person and its id, which depends on nothing else. Which
   of a unit's journeys are accepted is decided by these hashes and by its memory (`memory/`): no
   other unit changes it.
3. The accepted journeys of a unit are within its bound, whatever it sends. (Two journeys share a
   hash of 63 bits with no probability worth naming.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tailrace.counting.journeys.reading import JourneyRows, joined
from tailrace.counting.memory.buckets import as_units
from tailrace.counting.memory.contributions import bound
from tailrace.privacy.unit import User, Window


def within(
    parts: Sequence[JourneyRows],
    unit: User | Window,
    *,
    old: Path | None,
    new: Path,
    key: bytes,
    point: Callable[[str], None],
) -> JourneyRows:
    """The rows of the journeys that units may contribute, of all parts.

    The memory before this step is `old`, and the one after it is written to `new`.
    """
    rows = joined(parts)
    known = np.flatnonzero(rows.known)
    code = (rows.trajectory[:, 0] ^ rows.user[:, 1]) >> np.uint64(1)
    code = code.astype(np.int64)
    # One row for each journey.
    first = known[np.unique(code[known], return_index=True)[1]]
    people = as_units(*np.ascontiguousarray(rows.user[first].T))
    about = {"old": old, "new": new, "unit": unit, "key": key, "point": point}
    accepted = bound(adds=(people, code[first]), deletes=None, **about)
    return rows.at(known[np.isin(code[known], accepted.adds)])
