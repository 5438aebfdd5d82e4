"""`tailrace export`: the synthetic table of one step."""

from __future__ import annotations

import io
from pathlib import Path

from tailrace.cli import say
from tailrace.cli.status import Place
from tailrace.errors import ConfigError, StateError
from tailrace.sinks.folders import csv_of
from tailrace.stream.verify import last_step, public_table


def export_table(path: Path, to: Path, step: int | None, *, formulas: bool) -> None:
    """Write the published table of one step as a file."""
    releases, buffer = Place.of(path).folder / "releases", io.BytesIO()
    last = last_step(releases)
    wanted = last if step is None else step
    if not 1 <= wanted <= last:
        raise StateError(f"There is no release of step {wanted}: the last one is {last}.")
    frame = public_table(releases, wanted)
    if to.suffix.lower() == ".csv":
        buffer.write(csv_of(frame, formulas=formulas))
    elif to.suffix.lower() == ".parquet":
        frame.write_parquet(buffer)
    else:
        raise ConfigError(f"{to} must end in .csv or .parquet.")
    say.write_new(to, buffer.getvalue())
    say.tell(f"Wrote the table of step {wanted} to {to}.")
