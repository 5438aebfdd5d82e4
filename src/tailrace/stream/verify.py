"""Check what a stream has published, and what it keeps."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tailrace.counting.memory import check as check_segment
from tailrace.errors import Corrupt, StateError
from tailrace.storage.store import Store
from tailrace.stream.log import digest_of, files_of
from tailrace.stream.published import LATEST, deliver, make_folders, pieces

_OR_NOW = ", or a step is being published right now"


@dataclass(frozen=True)
class Verified:
    """What was checked: steps, files, and values kept in private."""

    steps: int
    files: int
    rows: int
    entry: str  # the digest of the last entry
    values: int | None = None


def verify_stream(folder: Path) -> Verified:
    """Check all that a stream keeps and has published.

    What is missing among its releases is published again.
    """
    store = Store(folder / "private")
    try:
        values, standing = store.check(), store.json("standing")
        if standing["segment"] is not None:
            check_segment(store.folder / "memory" / standing["segment"])
        make_folders(folder / "releases")
        for step in range(1, standing["step"] + 1):
            deliver(store, folder / "releases", step)
        found = verify_public(folder / "releases")
        if (found.steps, found.entry) != (standing["step"], standing["log"].get("entry")):
            raise Corrupt(
                f"releases/log ends at step {found.steps} or holds another entry than the stream, "
                f"which stands at step {standing['step']}: open the stream to publish what is "
                "missing, and move away what was changed."
            )
    finally:
        store.close()
    return Verified(found.steps, found.files, found.rows, found.entry, values)


def verify_public(folder: Path) -> Verified:
    """Check a public folder by itself: chain, digests, and rows."""
    there, many = _tables(folder), last_step(folder)
    before, born, living, files = "", 0, 0, 0
    base: int | None = None
    listed: set[str] = set()
    for step in range(1, many + 1):
        entry, data = _entry(folder, step)
        fits = (entry["step"], entry["before"]) == (step, before)
        if not fits:
            raise _broken(f"log/{step:06d}.json", "does not follow the entry before it")
        for name, told in entry["files"].items():
            _check_file(folder, name, told)
        listed |= set(entry["files"])
        numbers, gone = (_numbers(folder, name, step) for name in files_of(step)[:2])
        # By length first: an entry may tell of any number.
        if (
            len(numbers) != entry["born"] - born
            or (numbers != born + np.arange(len(numbers))).any()
        ):
            raise _broken(files_of(step)[0], "does not number the rows by birth")
        if (gone >= entry["born"]).any():
            raise _broken(files_of(step)[1], "removes rows that were not born yet")
        living += len(numbers) - len(gone)
        if living != entry["rows"]:
            raise _broken(f"log/{step:06d}.json", "counts other rows than were added and removed")
        if files_of(step)[2] in entry["files"]:
            _check_table(folder, base, step)
            base = step
        if entry["from"] != base:
            raise _broken(f"log/{step:06d}.json", "names another checkpoint than the last one")
        before, born, files = digest_of(data), entry["born"], files + len(entry["files"]) + 1
    last = _table(folder, base, many, expected=living) if many else None
    # Steps that were published meanwhile are left to the next time.
    now = last_step(folder)
    listed.update(*(files_of(step) for step in range(many + 1, now + 1)))
    if more := sorted(there - listed):
        raise _broken(more[0], f"is in no entry of the log{_OR_NOW}")
    if last is not None and now == many:
        _check_latest(folder, last)
    return Verified(many, files, living, before)


def last_step(folder: Path) -> int:
    """The last step that is published in a folder."""
    try:
        return sum(name.endswith(".json") for name in os.listdir(folder / "log"))
    except OSError:
        raise StateError(
            f"{folder.name} has no log of releases: name a stream, or the folder with its releases."
        ) from None


def _entry(folder: Path, step: int) -> tuple[Any, bytes]:
    name = f"log/{step:06d}.json"
    data = b"".join(pieces(folder / "log", f"{step:06d}.json"))
    try:
        entry = json.loads(data)
        files = entry["files"]
        sound = (
            all(isinstance(entry[key], int) for key in ("step", "rows", "born"))
            and isinstance(entry["before"], str)
            and all(isinstance(told["blake2b"], str) for told in files.values())
            and entry["rows"] >= 0
            and all(part in files for part in files_of(step)[:2])
            # A name never leads out of the folder.
            and all(
                re.fullmatch(r"(\w+/)?\w+\.(json|parquet|bin)", part, re.ASCII) for part in files
            )
            and (entry["from"] is None or entry["from"] in range(1, step + 1))
            and not isinstance(entry["from"], float)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        sound, entry = False, None
    if not sound:
        raise _broken(name, "is missing or cannot be read")
    return entry, data


def _check_file(folder: Path, name: str, told: Any) -> None:
    path = folder / name
    found = digest_of(*pieces(path.parent, path.name))
    # No published file is empty: that is the digest of a missing one.
    if found != told["blake2b"] or found == digest_of():
        raise _broken(name, "is missing or is not the file that was published")


def _tables(folder: Path) -> set[str]:
    """All tables that are there: readers take them, listed or not."""
    parts = (folder / part for part in ("added", "removed", "table"))
    names = (f"{part.name}/{name}" for part in parts if part.is_dir() for name in os.listdir(part))
    return {name for name in names if name.endswith(".parquet")}


def _check_latest(folder: Path, table: Any) -> None:
    """Compare the whole table now, where it is published."""
    if not os.path.lexists(folder / LATEST):
        return
    plain = any(pieces(folder, LATEST))
    if not plain or not table.equals(_read([folder / LATEST]), null_equal=True):
        raise _broken(LATEST, f"is not the table of the last step{_OR_NOW}")


def _numbers(folder: Path, name: str, step: int) -> np.ndarray:
    """The numbers of a file's rows, which all name its step."""
    frame = _read([folder / name])
    if frame.width < 2 or (frame.to_series(1).to_numpy() != step).any():
        raise _broken(name, "is not of its step")
    return frame.to_series(0).to_numpy()


