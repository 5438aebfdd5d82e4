"""The public directory of a stream, readable without Tailrace.

    releases/README.md  guarantee.json  codebook.json  mechanism.json  calendar.json
    releases/added/000007.parquet  removed/000007.parquet  table/000064.parquet
    releases/state/000007_since.bin
    releases/log/000007.json

Files are second names of those that the stream keeps; each appears whole. A step is published when
its entry in the log is there, which comes last. Publishing again is fine; a different file in the
place of one of ours is refused.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tailrace.errors import StateError
from tailrace.privacy.guarantee import Guarantee
from tailrace.storage.durable import link, place, point, sync, write_file
from tailrace.storage.guarding import open_plain
from tailrace.storage.store import Store, understood, unfit
from tailrace.stream.log import entry_of, files_of, kept, named, states_of
from tailrace.stream.release import seconds

_SAID = {f"said/{name}.json" for name in ("guarantee", "codebook", "calendar", "mechanism")}
# The whole table now, where a stream publishes it.
LATEST = "latest.parquet"
# Bytes read at a time: a megabyte is small beside any release.
_PIECE = 1 << 20
_README = """# Synthetic data, released step by step

{sentence}

- `guarantee.json`: the promise, in numbers and in words.
- `codebook.json`: the columns and the values they can take.
- `mechanism.json`: what made it, with all settings.
- `calendar.json`, where there is one: the period that each step stands for.
- `added/`, `removed/`: the rows that each step added, and the numbers of those that it removed.
- `table/`: the whole table, at some steps.
- `state/`: the noisy measurements of each step. Tailrace answers questions from them, with \
standard errors: `tr.open_releases("releases").count()`, or `tailrace query releases "count"`.
- `log/`: for each step its files with their digests (`b2sum -l 256`), and the digest of the entry \
before it.

The table now, in DuckDB, from inside this folder:

    select * from 'added/*.parquet' where {row} not in (select {row} from 'removed/*.parquet') \
order by {row}

and in Polars:

    pl.read_parquet("added/*.parquet").join(pl.read_parquet("removed/*.parquet"), on="{row}", \
how="anti").sort("{row}")

The table as it was at step 7: the rows added with `{born} <= 7`, without those removed with \
`{died} <= 7`. `tailrace verify` on this folder checks all digests.

These are not records of people. They were made from noisy counts, and may be shared as they are.
"""


def said(
    guarantee: Guarantee,
    codebook: Mapping[str, Any],
    calendar: Mapping[str, Any] | None,
    mechanism: Mapping[str, Any],
) -> dict[str, bytes]:
    """The files that hold for all steps and are in the log."""
    promise = {"sentence": str(guarantee), **guarantee.to_dict()}
    files = {"guarantee.json": as_json(promise), "codebook.json": as_json(codebook)}
    files["mechanism.json"] = as_json(without_domain(mechanism))
    return files if calendar is None else {**files, "calendar.json": as_json(calendar)}


def without_domain(mechanism: Mapping[str, Any]) -> dict[str, Any]:
    """A mechanism in plain values but for its domain, which is the codebook."""
    return {name: value for name, value in mechanism.items() if name != "domain"}


def announce(store: Store, folder: Path, guarantee: Guarantee, columns: Any) -> None:
    """Put the files that hold for all steps in place."""
    make_folders(folder)
    for name in store.names("said"):
        # A crafted name would lead out of the folder.
        if name not in _SAID:
            raise unfit()
        _link(store, name, folder / name.removeprefix("said/"), time=None)
    row, born, died = named(columns)
    text = _README.format(sentence=guarantee, row=row, born=born, died=died)
    if not os.path.lexists(folder / "README.md"):
        write_file(partial := folder / ".README.md.partial", text.encode())
        place(partial, folder / "README.md", "README")
    sync(folder)


def make_folders(folder: Path) -> None:
    """Make the folders of a public directory, where they are not there."""
    for part in ("", "added", "removed", "table", "state", "log"):
        with contextlib.suppress(FileExistsError):
            (folder / part).mkdir()
        if not stat.S_ISDIR(os.lstat(folder / part).st_mode):
            raise StateError(
                f"releases/{part} is a link or a file, and must be a folder: move it away."
            )


def last_published(folder: Path, step: int) -> int:
    """The last step up to `step` whose entry in the log is there."""
    while step and not os.path.lexists(folder / "log" / f"{step:06d}.json"):
        step -= 1
    return step


def deliver(store: Store, folder: Path, step: int, latest: bytes | None = None) -> None:
    """Put a step's files in place, the log's entry last.

    `latest` is the content of that file, where there is to be one. Files have the published
    time: when they were really written would tell how long the step took.
    """
    with understood():
        time = seconds(entry_of(store, step)["provenance"])
    parts = ((*files_of(step), *states_of(step)), (f"log/{step:06d}.json",))
    try:
        for part in parts:
            there = [name for name in part if store.has(kept(step, name))]
            for name in there:
                _link(store, kept(step, name), folder / name, time=time)
            for place_ in {(folder / name).parent for name in there}:
                os.utime(place_, (time, time))
                sync(place_)
            if latest is not None and part is parts[0]:
                write_file(partial := folder / f".{LATEST}.partial", latest)
                os.utime(partial, (time, time))
                place(partial, folder / LATEST, "latest")
                os.utime(folder, (time, time))
    except OSError:
        raise StateError(
            f"releases/{step:06d} cannot be written: the disk is full, read-only or refuses. "
            "Nothing was lost; mend it and open the stream again."
        ) from None


def _link(store: Store, name: str, target: Path, *, time: float | None) -> None:
    """Give a kept file its public name, where it has none."""
    source = store.file(name)
    if os.path.lexists(target):
        if os.path.samestat(os.lstat(source), os.lstat(target)):
            return
        if b"".join(pieces(target.parent, target.name)) != store.bytes(name):
            raise StateError(
                f"releases/{target.parent.name}/{target.name} is another file than the one that "
                "was published: it was changed since. Move it away and open the stream again."
            )
        return
    point(f"publish {target.parent.name}, before")
    if time is not None:
        os.utime(source, (time, time), follow_symlinks=False)
    link(source, target)
    point(f"publish {target.parent.name}, after")


def pieces(folder: Path, name: str):
    """Read a published file in pieces.

    A file that is no plain file has none.
    """
    # A name may be none that a file can have.
    with (
        contextlib.suppress(OSError, ValueError),
        os.fdopen(open_plain(folder, name), "rb") as file,
    ):
        yield from iter(lambda: file.read(_PIECE), b"")


def as_json(value: Any) -> bytes:
    """JSON for readers, and for machines."""
    return (json.dumps(value, indent=2) + "\n").encode()
