"""`tailrace export`: the synthetic table of one step."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl

from tailrace.cli import say
from tailrace.cli.status import Place
from tailrace.errors import ConfigError, Corrupt, StateError
from tailrace.sinks.folders import csv_of


def export_table(path: Path, to: Path, step: int | None, *, formulas: bool) -> None:
    """Write the published table of one step as a file."""
    releases = Place.of(path).folder / "releases"
    held = {int(one.name) for one in releases.iterdir() if one.name.isdigit()}
    last = max(held, default=0)
    wanted = last if step is None else step
    if wanted not in held:
        raise StateError(f"There is no release of step {wanted}: the last one is {last}.")
    table, buffer = releases / f"{wanted:06d}" / "table.parquet", io.BytesIO()
    try:
        frame = pl.read_parquet(table)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise Corrupt(
            f"releases/{table.parent.name}/{table.name} is damaged: move its folder away, and "
            f"tailrace run writes it again."
        ) from None
    if to.suffix.lower() == ".csv":
        buffer.write(csv_of(frame, formulas=formulas))
    elif to.suffix.lower() == ".parquet":
        frame.write_parquet(buffer)
    else:
        raise ConfigError(f"{to} must end in .csv or .parquet.")
    say.write_new(to, buffer.getvalue())
    say.tell(f"Wrote the table of step {wanted} to {to}.")
