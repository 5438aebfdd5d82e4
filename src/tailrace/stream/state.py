"""A stream's stored values: where it stands, and its releases."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from tailrace.counting.journeys.spread import Spread
from tailrace.counting.plan import Plan, opened
from tailrace.domain import cells
from tailrace.domain.digits import Digits
from tailrace.errors import Mismatch
from tailrace.ledger import Mark
from tailrace.mechanisms.base import Mechanism, OncePlan, State, Table, rows_of
from tailrace.storage.codec import pack, unpack
from tailrace.storage.store import Changing, Store, understood, unfit
from tailrace.stream import log
from tailrace.stream.log import Log
from tailrace.stream.release import Release

# How a source cuts rows into steps, in plain values.
Cut = Mapping[str, Any]
# The most changes of a state that are read one after the other.
_CHANGES = 64
# Their size at most, as a multiple of the whole state: opening reads it, every step saves it.
_LONG = 3


@dataclass(frozen=True)
class Chain:
    """How a state is kept: whole at one step, then its changes.

    size: bytes of the whole one.
    since: bytes of the changes.
    many: how many they are.
    """

    size: int = 0
    since: int = 0
    many: int = 0


@dataclass(frozen=True)
class Standing:
    """Where a stream stands after its last step."""

    state: State
    mark: Mark
    segment: str | None  # of the unit memory
    log: Log
    public: Chain
    private: Chain


def bound(
    store: Store | None,
    held: Cut | None,
    cut: Cut,
    *,
    begun: bool,
    moved: Callable[[], bool] | None,
) -> Cut:
    """Keep the cut of a source; refuse a changed one.

    A change is refused once a step was released by the first.

    A folder may move (`path`) if `moved` finds all files used so far in it: they are remembered by
    their names. A stream of an earlier version has no cut, and takes the first one.
    """
    found = None if store is None else store.find("cut")
    kept = held if found is None else json.loads(found)
    known = cut if kept is None else kept
    changed = [name for name in {**known, **cut} if known.get(name) != cut.get(name)]
    if begun and changed and not (changed == ["path"] and moved is not None and moved()):
        along = (
            ", move all files used so far along under their names" if changed == ["path"] else ""
        )
        raise Mismatch(
            f"The source's {changed[0]} is not the one that earlier steps were cut by, so rows "
            f"could count twice: undo the change{along}, or make a new stream, which is a new "
            "charge."
        )
    if store is not None and kept != cut:
        with store.transaction("cut") as change:
            change.put("cut", dict(cut))
    return cut


def beginning(mechanism: Mechanism) -> Standing:
    """Before the first step."""
    return Standing(mechanism.init(), Mark(0, ""), None, Log(), Chain(), Chain())


def no_rows(mechanism: Mechanism) -> Table:
    """The table before the first step."""
    codes = mechanism.rows
    none = (
        np.zeros((0, len(codes.columns)), np.int32)
        if isinstance(codes, Digits)
        else np.zeros(0, np.int64)
    )
    return Table.of(none, codes.decode(none, np.random.default_rng(0)))


def public_file(standing: Standing, before: Any) -> tuple[str, bytes, Chain]:
    """The file of a public state, whole or as changes since `before`, and its chain."""
    end, data, chain = _packed(standing.state.public, before, standing.public)
    return log.states_of(standing.mark.step)[end == "since"], data, chain


def begin_standing(change: Changing, standing: Standing) -> Standing:
    """Keep where a stream stands, with its states whole."""
    name, data, chain = public_file(standing, None)
    change.keep(log.kept(standing.mark.step, name), data)
    return write_standing(change, replace(standing, public=chain), None)


def write_standing(change: Changing, standing: Standing, before: Any) -> Standing:
    """Keep where a stream stands; of its private state, what changed since `before`.

    The file of the public state is kept already.
    """
    step, public = standing.mark.step, standing.public
    end, data, private = _packed(standing.state.private, before, standing.private)
    if end == "whole":
        change.erase("private")
    change.put(f"private/{step:06d}/{end}", data)
    stands = {
        "step": step,
        "tag": standing.mark.tag,
        "segment": standing.segment,
        "log": standing.log.plain(),
        "public": vars(public),
        "private": vars(private),
    }
    change.put("standing", stands)
    return replace(standing, public=public, private=private)


def _packed(state: Any, before: Any, chain: Chain) -> tuple[str, bytes, Chain]:
    """A state, whole or as changes, whichever reads and writes less; and its chain."""
    if before is not None and chain.many < _CHANGES and chain.since <= _LONG * chain.size:
        changes = pack(state, since=before)
        if len(changes) <= max(chain.size, 1):
            return "since", changes, Chain(chain.size, chain.since + len(changes), chain.many + 1)
    data = pack(state)
    return "whole", data, Chain(len(data))


@understood()
def read_standing(store: Store, mechanism: Mechanism) -> Standing:
    """Where the stream in `store` stands."""
    stands, like = store.json("standing"), mechanism.init()
    step, logged = stands["step"], Log(**stands["log"])
    if (logged.step, logged.entry) != (step, log.entry_digest(store, step)):
        raise unfit()
    state = State(read_public(store, step, like.public), _read_private(store, like.private))
    return Standing(
        state,
        Mark(step, stands["tag"]),
        stands["segment"],
        logged,
        Chain(**stands["public"]),
        Chain(**stands["private"]),
    )


def read_public(store: Store, step: int, like: Any) -> Any:
    """The public state of a step: the last whole one, then changes."""

    def find(k: int, end: int) -> bytes | None:
        # An earlier version kept states and did not publish them.
        former = f"step/{k:06d}/public/{('whole', 'since')[end]}"
        return store.find(log.kept(k, log.states_of(k)[end])) or store.find(former)

    return chained(find, step, like)


def chained(find: Callable[[int, int], bytes | None], step: int, like: Any) -> Any:
    """A public state from its files: the last whole one, then changes.

    `find` gives a step's file, whole (0) or since (1), where there is one.
    """
    # Not further back, whatever a crafted store says.
    near = range(step, max(step - _CHANGES, 0) - 1, -1)
    first, data = next((k, data) for k in near if (data := find(k, 0)) is not None)
    state = unpack(data, like=like)
    for k in range(first + 1, step + 1):
        changes = find(k, 1)
        if changes is None:
            raise unfit()
        state = unpack(changes, like=like, since=state)
    return state


def _read_private(store: Store, like: Any) -> Any:
    first, *later = store.names("private")
    state = unpack(store.bytes(first), like=like)
    for name in later:
        state = unpack(store.bytes(name), like=like, since=state)
    return state


@understood()
def read_release(store: Store, step: int, mechanism: Mechanism, guarantee: Any) -> Release:
    """A release again."""
    entry, nothing = log.entry_of(store, step), no_rows(mechanism)
    public = read_public(store, step, mechanism.init().public)
    codes, view = rows_of(mechanism, public), mechanism.view(public)
    rows = log.read_table(store, step, codes, nothing)
    before = log.read_table(store, step - 1, codes, nothing)
    return Release(
        step,
        guarantee,
        entry["provenance"],
        view,
        rows,
        rows.since(before.born),
        before.at(~np.isin(before.numbers, rows.numbers, assume_unique=True)),
        mechanism.rows.types,
    )


def seal_rows(plan: Plan | OncePlan, frame: Any) -> bytes | None:
    """Seal the rows that later rounds of a step count.

    The columns of a batch, or all that a plan of everything at once read of it.
    """
    import polars as pl

    if isinstance(frame, Spread):
        return frame.sealed
    if not isinstance(plan, Plan):
        return pack(frame)
    rows = opened(frame)
    if rows is None:
        return None
    names = [*plan.codes.columns, *([] if plan.key is None else [plan.key])]
    wanted = rows.select(*(cells.named(rows, name) for name in dict.fromkeys(names)))
    here = wanted.collect() if isinstance(wanted, nw.LazyFrame) else wanted
    frame = pl.DataFrame({name: cells.column(here.get_column(name)) for name in here.columns})
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="lz4", statistics=False)
    return buffer.getvalue()


def unseal_rows(plan: Plan | OncePlan, data: bytes | None, folder: Path) -> Any:
    """A sealed batch again; its files lie in `folder`."""
    import polars as pl

    if data is None:
        return None
    # What is packed begins with the length of its header.
    if data[:1] == b"[":
        return Spread.read(data, folder)
    if isinstance(plan, Plan):
        return pl.read_parquet(io.BytesIO(data))
    return unpack(data, like=plan.read(None))
