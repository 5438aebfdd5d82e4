"""The log of a stream: what each step added and removed.

    added/000007.parquet      row, born, columns...
    removed/000007.parquet    row, died
    table/000064.parquet      row, columns...: a checkpoint, now and then
    state/000007_whole.bin    what a view is made of; or _since, its changes since the step before
    log/000007.json           the files of the step with digests, and the digest of the entry before

The table of a step is the last checkpoint, and what was added since, without what was removed
since, by row. A checkpoint is written when reading the log from the last one would cost three times
what the table does. Then all checkpoints together are at most half as large as the log: if L is
what was logged between two of sizes B and C, then C < (B + L) / 3, and summed over all of them
sum C < (sum C + sum L) / 3.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import narwhals as nw
import numpy as np

from tailrace.domain import Codes
from tailrace.mechanisms.base import Sample, Table
from tailrace.storage.store import Changing, Store, understood, unfit
from tailrace.stream.release import Kind

# Bytes that opening one more file costs as much as reading.
_FILE = 1 << 13
# The least size of a checkpoint worth saving.
_LEAST = 1 << 16
# Tables that reading the log may cost: then all checkpoints are at most half as large as the log.
_LONG = 3
# When the whole table is published.
Full = Literal["checkpoints", "latest", "every", "none"]


@dataclass(frozen=True)
class Log:
    """Where the log stands.

    step: the last one.
    base: the step of the last checkpoint; 0 is the empty table before the first step.
    cost: bytes to read from there on, the checkpoint included.
    added: bytes of all files of rows added so far.
    entry: the digest of the last entry.
    """

    step: int = 0
    base: int = 0
    cost: int = 0
    added: int = 0
    entry: str = ""

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def digest_of(*pieces: bytes) -> str:
    """The digest by which published files are known (`b2sum -l 256`)."""
    hashed = hashlib.blake2b(digest_size=32)
    for piece in pieces:
        hashed.update(piece)
    return hashed.hexdigest()


def files_of(step: int) -> tuple[str, str, str]:
    """The names of a step's files: added, removed, table."""
    added, removed, table = (f"{part}/{step:06d}.parquet" for part in ("added", "removed", "table"))
    return added, removed, table


def states_of(step: int) -> tuple[str, str]:
    """The names of a step's public state: whole, or what changed since."""
    return f"state/{step:06d}_whole.bin", f"state/{step:06d}_since.bin"


def named(columns: Iterable[str]) -> tuple[str, str, str]:
    """The names of row, born and died, beside those columns.

    Some engines take no notice of case.
    """
    taken, found = {name.lower() for name in columns}, []
    for name in ("row", "born", "died"):
        while name in taken:
            name += "_"
        found.append(name)
    return found[0], found[1], found[2]


