"""Bring a stream of format 2 over to the format of today.

Format 2 kept every table whole, three times. The promise, the key, the unit memory and the place in
the ledger stay; every release comes to lie in the log. The new private folder is made aside and
takes the place of the old one by renaming; the next opening finishes what was cut off
(`storage.store.finish_migrating`).
"""

from __future__ import annotations

import io
import shutil
from dataclasses import replace
from pathlib import Path

import narwhals as nw
import numpy as np

from tailrace.ledger import Mark
from tailrace.mechanisms.base import Mechanism, Sample, State, Table
from tailrace.noise import Noise
from tailrace.storage.codec import to_plain, unpack
from tailrace.storage.durable import remove, sync_all, where
from tailrace.storage.former import Former
from tailrace.storage.store import (
    NEW_FOLDER,
    Changing,
    Store,
    finish_migrating,
    keyed,
    put_in_place,
    understood,
    unfit,
)
from tailrace.stream import log, published, state
from tailrace.stream.directory import PathLike, calendar_of, mechanism_of, promise


def migrate(path: PathLike) -> int:
    """Bring the stream in `path` over; return its last step."""
    folder = where(path)
    finish_migrating(folder)
    with Former(folder / "private") as old:
        partial = folder / NEW_FOLDER
        remove(partial)
        with understood(), Store.create(partial, keyed(old.secret)) as change:
            step = _brought_over(old, folder / "releases", change)
        shutil.copytree(old.folder / "memory", partial / "memory", dirs_exist_ok=True)
        if (old.folder / "files.json").is_file():
            shutil.copy2(old.folder / "files.json", partial / "files.json")
        sync_all(partial)
        # It tells of the former layout; the next opening writes another.
        (folder / "releases" / "README.md").unlink(missing_ok=True)
        put_in_place(folder)
    return step


def _brought_over(old: Former, releases: Path, change: Changing) -> int:
    """Write all values of the old store into the new one."""
    about, stands = old.json("about"), old.json("standing")
    mechanism, calendar = mechanism_of(about), calendar_of(about)
    change.put("about", {**about, "full": "checkpoints"})
    for name in ("cut", "intent", "intent/counts", "intent/adds", "intent/deletes"):
        if (data := old.find(name)) is not None:
            change.put(name, data)
    said = published.said(
        promise(mechanism, Noise.kept(old.secret, about["noise"]), charged=True),
        to_plain(mechanism.domain),
        None if calendar is None else to_plain(calendar),
        about["mechanism"],
    )
    # As they were published.
    said = {name: _published(releases / name, data) for name, data in said.items()}
    for name, data in said.items():
        change.keep(f"said/{name}", data)
    like, table = mechanism.init(), state.no_rows(mechanism)
    standing = state.begin_standing(change, state.beginning(mechanism))
    for step in range(1, stands["step"] + 1):
        sample = _sample(old, step, mechanism, table)
        provenance = old.json(f"release/{step:06d}")
        changes = log.Changes(table, sample, mechanism.rows.types, "checkpoints", provenance)
        public = unpack(old.bytes(f"release/{step:06d}/public"), like=like.public)
        now = replace(
            standing,
            state=State(public, like.private),
            mark=Mark(step, stands["tag"]),
            segment=stands["segment"],
        )
        before = standing.state.public if step > 1 else None
        name, data, chain = state.public_file(now, before)
        written = changes.write(change, now.log, said if step == 1 else {}, {name: data})
        now = replace(now, log=written, public=chain)
        standing = state.write_standing(change, now, standing.state.private)
        table = sample.table
    private = unpack(old.bytes("standing/private"), like=like.private)
    state.write_standing(
        change, replace(standing, state=State(standing.state.public, private)), None
    )
    return stands["step"]


def _published(path: Path, data: bytes) -> bytes:
    return path.read_bytes() if path.is_file() and not path.is_symlink() else data


def _sample(old: Former, step: int, mechanism: Mechanism, before: Table) -> Sample:
    """The change that an old release made to the table before it."""
    new, added = (_read(old, step, name, mechanism) for name in ("table", "added"))
    kept = len(new) - len(added)
    stays = _stays(_known(before), _known(new)[:kept])
    if stays.sum() != kept:
        raise unfit()
    tail = new.at(slice(kept, None))
    return before.after(~stays, tail.cells, tail.columns)


def _stays(before: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Which rows stay: those that stay keep their order, so the first that fits does."""
    stays, at = np.zeros(len(before), np.bool_), 0
    wanted = kept.tolist()
    for place, row in enumerate(before.tolist()):
        if at < len(wanted) and row == wanted[at]:
            stays[place] = True
            at += 1
    return stays


def _known(table: Table) -> np.ndarray:
    """A number for each row that equal rows share."""
    import polars as pl

    columns = {
        name: pl.Series(values.tolist() if values.dtype == object else values)
        for name, values in table.columns.items()
    }
    return pl.DataFrame(columns).hash_rows(seed=1).to_numpy()


def _read(old: Former, step: int, name: str, mechanism: Mechanism) -> Table:
    import polars as pl

    try:
        frame = pl.read_parquet(io.BytesIO(old.bytes(f"release/{step:06d}/{name}")))
    except pl.exceptions.PanicException:
        raise unfit() from None
    columns = log.columns_of(frame, state.no_rows(mechanism))
    return Table.of(mechanism.rows.cells(nw.from_native(frame, eager_only=True)), columns)
