"""`tailrace report`: a page to look at, public or private."""

from __future__ import annotations

import tempfile
from pathlib import Path

import narwhals as nw
import numpy as np
import polars as pl

from tailrace.cli import say
from tailrace.cli.status import Place
from tailrace.config import Config
from tailrace.config.opening import open_source
from tailrace.domain import Codes
from tailrace.errors import ConfigError
from tailrace.metrics import Tracks
from tailrace.report.journeys import tracks_in
from tailrace.report.page import OURS, stream_report
from tailrace.report.places import Lives, lives
from tailrace.sources import Feed, Used
from tailrace.storage.durable import place, write_file
from tailrace.storage.store import peek
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


def _truth(config: Config | None, stream: Stream) -> Lives | Tracks:
    """True points or journeys, read from the source again."""
    again = (
        "The private report reads the true data again: give it a stream.toml whose source is a "
        "folder or a table."
    )
    if config is None or not config.source.lasting:
        raise ConfigError(again)
    domain = stream.mechanism.domain
    with tempfile.TemporaryDirectory() as folder:
        source = open_source(config, remembered=Used(Path(folder) / "files.json"))
        # When its rows were read is not known any more, and that decided their steps.
        if isinstance(source, Feed):
            raise ConfigError(again)
        if hasattr(stream.mechanism, "trajectory"):
            return tracks_in(_inside(source.batch(1).adds, domain), stream.mechanism)
        batches = map(source.batch, range(1, stream.step + 1))
        return lives((_points(one.adds, domain), _points(one.deletes, domain)) for one in batches)


def _points(frame: pl.DataFrame | None, domain: Codes) -> np.ndarray:
    if frame is None:
        return np.zeros((0, len(domain.columns)))
    return _inside(frame, domain)[list(domain.columns)].to_numpy()


def _inside(frame: pl.DataFrame, domain: Codes) -> pl.DataFrame:
    """The rows that the domain counts."""
    columns = nw.from_native(frame[list(domain.columns)], eager_only=True)
    return frame.filter(domain.cells(columns) >= 0)