@dataclass(frozen=True)
class Changes:
    """What a step changes, as files of the log.

    before: the table before the step.
    sample: the table after it.
    types: of its columns.
    full: when the whole table is published.
    """

    before: Table
    sample: Sample
    types: Mapping[str, Any]
    full: Full
    provenance: dict[str, Any]

    def write(
        self, change: Changing, log: Log, said: Mapping[str, bytes], state: Mapping[str, bytes]
    ) -> Log:
        """Keep the files of the next step; return where the log then stands.

        `said` are files that hold for all steps: the first entry lists them. `state` is the file of
        the public state.
        """
        step, table = log.step + 1, self.sample.table
        new, gone = table.since(self.before.born), self.sample.removed
        row, born, died = named(new.columns)
        names = files_of(step)
        files = {
            names[0]: _parquet(new, self.types, {row: new.numbers, born: _same(step, new)}),
            names[1]: _parquet(None, self.types, {row: gone, died: _same(step, gone)}),
        }
        cost = log.cost + sum(max(len(data), _FILE) for data in files.values())
        added = log.added + len(files[names[0]])
        expected = max(_LEAST, added * len(table) // max(table.born, 1))
        base = log.base
        if self.full == "every" or cost > _LONG * expected:
            files[names[2]] = whole(table, self.types)
            base, cost = step, max(len(files[names[2]]), _FILE)
        files |= state
        entry = {
            "step": step,
            "provenance": self.provenance,
            "rows": len(table),
            "born": table.born,
            "from": base or None,
            "files": {
                name: {"bytes": len(data), "blake2b": digest_of(data)}
                for name, data in {**said, **files}.items()
            },
            "before": log.entry,
        }
        data = (json.dumps(entry, indent=2) + "\n").encode()
        for name, content in {**files, f"log/{step:06d}.json": data}.items():
            change.keep(kept(step, name), content)
        return Log(step, base, cost, added, digest_of(data))


def kept(step: int, name: str) -> str:
    """The name of a file's value in the store."""
    return f"step/{step:06d}/{name}"


@understood()
def entry_of(store: Store, step: int) -> dict[str, Any]:
    """The log's entry of a step."""
    return json.loads(store.bytes(kept(step, f"log/{step:06d}.json")))


def entry_digest(store: Store, step: int) -> str:
    """The digest of a step's entry; none before the first."""
    return digest_of(store.bytes(kept(step, f"log/{step:06d}.json"))) if step else ""


@understood()
def read_table(store: Store, step: int, codes: Codes, nothing: Table) -> Table:
    """The table of a step, from the log; `nothing` before the first."""
    import polars as pl

    if not step:
        return nothing
    entry = entry_of(store, step)
    base, row = entry["from"] or 0, named(nothing.columns)[0]
    if not 0 <= base <= step:
        raise unfit()
    wanted = [row, *nothing.columns]
    steps = range(base + 1, step + 1)
    parts = [_read(store, [kept(base, files_of(base)[2])], wanted)] if base else []
    parts.append(_read(store, [kept(k, files_of(k)[0]) for k in steps], wanted))
    gone = _read(store, [kept(k, files_of(k)[1]) for k in steps], [row])
    rows = pl.concat([part for part in parts if part is not None])
    if gone is not None and len(gone):
        rows = rows.filter(~np.isin(rows[row].to_numpy(), gone[row].to_numpy()))
    if len(rows) != entry["rows"] or not rows[row].is_sorted():
        raise unfit()
    columns = columns_of(rows, nothing)
    cells = codes.cells(nw.from_native(rows.drop(row), eager_only=True))
    return Table(cells, columns, rows[row].to_numpy(), entry["born"])


@dataclass(frozen=True, eq=False)
class History:
    """Every row ever released, in the order of birth.

    columns: name -> (rows,).
    born: (rows,) the first step with the row.
    gone: (rows,) the first step without it; of a living row, the step after the last.
    """

    columns: dict[str, np.ndarray]
    born: np.ndarray
    gone: np.ndarray

    def rows_at(self, steps: np.ndarray) -> np.ndarray:
        """How many rows there were at these steps."""
        came, went = (np.sort(one) for one in (self.born, self.gone))
        return np.searchsorted(came, steps, "right") - np.searchsorted(went, steps, "right")


@understood()
def read_history(store: Store, step: int, nothing: Table) -> History:
    """All rows up to a step, each file read once."""
    row, born, died = named(nothing.columns)
    files = [[kept(k, name) for name in files_of(k)[:2]] for k in range(1, step + 1)]
    rows = _read(store, [added for added, _ in files], [row, born, *nothing.columns])
    removed = _read(store, [gone for _, gone in files], [row, died])
    if (rows[row].to_numpy() != np.arange(len(rows))).any():
        raise unfit()
    gone = np.full(len(rows), step + 1)
    gone[removed[row].to_numpy()] = removed[died].to_numpy()
    return History(columns_of(rows, nothing), rows[born].to_numpy().astype(np.int64), gone)


def columns_of(frame: Any, like: Table) -> dict[str, np.ndarray]:
    """The columns of a frame as those of a table."""
    return {
        name: np.array([*frame[name], None], object)[:-1]
        if values.dtype == object
        else frame[name].to_numpy()
        for name, values in like.columns.items()
    }


def _read(store: Store, names: Sequence[str], columns: list[str]) -> Any:
    """Files of the log as one frame; each is compared with its digest."""
    import polars as pl

    if not names:
        return None
    for name in names:
        store.bytes(name)
    try:
        # By whole names: "*" and "^" stand for themselves in folders and columns.
        return pl.read_parquet([store.file(name) for name in names], glob=False)[columns]
    except pl.exceptions.PanicException:
        # A crafted file may raise this, which is no Exception.
        raise unfit() from None


def whole(table: Table, types: Mapping[str, Any]) -> bytes:
    """The file of a whole table."""
    return _parquet(table, types, {named(table.columns)[0]: table.numbers})


def _parquet(table: Table | None, types: Mapping[str, Any], numbers: dict[str, Any]) -> bytes:
    import polars as pl

    frame = pl.DataFrame(numbers)
    if table is not None:
        frame = frame.hstack(Kind().frame(table, types))
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=1, statistics=False)
    return buffer.getvalue()


def _same(step: int, rows: Table | np.ndarray) -> np.ndarray:
    return np.full(len(rows), step, np.int32)
