"""The public directory of a stream, readable without Tailrace.

    releases/README.md  guarantee.json  codebook.json  calendar.json
    releases/000007/table.parquet  added.parquet  removed.parquet  provenance.json

A step's folder appears whole or not at all. Delivering it again is fine; delivering a different one
is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tailrace.errors import StateError
from tailrace.privacy.guarantee import Guarantee
from tailrace.storage.durable import write_file, write_folder
from tailrace.storage.guarding import open_plain

# Bytes read at a time: a megabyte is small beside any release.
_PIECE = 1 << 20
_README = """# Synthetic data, released step by step

{sentence}

- `guarantee.json`: the promise, in numbers and in words.
- `codebook.json`: the columns and the values they can take.
- `calendar.json`, where there is one: the period that each step stands for.
- `000001/`, `000002/`, ...: one folder a step. `table.parquet` is the synthetic data \
at that step; `removed.parquet` and
  `added.parquet` make it of the table before: take the removed rows away and append the added ones.

These are not records of people. They were made from noisy counts, and may be shared as they are.
"""


def announce(
    folder: Path,
    guarantee: Guarantee,
    codebook: Mapping[str, Any],
    calendar: Mapping[str, Any] | None = None,
) -> None:
    """Write the files that hold for all steps, once."""
    folder.mkdir(exist_ok=True)
    promise = {"sentence": str(guarantee), **guarantee.to_dict()}
    said = {"guarantee.json": _json(promise), "codebook.json": _json(codebook)}
    if calendar is not None:
        said["calendar.json"] = _json(calendar)
    for name, data in {**said, "README.md": _README.format(sentence=guarantee).encode()}.items():
        if not os.path.lexists(folder / name):
            write_file(folder / name, data)


def holds(
    folder: Path, step: int, files: Mapping[str, str], fits: Callable[[str, Iterable[bytes]], bool]
) -> bool:
    """Whether a step's files fit the store, by digests."""
    return all(fits(value, _pieces(folder / f"{step:06d}", file)) for file, value in files.items())


def deliver(folder: Path, step: int, files: Mapping[str, bytes], *, time: float) -> None:
    """Put a step's files in place, once.

    They are dated `time`, in seconds since 1970.
    """
    target = folder / f"{step:06d}"
    if os.path.lexists(target):
        if all(b"".join(_pieces(target, file)) == data for file, data in files.items()):
            return
        raise StateError(
            f"releases/{target.name} holds a different release of this step: it was changed after "
            "it was published. Move it away and open the stream again."
        )
    folder.mkdir(exist_ok=True)
    write_folder(target, files, "release", time=time)


def _pieces(folder: Path, name: str) -> Iterator[bytes]:
    """Read a published file in pieces.

    A file that is no plain file has none.
    """
    try:
        with os.fdopen(open_plain(folder, name), "rb") as file:
            yield from iter(lambda: file.read(_PIECE), b"")
    except OSError:
        return


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
