"""Neighbouring streams for the meter, hard cases among them.

The two worlds of a pair differ by:

- `Event`: a rare row of the first batch, the last row, a deletion; the only row, early and late;
  one of a crowd in one place; a row that is inserted and deleted (the loss of a life). Rows that
  are made up have the highest of every amount, and of a growing list a value nobody declared.
- `User`, `Null`: the busiest person; a person with more rows than are accepted, in one place or
  moving, deleted at the end; such a person alone.
- `Window`: such a person, inside the first and inside a later window. Of events: a person who
  comes with a window, with more rows than are accepted at every step, and goes on elsewhere after
  it; the window is a block, or meets two.
- `Replace`: one history of a person for another: constant, random, or different at every second or
  third step.
- a panel: also a person who is absent at every second or third step; under `Replace` against one
  who is never, and against one who is absent at other steps.
- everything at once: the unit with the most rows, the one with the fewest; the only one, moving or
  standing still.
- journeys, step by step: under `Event` one of the first step, of the middle, the last; the only
  one, early and late; one of a crowd. Under `User` and `Window` a person's rows are journeys of
  their own.
- journeys, once or step by step: one that goes round a few places, and stays where it began: it
  adds the most that is possible to nearly every count.

Streams are continued with empty batches to the horizon, for `LONGEST` steps at most, because
counters spend their budget over it: give the checked mechanism a short horizon.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from tailrace.counting.plan import opened
from tailrace.domain import Schema
from tailrace.domain.cells import nameless
from tailrace.domain.growing import growing_column
from tailrace.mechanisms.base import Mechanism, Takes
from tailrace.privacy.loss import Loss
from tailrace.privacy.unit import Event, Replace, User, Window

Batches = list[tuple[Any, Any]]
# Chosen by trial while building, for quick checks: most steps played, most places of made-up rows,
# rows of a crowd.
LONGEST = 16
_PLACES = 8
_CROWD = 8
# Of a circling journey: places, rounds, and rows at the end in one place. By reasoning: more cells
# than the six that count fully, more turns than twenty, many more points than fifty.
_RING, _ROUNDS, _STAYS = 8, 4, 400


@dataclass(frozen=True)
class Neighbours:
    """A stream and its neighbours, which the guarantee must hide.

    stream: the batches.
    others: neighbours, each with a description and its claimed loss.
    quiet: whether all noise is 0, so that decisions on exact counts differ.
    """

    stream: Batches
    others: list[tuple[str, Batches, Loss]]
    quiet: bool = False


def neighbours(mechanism: Mechanism, batches: Batches) -> Iterator[Neighbours]:
    """Neighbours of `batches`, by a mechanism's unit and relation."""
    frames = [(_polars(adds), _polars(deletes)) for adds, deletes in batches]
    last = min(mechanism.horizon or LONGEST, LONGEST)
    frames = [*frames[:last], *[(None, None)] * (last - len(frames))]
    pool = _pool(mechanism, [adds for adds, _ in frames if adds is not None and len(adds)])
    if not len(pool):
        return
    if mechanism.takes is Takes.Once:
        yield from _units(mechanism, frames)
    elif isinstance(mechanism.unit, Event):
        yield from _events(mechanism, frames, pool)
    else:
        yield from _People(mechanism, frames, pool).pairs()


def held(frame: Any) -> nw.DataFrame[Any] | None:
    """A frame of any engine in memory; None without columns."""
    rows = opened(frame)
    return rows.collect() if isinstance(rows, nw.LazyFrame) else rows


def _polars(frame: Any) -> pl.DataFrame | None:
    rows = held(frame)
    return None if rows is None else rows.to_polars()


def _codes(mechanism: Mechanism, frame: pl.DataFrame) -> list[tuple[int, ...]]:
    """The cell of each row; negative where it is dropped."""
    domain, rows = mechanism.domain, nw.from_native(frame, eager_only=True)
    found = domain.digits(rows) if isinstance(domain, Schema) else domain.cells(rows)
    return [tuple(np.atleast_1d(code).tolist()) for code in found]


def _pool(mechanism: Mechanism, frames: list[pl.DataFrame]) -> pl.DataFrame:
    """One row for some of the cells, in domain order."""
    if not frames:
        return pl.DataFrame()
    codes = _codes(mechanism, frames[0])
    first = {code: row for row, code in reversed(list(enumerate(codes))) if min(code) >= 0}
    places = sorted(first)
    some = {*np.linspace(0, len(places) - 1, _PLACES).astype(int).tolist()} if places else set()
    return _extreme(mechanism, frames[0][[first[places[i]] for i in sorted(some)]])


