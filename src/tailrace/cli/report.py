"""`tailrace report`: a page to look at, public or private."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tailrace.cli import say
from tailrace.cli.status import Place
from tailrace.config import Config
from tailrace.config.opening import open_source
from tailrace.errors import ConfigError
from tailrace.report.page import OURS, stream_report
from tailrace.report.truth import true_history
from tailrace.sources import Feed, Used
from tailrace.storage.durable import place, write_file
from tailrace.storage.store import peek
from tailrace.stream.log import History
from tailrace.stream.stream import Stream


def write_report(path: Path, to: Path | None, *, private: bool) -> None:
    """Write a stream's public report, or the curator's private one."""
    where = Place.of(path)
    if private and to is not None:
        stays = "The private report stays in the stream's private folder: leave --to out."
        raise ConfigError(stays)
    hidden = where.folder / "private" / "PRIVATE-report.html"
    target = hidden if private else to or Path("report.html")
    ours = target.is_file() and OURS.encode() in target.read_bytes()[:1000]
    if target.exists() and not ours:
        raise ConfigError(
            f"{target} is there already, and is no report: choose another name with --to."
        )
    (about,) = peek(where.folder / "private", "about")
    with Stream.open(where.folder, ledger=where.config and where.config.ledger) as stream:
        entries = [entry for entry in where.ledger.entries() if entry.id == about["entry"]]
        truth = _truth(where.config, stream) if private else None
        html = stream_report(stream, entries, truth)
    partial = target.with_name(f".{target.name}.partial")
    write_file(partial, html.encode(), private=private)
    place(partial, target, "report")
    say.tell(f"Wrote {'the PRIVATE report' if private else 'the report'} to {target}.")


def _truth(config: Config | None, stream: Stream) -> History:
    """True rows, read from the source again."""
    again = (
        "The private report reads the true data again: give it a stream.toml whose source is a "
        "folder or a table."
    )
    if config is None or not config.source.lasting:
        raise ConfigError(again)
    with tempfile.TemporaryDirectory() as folder:
        source = open_source(config, remembered=Used(Path(folder) / "files.json"))
        # When its rows were read is not known any more, and that decided their steps.
        if isinstance(source, Feed):
            raise ConfigError(again)
        batches = map(source.batch, range(1, stream.step + 1))
        return true_history(((one.adds, one.deletes) for one in batches), stream.mechanism)
