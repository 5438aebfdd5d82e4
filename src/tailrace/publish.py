"""The public directory of a stream: Parquet, JSON and a README, readable without Tailrace.

    releases/README.md  guarantee.json  codebook.json  calendar.json
    releases/000007/table.parquet  added.parquet  removed.parquet  provenance.json

A step's folder appears whole or not at all. Delivering it again is fine; delivering a different one is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tailrace.durable import write_file, write_folder
from tailrace.errors import StateError
from tailrace.guarantee import Guarantee

_README = """# Synthetic data, released step by step

{sentence}

- `guarantee.json`: the promise, in numbers and in words.
- `codebook.json`: the columns and the values they can take.
- `calendar.json`, where there is one: the period that each step stands for.
- `000001/`, `000002/`, ...: one folder a step. `table.parquet` is the synthetic data at that step; `removed.parquet` and
  `added.parquet` make it of the table before: take the removed rows away and append the added ones.

These are not records of people. They were made from noisy counts, and may be shared as they are.
"""


def announce(
    folder: Path, guarantee: Guarantee, codebook: Mapping[str, Any], calendar: Mapping[str, Any] | None = None
) -> None:
    """What holds for all steps, in a public directory; what is there already is left as it is."""
    folder.mkdir(exist_ok=True)
    promise = {"sentence": str(guarantee), **guarantee.to_dict()}
    said = {"guarantee.json": _json(promise), "codebook.json": _json(codebook)}
    if calendar is not None:
        said["calendar.json"] = _json(calendar)
    for name, data in {**said, "README.md": _README.format(sentence=guarantee).encode()}.items():
        if not (folder / name).is_file():
            write_file(folder / name, data)


def holds(folder: Path, step: int, sizes: Mapping[str, int]) -> bool:
    """Whether the folder of a step has the files of these lengths."""
    target = folder / f"{step:06d}"
    return all((target / name).is_file() and (target / name).stat().st_size == size for name, size in sizes.items())


def deliver(folder: Path, step: int, files: Mapping[str, bytes]) -> None:
    """Put a step's files in place, once."""
    target = folder / f"{step:06d}"
    if target.is_dir():
        for name, data in files.items():
            if not (target / name).is_file() or (target / name).read_bytes() != data:
                raise StateError(
                    f"releases/{target.name} holds a different release of this step: it was changed after it was published. "
                    "Move it away and open the stream again."
                )
        return
    folder.mkdir(exist_ok=True)
    write_folder(target, files, "release")


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
