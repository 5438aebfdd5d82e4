"""`tailrace export`: the synthetic table of one step, or its measurements."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.ask import Releases, open_releases
from tailrace.cli import say
from tailrace.cli.status import Place
from tailrace.errors import ConfigError, StateError
from tailrace.sinks.folders import csv_of
from tailrace.sinks.places import geojson, geoparquet
from tailrace.stream.verify import last_step, public_table

if TYPE_CHECKING:
    import polars as pl


def export_table(
    path: Path, to: Path, step: int | None, *, formulas: bool, measurements: bool
) -> None:
    """Write the published table of one step as a file."""
    folder = Place.of(path).folder / "releases"
    last = last_step(folder)
    wanted = last if step is None else step
    if not 1 <= wanted <= last:
        raise StateError(f"There is no release of step {wanted}: the last one is {last}.")
    if measurements:
        data = _measured(open_releases(folder), to, wanted)
    else:
        data = _written(folder, to, public_table(folder, wanted), formulas=formulas)
    say.write_new(to, data)
    what = "measurements" if measurements else "table"
    say.tell(f"Wrote the {what} of step {wanted} to {to}.")


def _written(folder: Path, to: Path, frame: pl.DataFrame, *, formulas: bool) -> bytes:
    ending = to.suffix.lower()
    if ending == ".csv":
        return csv_of(frame, formulas=formulas)
    if ending == ".parquet":
        return _parquet(frame)
    if ending in (".geojson", ".geoparquet"):
        write = geojson if ending == ".geojson" else geoparquet
        return write(frame, open_releases(folder).domain)
    raise ConfigError(f"{to} must end in .csv, .parquet, .geojson or .geoparquet.")


def _measured(releases: Releases, to: Path, step: int) -> bytes:
    """The noisy measurements; lists of names and values are joined in a CSV file."""
    import polars as pl

    frame = releases.measurements(step)
    if to.suffix.lower() == ".csv":
        return csv_of(frame.with_columns(pl.col("what", "cells").list.join("; ")))
    if to.suffix.lower() == ".parquet":
        return _parquet(frame)
    raise ConfigError(f"{to} must end in .csv or .parquet: measurements are no points.")


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()