def _check_table(folder: Path, base: int | None, step: int) -> None:
    name = files_of(step)[2]
    told = _read([folder / name])
    if not _table(folder, base, step).equals(told, null_equal=True):
        raise _broken(name, "is not the table that the log makes")


def _table(folder: Path, base: int | None, step: int, *, expected: int | None = None) -> Any:
    """The table of a step, from a checkpoint and the log."""
    import polars as pl

    steps = range((base or 0) + 1, step + 1)
    parts = [_read([folder / files_of(base)[2]])] if base else []
    added = _read([folder / files_of(k)[0] for k in steps])
    if added is not None:
        parts.append(added.drop(added.columns[1]))
    gone = _read([folder / files_of(k)[1] for k in steps])
    try:
        rows = pl.concat(parts)
    except pl.exceptions.PolarsError:
        raise _broken(files_of(step)[0], "or one before has other columns") from None
    if gone is not None:
        dead = np.isin(rows.to_series(0).to_numpy(), gone.to_series(0).to_numpy())
        if dead.sum() != len(gone):
            raise _broken(files_of(step)[1], "or one before removes rows that are not there")
        rows = rows.filter(~dead)
    if expected is not None and len(rows) != expected:
        raise _broken(f"log/{step:06d}.json", "counts other rows than the log makes")
    return rows


def _read(paths: list[Path]) -> Any:
    import polars as pl

    if not paths:
        return None
    try:
        frame = pl.read_parquet(paths, glob=False)
        if frame.width and frame.dtypes[0] == pl.Int64:
            return frame
        raise pl.exceptions.SchemaError
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise _broken(paths[-1].name, "or one before it is no Parquet file of ours") from None


def public_table(folder: Path, step: int) -> Any:
    """The table of a step with public files alone."""
    entry, _ = _entry(folder, step)
    rows = _table(folder, entry["from"], step)
    return rows.drop(rows.columns[0])


def _broken(name: str, why: str) -> Corrupt:
    return Corrupt(
        f"releases/{name} {why}: take it from a copy of the releases, or open the stream, which "
        "publishes again what is missing."
    )
