"""`tailrace report`: a page to look at."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import typer

from tailrace.cli.standing import Place
from tailrace.config.models import Config
from tailrace.create import ledger_of
from tailrace.durable import place, write_file
from tailrace.edges import open_source
from tailrace.errors import ConfigError
from tailrace.report.lives import Lives, lives
from tailrace.report.stream import stream_report
from tailrace.sources import Used
from tailrace.stream import Stream


def write_report(path: Path, to: Path | None, *, private: bool) -> None:
    """The public report of a stream, or the curator's, which shows the true data beside."""
    where = Place.of(path)
    ledger = where.config.ledger if where.config else None
    with Stream.open(where.folder, ledger=ledger) as stream:
        entries = ledger_of(where.folder, ledger).entries()
        truth = _truth(where.config, stream) if private else None
        html = stream_report(stream, entries, truth)
    target = to or (where.folder / "private" / "PRIVATE-report.html" if private else Path("report.html"))
    partial = target.with_name(f".{target.name}.partial")
    write_file(partial, html.encode(), private=private)
    place(partial, target, "report")
    typer.echo(f"Wrote {'the PRIVATE report' if private else 'the report'} to {target}.")


def _truth(config: Config | None, stream: Stream) -> Lives:
    """The true points, read from the source again, with nothing noted."""
    if config is None or config.source.kind == "Lines":
        raise ConfigError(
            "The private report reads the true data again: give it a stream.toml whose source is a folder or a table."
        )
    columns = list(stream.mechanism.domain.columns)
    with tempfile.TemporaryDirectory() as folder:
        source = open_source(config, remembered=Used(Path(folder) / "files.json"))
        changes = []
        for step in range(1, stream.step + 1):
            batch = source.batch(step)
            frames = (batch.adds, batch.deletes)
            none = np.zeros((0, len(columns)))
            changes.append(tuple(none if f is None else f.select(columns).drop_nulls().to_numpy() for f in frames))
    return lives(changes)
