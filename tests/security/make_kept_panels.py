"""Makes kept_panels.tar.gz: `python make_kept_panels.py`, with the version that is to be kept.

Made with 0.1.0 at e6b96df: panels of before `Missing.Absent`, `complete` and `value`, three steps in.
Beside each stands what that version then released at steps 4 to 6.
"""

import hashlib
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from keeping import keep

import tailrace as tr

ROOM = {
    "domain": tr.Schema(poor=tr.Integer(0, 1)),
    "unit": tr.User(column="id"),
    "horizon": 6,
    "privacy": tr.ZCDP(rho="1/2"),
}
PANELS = {
    "window": lambda: tr.PanelWindow(window=2, neighbours=tr.AddRemove, **ROOM),
    "cumulative": lambda: tr.PanelCumulative(neighbours=tr.Null, people=80, **ROOM),
}


def month(step: int) -> pl.DataFrame:
    """Who reports at a step: most of 80 people."""
    rng = np.random.default_rng(step)
    ids = np.flatnonzero(rng.random(80) < 0.9)
    return pl.DataFrame({"id": ids, "poor": (ids + step) % 3 // 2})


def released(stream: tr.Stream) -> list[str]:
    """Digests of the tables of steps 4 to 6."""
    tables = [stream.push(month(step)).table for step in range(4, 7)]
    return [hashlib.sha256(repr(table.rows()).encode()).hexdigest() for table in tables]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, later = Path(name) / "kept", Path(name) / "later"
        folder.mkdir()
        for panel, make in PANELS.items():
            noise = tr.Noise.insecure(7)
            path = folder / f"{panel}.tail"
            with tr.Stream.create(path, make(), population="p", noise=noise) as stream:
                for step in range(1, 4):
                    stream.push(month(step))
        shutil.copytree(folder, later, copy_function=shutil.copy2)
        for panel in PANELS:
            with tr.Stream.open(later / f"{panel}.tail") as stream:
                found = json.dumps(released(stream))
            (folder / f"{panel}.json").write_text(found)
        keep(folder, "kept_panels.tar.gz")


if __name__ == "__main__":
    main()
