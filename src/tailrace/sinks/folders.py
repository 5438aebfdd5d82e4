"""Folders of files that anything can read.

    README.md  guarantee.json
    000007/table.parquet  added.parquet  removed.parquet  release.json      (or .csv)

A step's folder appears whole or not at all.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.calls import told
from tailrace.errors import StateError
from tailrace.sinks.base import check_same, digest
from tailrace.storage.durable import place, where, write_file, write_folder
from tailrace.storage.guarding import open_plain
from tailrace.stream.directory import PathLike
from tailrace.stream.release import Kind, Release, seconds

if TYPE_CHECKING:
    import polars as pl

_FORMULA = r"^([=+\-@\t\r\n])"  # how a text begins that a spreadsheet takes for a formula
_MARKED = "a text that begins with = + - @ has a ' in front, so that no spreadsheet runs it"
_README = """# Synthetic data, released step by step

{sentence}

- `guarantee.json`: the promise, in numbers and in words.
- `000001/`, `000002/`, ...: one folder a step. `table.{ending}` is the synthetic data \
at that step; `removed.{ending}` and
  `added.{ending}` make it of the table before: take the removed rows away and append the \
added ones. `release.json` says
  which step it is, what is promised and what made it.
- A missing value is {missing}.

These are not records of people. They were made from noisy counts, and may be shared as they are.
"""


@told
@dataclass(frozen=True, init=False)
class ParquetFolder:
    """One folder a step, with Parquet files."""

    path: Path = field(metadata={"example": '"public"'})

    def __init__(self, path: PathLike) -> None:
        object.__setattr__(self, "path", where(path))

    def holds(self) -> set[int]:
        return _steps(self.path)

    def put(self, release: Release) -> None:
        _put(self.path, release, "parquet", _parquet, "null, or NaN in a column of fractions")


@told
@dataclass(frozen=True, init=False)
class CsvFolder:
    """One folder a step, with CSV files.

    A missing value is an empty cell, and every number is read back exactly.

    A spreadsheet runs a text that begins like a formula, so such a text gets a ' in front;
    `formulas=True` leaves it as it is.
    """

    path: Path = field(metadata={"example": '"public"'})
    formulas: bool = False

    def __init__(self, path: PathLike, *, formulas: bool = False) -> None:
        object.__setattr__(self, "path", where(path))
        object.__setattr__(self, "formulas", formulas)

    def holds(self) -> set[int]:
        return _steps(self.path)

    def put(self, release: Release) -> None:
        write = functools.partial(csv_of, formulas=self.formulas)
        missing = "an empty cell" if self.formulas else f"an empty cell; {_MARKED}"
        _put(self.path, release, "csv", write, missing)


def _steps(folder: Path) -> set[int]:
    try:
        found = [entry for entry in folder.iterdir() if re.fullmatch(r"[0-9]{6,}", entry.name)]
    except FileNotFoundError:
        return set()
    except OSError:
        raise StateError(
            f"{folder.name} cannot be read: it is not a folder, or is not allowed."
        ) from None
    return {int(entry.name) for entry in found if (entry / "release.json").is_file()}


Write = Callable[["pl.DataFrame"], bytes]


def _put(folder: Path, release: Release, ending: str, write: Write, missing: str) -> None:
    target = folder / f"{release.step:06d}"
    if os.path.lexists(target):
        return check_same(release, _held(target), f"{folder.name}/{target.name}")
    promise = {"sentence": str(release.guarantee), **release.guarantee.to_dict()}
    about = {"step": release.step, "digest": digest(release)}
    about |= {"guarantee": promise, "provenance": release.provenance}
    tables = {"table": release.rows, "added": release.added, "removed": release.removed}
    files = {
        f"{name}.{ending}": write(Kind().frame(table, release.types))
        for name, table in tables.items()
    }
    readme = _README.format(sentence=release.guarantee, ending=ending, missing=missing)
    _announce(folder, {"README.md": readme.encode(), "guarantee.json": _json(promise)})
    made = {**files, "release.json": _json(about)}
    return write_folder(target, made, "sink", time=seconds(release.provenance))


def _announce(folder: Path, files: dict[str, bytes]) -> None:
    """What holds for all steps, where it is not there yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        missing = {name: data for name, data in files.items() if not (folder / name).exists()}
        for name, data in missing.items():
            write_file(folder / f".{name}.partial", data)
    except OSError:
        raise StateError(
            f"{folder.name} cannot be written: it is not a folder, or the disk is full or refuses."
        ) from None
    for name in missing:
        place(folder / f".{name}.partial", folder / name, f"sink's {name}")


def _held(target: Path) -> object:
    """The digest of the release in a folder; None where it is not one of ours."""
    try:
        with os.fdopen(open_plain(target, "release.json"), "rb") as file:
            return json.loads(file.read())["digest"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="lz4", statistics=False)
    return buffer.getvalue()


def csv_of(frame: pl.DataFrame, *, formulas: bool = False) -> bytes:
    """A table as CSV.

    A text or name that a spreadsheet would run gets a ' in front, unless `formulas` may stay.
    """
    import polars as pl

    names, buffer = frame.columns, io.StringIO()
    if not formulas:
        frame = frame.with_columns(pl.col(pl.String).str.replace(_FORMULA, "'${1}"))
        names = [re.sub(_FORMULA, r"'\1", name) for name in names]
    # In a table of one column a missing value would be an empty line, which readers skip.
    alone = frame.width == 1
    quoting = csv.QUOTE_ALL if alone else csv.QUOTE_MINIMAL
    csv.writer(buffer, lineterminator="\n", quoting=quoting).writerow(names)
    style = "always" if alone else "necessary"
    frame.fill_nan(None).write_csv(buffer, include_header=False, quote_style=style)
    return buffer.getvalue().encode()


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
