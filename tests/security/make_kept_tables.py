"""Makes kept_tables.tar.gz, tabular streams that later versions must open: `python
make_kept_tables.py`, with the version that is to be kept.

Made with 0.1.0 at e6b96df: epochs of one stretch, workloads of equal budgets.
"""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from keeping import keep

from tailrace import ApproxDP, Event, Integer, PureDP, Schema, Stream, TabularStream

TABLE = Schema(**{name: Integer(0, 3) for name in "abcd"})


def batch(step: int) -> pl.DataFrame:
    rng = np.random.default_rng(step)
    first = rng.integers(0, 4, 400)
    others = {name: (first + rng.integers(0, 2, 400)) % 4 for name in "bcd"}
    return pl.DataFrame({"a": first, **others})


def main() -> None:
    losses = {"pure": PureDP(epsilon=2), "approximate": ApproxDP(epsilon=2, delta=1e-6)}
    with tempfile.TemporaryDirectory() as name:
        for loss, privacy in losses.items():
            table = TabularStream(domain=TABLE, privacy=privacy, unit=Event(), horizon=12)
            path = Path(name, f"{loss}.tail")
            with Stream.create(path, table, population="people") as stream:
                for step in range(5):
                    stream.push(batch(step))
        keep(Path(name), "kept_tables.tar.gz")


if __name__ == "__main__":
    main()