def _extreme(mechanism: Mechanism, rows: pl.DataFrame) -> pl.DataFrame:
    """The same rows, with the highest amounts and with undeclared values."""
    if not isinstance(mechanism.domain, Schema):
        return rows
    values = {name: pl.lit(one.high) for name, one in mechanism.domain.amounts.items()}
    growing = growing_column(mechanism.domain)
    if growing is not None and rows.schema[growing] == pl.String:
        values[growing] = pl.lit("nobody declared this")
    return rows.with_columns(
        value.cast(rows.schema[name]).alias(name) for name, value in values.items()
    )


def _with(frame: pl.DataFrame | None, rows: pl.DataFrame | None) -> pl.DataFrame | None:
    if frame is None or rows is None:
        return rows if frame is None else frame
    return pl.concat([frame, rows], how="vertical_relaxed")


def _joined(stream: Batches, life: Batches) -> Batches:
    return [
        (_with(a, more), _with(d, gone)) for (a, d), (more, gone) in zip(stream, life, strict=True)
    ]


def _placed(steps: int, rows: dict[tuple[int, int], pl.DataFrame]) -> Batches:
    """A stream of rows by (step, 0: added, 1: deleted)."""
    return [(rows.get((t, 0)), rows.get((t, 1))) for t in range(steps)]


