"""`tailrace migrate`: bring a stream over to today's format."""

from __future__ import annotations

from pathlib import Path

from tailrace.cli import say
from tailrace.cli.status import Place
from tailrace.stream.migrate import migrate
from tailrace.stream.stream import Stream


def migrate_stream(path: Path) -> None:
    """Bring a stream of an earlier version over, and publish its log."""
    where = Place.of(path)
    steps = migrate(where.folder)
    ledger = None if where.config is None else where.config.ledger
    Stream.open(where.folder, ledger=ledger).close()
    say.tell(
        f"{where.folder.name} is brought over with its {steps} steps; promise and ledger are as "
        "they were. The folders of steps in releases/ are the former layout: nothing reads them "
        "any more, remove them when your readers use the new one (releases/README.md)."
    )
