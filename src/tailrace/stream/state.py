"""A stream's stored values: where it stands, and its releases."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from tailrace.counting.plan import Plan, opened
from tailrace.domain import cells
from tailrace.domain.digits import Digits
from tailrace.errors import Mismatch
from tailrace.ledger import Mark
from tailrace.mechanisms.base import Mechanism, OncePlan, State, Table
from tailrace.storage.codec import pack, unpack
from tailrace.storage.store import Store, understood, unfit
from tailrace.stream import published
from tailrace.stream.release import Release, seconds

# How a source cuts rows into steps, in plain values.
Cut = Mapping[str, Any]
_PARTS = ("table", "added", "removed")


@dataclass(frozen=True)
class Standing:
    """Where a stream stands after its last step."""

    state: State
    mark: Mark
    segment: str | None  # of the unit memory
    table: Table  # the synthetic rows released last


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
    codes = mechanism.rows
    none = (
        np.zeros((0, len(codes.columns)), np.int32)
        if isinstance(codes, Digits)
        else np.zeros(0, np.int64)
    )
    nothing = Table(none, codes.decode(none, np.random.default_rng(0)))
    return Standing(mechanism.init(), Mark(0, ""), None, nothing)


def standing_values(standing: Standing) -> dict[str, bytes]:
    """`standing` as values, without those of its last release.

    These are its public state and its table.
    """
    stands = {"step": standing.mark.step, "tag": standing.mark.tag, "segment": standing.segment}
    return {
        "standing": json.dumps(stands).encode(),
        "standing/private": pack(standing.state.private),
    }


@understood()
def read_standing(store: Store, mechanism: Mechanism) -> Standing:
    """Where the stream in `store` stands."""
    stands, begin = store.json("standing"), beginning(mechanism)
    step = stands["step"]
    public, table = begin.state.public, begin.table
    if step:
        public = unpack(store.bytes(f"{_prefix(step)}/public"), like=public)
        table = _read_table(store, step, "table", mechanism)
    private = unpack(store.bytes("standing/private"), like=begin.state.private)
    return Standing(State(public, private), Mark(step, stands["tag"]), stands["segment"], table)


def release_values(release: Release, public: Any) -> dict[str, bytes]:
    """`release` as values, with the public state behind it."""
    prefix, values = _prefix(release.step), {}
    for name, table in zip(_PARTS, (release.rows, release.added, release.removed), strict=True):
        values[f"{prefix}/{name}"] = _parquet(release.kind.frame(table, release.types))
    values[prefix] = (json.dumps(release.provenance, indent=2) + "\n").encode()
    values[f"{prefix}/public"] = pack(public)
    return values


def read_release_values(store: Store, step: int) -> dict[str, bytes]:
    """The same values, from a store."""
    prefix = _prefix(step)
    names = [prefix, f"{prefix}/public", *(f"{prefix}/{part}" for part in _PARTS)]
    return {name: store.bytes(name) for name in names}


@understood()
def read_release(store: Store, step: int, mechanism: Mechanism, guarantee: Any) -> Release:
    """A release again."""
    prefix, begin = _prefix(step), beginning(mechanism)
    rows, added, removed = (_read_table(store, step, name, mechanism) for name in _PARTS)
    view = mechanism.view(unpack(store.bytes(f"{prefix}/public"), like=begin.state.public))
    return Release(
        step, guarantee, store.json(prefix), view, rows, added, removed, mechanism.rows.types
    )


def _files(step: int) -> dict[str, str]:
    """The files of a release, and their values' names."""
    prefix = _prefix(step)
    return {f"{name}.parquet": f"{prefix}/{name}" for name in _PARTS} | {"provenance.json": prefix}


def deliver(store: Store, folder: Path, step: int) -> None:
    """Put a release into the public directory, if not there."""
    names = _files(step)
    if published.holds(folder, step, names, store.fits):
        return
    files = {file: store.bytes(name) for file, name in names.items()}
    with understood():
        time = seconds(store.json(_prefix(step)))
    published.deliver(folder, step, files, time=time)


def _parquet(frame: Any) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="lz4", statistics=False)
    return buffer.getvalue()


def seal_rows(plan: Plan | OncePlan, frame: Any) -> bytes | None:
    """Seal the rows that later rounds of a step count.

    The columns of a batch, or all that a plan of everything at once read of it.
    """
    import polars as pl

    if not isinstance(plan, Plan):
        return pack(frame)
    rows = opened(frame)
    if rows is None:
        return None
    wanted = rows.select(*plan.codes.columns, *([] if plan.key is None else [plan.key]))
    here = wanted.collect() if isinstance(wanted, nw.LazyFrame) else wanted
    return _parquet(pl.DataFrame([cells.column(here.get_column(name)) for name in here.columns]))


def unseal_rows(plan: Plan | OncePlan, data: bytes | None) -> Any:
    """A sealed batch again."""
    import polars as pl

    if data is None:
        return None
    if isinstance(plan, Plan):
        return pl.read_parquet(io.BytesIO(data))
    return unpack(data, like=plan.read(None))


def _read_table(store: Store, step: int, name: str, mechanism: Mechanism) -> Table:
    """Read a stored table, and its cells off its values."""
    import polars as pl

    data = store.bytes(f"{_prefix(step)}/{name}")
    try:
        frame = pl.read_parquet(io.BytesIO(data))
    except pl.exceptions.PanicException:
        # A crafted file may raise this, which is no Exception.
        raise unfit() from None
    like = beginning(mechanism).table.columns
    columns = {}
    for column, values in like.items():
        found = frame[column]
        columns[column] = (
            np.array([*found, None], object)[:-1] if values.dtype == object else found.to_numpy()
        )
    return Table(mechanism.rows.cells(nw.from_native(frame, eager_only=True)), columns)


def _prefix(step: int) -> str:
    return f"release/{step:06d}"
