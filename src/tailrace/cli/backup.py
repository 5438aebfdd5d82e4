"""`tailrace backup` and `restore`: one file, which the ledger accepts or not."""

from __future__ import annotations

from pathlib import Path

from tailrace.cli import say
from tailrace.cli.status import Place
from tailrace.config import load
from tailrace.stream.backup import back_up, restore


def write_backup(stream: Path, to: Path) -> None:
    """Back a stream and its ledger up."""
    place = Place.of(stream)
    step = back_up(place.folder, to, ledger=place.ledger.path)
    say.tell(
        f"Wrote {to} at step {step}, and the ledger to {to}.ledger. Both are PRIVATE. A stream "
        "that has gone on since cannot be restored from it: back up after every run."
    )


def put_back(backup: Path, stream: Path, ledger: Path | None) -> None:
    """Restore a stream to the place that a configuration or path names."""
    known = stream.suffix == ".toml" and stream.is_file()
    config = load(stream) if known else None
    folder = stream if config is None else config.path
    book = ledger if ledger is not None or config is None else config.ledger
    step = restore(backup, folder, ledger=book)
    say.tell(f"Restored {folder.name} at step {step}, where its ledger stands too.")
