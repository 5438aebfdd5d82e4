"""Check what a stream has published, and what it keeps."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tailrace.counting.memory import check as check_segment
from tailrace.errors import Corrupt, StateError
from tailrace.storage.store import Store
from tailrace.stream.log import digest_of, files_of
from tailrace.stream.published import deliver, make_folders, pieces


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
        if (found.steps, found.entry) != (standing["step"], standing["log"]["entry"]):
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
    many = last_step(folder)
    before, born, living, files = "", 0, 0, 0
    base: int | None = None
    for step in range(1, many + 1):
        entry, data = _entry(folder, step)
        fits = (entry["step"], entry["before"]) == (step, before)
        if not fits:
            raise _broken(f"log/{step:06d}.json", "does not follow the entry before it")
        for name, told in entry["files"].items():
            _check_file(folder, name, told)
        numbers, gone = (_numbers(folder, name) for name in files_of(step)[:2])
        if not np.array_equal(numbers, np.arange(born, entry["born"])):
            raise _broken(files_of(step)[0], "does not number the rows by birth")
        living += len(numbers) - len(gone)
        if living != entry["rows"]:
            raise _broken(f"log/{step:06d}.json", "counts other rows than were added and removed")
        if files_of(step)[2] in entry["files"]:
            _check_table(folder, base, step)
            base = step
        if entry["from"] != base:
            raise _broken(f"log/{step:06d}.json", "names another checkpoint than the last one")
        before, born, files = digest_of(data), entry["born"], files + len(entry["files"]) + 1
    if many:
        _table(folder, base, many, expected=living)
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
                part == os.path.normpath(part) and not part.startswith(("/", ".")) for part in files
            )
        )
        if entry["from"] is not None and not isinstance(entry["from"], int):
            sound = False
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        sound, entry = False, None
    if not sound:
        raise _broken(name, "is missing or cannot be read")
    return entry, data


def _check_file(folder: Path, name: str, told: Any) -> None:
    path = folder / name
    if digest_of(*pieces(path.parent, path.name)) != told["blake2b"]:
        raise _broken(name, "is missing or is not the file that was published")


def _numbers(folder: Path, name: str) -> np.ndarray:
    """The first column of a file: the numbers of its rows."""
    frame = _read([folder / name])
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
    rows = pl.concat(parts)
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
        return pl.read_parquet(paths)
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