def _events(mechanism: Mechanism, batches: Batches, pool: pl.DataFrame) -> Iterator[Neighbours]:
    trip = _trip(mechanism)
    if trip is not None:
        yield from _trips(mechanism, batches, trip)
        return
    loss, steps = mechanism.guarantee.loss, len(batches)
    adding = [t for t, (adds, _) in enumerate(batches) if adds is not None and len(adds)]
    codes = _codes(mechanism, batches[adding[0]][0])
    seen = Counter(codes)
    inside = (row for row, code in enumerate(codes) if min(code) >= 0)
    rare = min(inside, key=lambda row: seen[codes[row]])
    less = _without_row(batches, adding[0], 0, rare)
    last = batches[adding[-1]][0]
    middle = adding[len(adding) // 2]
    others = [
        ("a rare row", less, loss),
        ("a row of the middle", _without_row(batches, middle, 0, 0), loss),
        ("the last row", _without_row(batches, adding[-1], 0, len(last) - 1), loss),
    ]
    deleting = [t for t, (_, gone) in enumerate(batches) if gone is not None and len(gone)]
    if mechanism.deletes and deleting:
        others.append(("a deletion", _without_row(batches, deleting[0], 1, 0), loss))
    yield Neighbours(batches, others)
    if mechanism.deletes:
        life = {(steps - 1, 1): batches[adding[0]][0][rare : rare + 1]}
        goes = ("a row that comes and goes", less, mechanism.guarantee.of_life())
        yield Neighbours(_joined(batches, _placed(steps, life)), [goes])
    row = pool[:1]
    alone = [
        (f"the only row, at step {t + 1}", _placed(steps, {(t, 0): row}), loss)
        for t in sorted({0, min(1, steps - 1), steps // 2})
    ]
    for quiet in (False, True):
        yield Neighbours(_placed(steps, {}), alone, quiet)
    crowds = [_placed(steps, {(0, 0): row[[0] * many]}) for many in (_CROWD, _CROWD - 1)]
    yield Neighbours(crowds[0], [("one of a crowd", crowds[1], loss)])


def _trip(mechanism: Mechanism) -> str | None:
    """The column of journeys, where an event is one."""
    return getattr(mechanism, "trajectory", None)


def _trips(mechanism: Mechanism, batches: Batches, trip: str) -> Iterator[Neighbours]:
    """Streams with and without one journey, whole."""
    loss, steps = mechanism.guarantee.loss, len(batches)
    adding = [t for t, (adds, _) in enumerate(batches) if adds is not None and len(adds)]
    others = []
    for name, t in (("first", 0), ("middle", len(adding) // 2), ("last", len(adding) - 1)):
        frame, edited = batches[adding[t]][0], list(batches)
        who = Counter(frame[trip].drop_nulls().to_list()).most_common(1)[0][0]
        edited[adding[t]] = (_others(frame, trip, who), None)
        others.append((f"a journey of the {name} step", edited, loss))
    yield Neighbours(batches, others)
    frame = batches[adding[0]][0]
    longest = Counter(frame[trip].drop_nulls().to_list()).most_common(1)[0][0]
    one = frame.filter(nameless(frame[trip]).eq_missing(longest))
    alone = [
        (f"the only journey, at step {t + 1}", _placed(steps, {(t, 0): one}), loss)
        for t in sorted({0, min(1, steps - 1), steps // 2, steps - 1})
    ]
    alone.append(("a circling journey", _placed(steps, {(0, 0): _circling(mechanism, one)}), loss))
    for quiet in (False, True):
        yield Neighbours(_placed(steps, {}), alone, quiet)
    crowds = [
        _placed(steps, {(0, 0): _each_its_own(pl.concat([one] * many), trip, len(one))})
        for many in (_CROWD, _CROWD - 1)
    ]
    yield Neighbours(crowds[0], [("one of a crowd", crowds[1], loss)])


def _circling(mechanism: Any, rows: pl.DataFrame) -> pl.DataFrame:
    """One journey round some places of these rows, that stays where it began."""
    round_ = list(range(min(len(rows), _RING)))
    found = rows[[0] * len(round_ * _ROUNDS + [0] * _STAYS)]
    places = rows[round_ * _ROUNDS + [0] * _STAYS][list(mechanism.domain.columns)]
    order = pl.Series(mechanism.order, np.arange(len(found)))
    return found.with_columns(*places, order.cast(rows.schema[mechanism.order]))


def _each_its_own(rows: pl.DataFrame, trip: str, points: int) -> pl.DataFrame:
    """Rows as journeys of so many points, each with an id that no other has."""
    ids = 10**6 + np.arange(len(rows)) // points
    return rows.with_columns(pl.Series(trip, ids).cast(rows.schema[trip]))


def _without_row(batches: Batches, step: int, side: int, row: int) -> Batches:
    frame = batches[step][side]
    rest, edited = pl.concat([frame[:row], frame[row + 1 :]]), list(batches)
    edited[step] = (rest, batches[step][1]) if side == 0 else (batches[step][0], rest)
    return edited


def _units(mechanism: Mechanism, batches: Batches) -> Iterator[Neighbours]:
    loss, frame = mechanism.guarantee.loss, batches[0][0]
    plan: Any = mechanism.plan(mechanism.init().public)
    whole = frame.drop_nulls()
    inside = [min(code) >= 0 for code in _codes(mechanism, whole)]
    whole = whole.filter(pl.Series(inside, dtype=pl.Boolean))
    most, *_, least = [who for who, _ in Counter(whole[plan.key].to_list()).most_common()] * 2
    others = [
        (f"the unit with the {name} rows", [(_others(frame, plan.key, who), None)], loss)
        for name, who in (("most", most), ("fewest", least))
    ]
    yield Neighbours(batches, others)
    busy = whole.filter(whole[plan.key] == most)
    still = busy.with_columns(busy[:1][[0] * len(busy)][list(mechanism.domain.columns)])
    alone = [("the only unit", busy), ("a unit that stands still", still)]
    if _trip(mechanism) is not None:
        alone.append(("a circling journey", _circling(mechanism, busy)))
    for quiet in (False, True):
        yield Neighbours(
            [(None, None)], [(name, [(rows, None)], loss) for name, rows in alone], quiet
        )


def _others(frame: pl.DataFrame | None, column: str, who: Any) -> pl.DataFrame | None:
    """The rows of all other units."""
    return None if frame is None else frame.filter(nameless(frame[column]).ne_missing(who))


class _People:
    """Streams with and without one person."""

    def __init__(self, mechanism: Mechanism, batches: Batches, pool: pl.DataFrame) -> None:
        unit: Any = mechanism.unit
        self.mechanism, self.unit, self.batches = mechanism, unit, batches
        columns = [frame[unit.column] for batch in batches for frame in batch if frame is not None]
        ids = Counter(who for column in columns for who in column.to_list() if who is not None)
        self.who = ids.most_common(1)[0][0]
        self.pool = pool.with_columns(
            pl.lit(self.who, dtype=pool.schema[unit.column]).alias(unit.column)
        )
        self.nobody = self._without(batches, range(len(batches)))

    def _rows(self, place: int, many: int) -> pl.DataFrame:
        """So many rows of the person at a place; or journeys from there, over half the places."""
        pool, trip = self.pool, _trip(self.mechanism)
        if trip is None:
            return pool[[place % len(pool)] * many]
        half, on = (len(pool) + 1) // 2, -1 if place < 0 else 1
        places = [(place + on * more) % len(pool) for more in range(half)]
        return _each_its_own(pool[places * many], trip, half)

    def _without(self, stream: Batches, steps: range) -> Batches:
        def rest(frame: pl.DataFrame | None) -> pl.DataFrame | None:
            return _others(frame, self.unit.column, self.who)

        return [
            (rest(adds), rest(gone)) if t in steps else (adds, gone)
            for t, (adds, gone) in enumerate(stream)
        ]

    def _pausing(self) -> Iterator[Batches]:
        """A person of a panel who is absent at times."""
        steps = range(len(self.batches) if self.mechanism.takes is Takes.Panel else 0)
        for every, at in ((2, 1), (3, 0)) if steps else ():
            life = self._life([0] * len(steps))
            yield [(None, None) if t % every == at else life[t] for t in steps]

    def _life(self, history: Sequence[int]) -> Batches:
        """A person at history[t], with one row too many."""
        steps, bound = len(self.batches), getattr(self.unit, "events", None) or self.unit.records
        rows = [self._rows(int(place), 1 if bound is None else bound + 1) for place in history]
        if isinstance(self.unit, User) and self.unit.events is not None:
            gone = {(steps - 1, 1): rows[0]} if self.mechanism.deletes and steps > 1 else {}
            return _placed(steps, {(0, 0): rows[0], **gone})
        if not self.mechanism.deletes:
            return _placed(steps, {(t, 0): own for t, own in enumerate(rows)})
        moves = [t for t in range(1, steps) if history[t] != history[t - 1]]
        added, gone = {(t, 0): rows[t] for t in (0, *moves)}, {(t, 1): rows[t - 1] for t in moves}
        return _placed(steps, {**added, **gone})

    def pairs(self) -> Iterator[Neighbours]:
        """Neighbours by the unit and the relation."""
        steps, loss = len(self.batches), self.mechanism.guarantee.loss
        # a bounded unit: one place is as good as another
        bounded = getattr(self.unit, "events", None) or self.unit.records
        places = range(1 if bounded else min(3, len(self.pool)))
        still = [self._life([place] * steps) for place in places]
        histories = np.random.default_rng(0).integers(0, len(self.pool), (2, steps))
        random = [self._life(history) for history in histories]
        if self.mechanism.neighbours is Replace:
            often = [[int(t % every == every - 1) for t in range(steps)] for every in (2, 3)]
            named, pausing = [*still[1:], *map(self._life, often)], [*self._pausing()]
            pairs = [(still[0], named), (random[0], random[1:])]
            pairs += [(one, [*named, *pausing]) for one in pausing]
            for one, others in pairs:
                lives = (_joined(self.nobody, other) for other in others)
                found = [("a person's other history", life, loss) for life in lives]
                yield Neighbours(_joined(self.nobody, one), found)
            return
        if isinstance(self.unit, Window) and self.unit.events is not None:
            yield from self._windows(self.unit.steps, self.unit.events)
            return
        if isinstance(self.unit, Window):
            busy, width = _joined(self.nobody, still[0]), self.unit.steps
            gone = [(first, self._without(busy, range(first, first + width))) for first in (0, 2)]
            found = [(f"a person from step {first + 1}", rest, loss) for first, rest in gone]
            yield Neighbours(busy, found)
            return
        there = [("the busiest person", self.batches, loss)]
        there += [
            ("a person who does all that is possible", _joined(self.nobody, life), loss)
            for life in (still[0], random[0], *self._pausing())
        ]
        yield Neighbours(self.nobody, there)
        for quiet in (False, True):
            alone = [("the only person", life, loss) for life in still]
            yield Neighbours(_placed(steps, {}), alone, quiet)

    def _windows(self, width: int, bound: int) -> Iterator[Neighbours]:
        """A person's rows in one window, there or not."""
        steps, loss = len(self.batches), self.mechanism.guarantee.loss
        here, there = (self._rows(place, bound + 1) for place in (0, -1))
        for first in sorted({0, 1 % width, width - 1}):
            window, rows = range(first, first + width), {}
            for t in range(first, steps):
                rows[t, 0], gone = (here, there) if t in window else (there, here)
                if self.mechanism.deletes:
                    rows[t, 1] = gone
            life, words = _placed(steps, rows), f"a person at {width} steps from {first + 1}"
            for stream, quiet in ((_joined(self.nobody, life), False), (life, True)):
                yield Neighbours(stream, [(words, self._without(stream, window), loss)], quiet)
            rest = self._without(self.batches, window)
            yield Neighbours(self.batches, [("the busiest person", rest, loss)])
