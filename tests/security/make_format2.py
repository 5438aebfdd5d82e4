"""Makes format2.tar.gz, streams of format 2 that `tailrace migrate` must bring over.

Run with the version that is to be kept: `python make_format2.py`. Made with 0.1.0 at cf9f351.
Beside each stream lies what it released (`NAME.json`: digests of every table), as that version read
it back.
"""

import hashlib
import json
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import tailrace as tr
from tailrace.storage import durable

PURE, RHO = tr.PureDP(epsilon=1), tr.ZCDP(rho=1)
PERSON = tr.User(column="id", events=3)
WARD = tr.Schema(sex=tr.Categorical(["f", "m"]), age=tr.Real(edges=(0, 20, 60, 100)))
SQUARE = tr.Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=16)
MADE = {
    "ward": tr.HistogramStream(domain=WARD, privacy=PURE, unit=PERSON, horizon=9),
    "city": tr.SpatialStream(domain=SQUARE, privacy=PURE, unit=tr.Event(), horizon=9, deletes=True),
    "table": tr.TabularStream(domain=WARD, privacy=PURE, unit=tr.Event(), horizon=9),
    "panel": tr.PanelWindow(
        domain=tr.Schema(poor=tr.Integer(0, 1)),
        unit=tr.User(column="id"),
        window=2,
        horizon=9,
        privacy=RHO,
        neighbours=tr.AddRemove,
    ),
    "census": tr.SnapshotHistogram(
        domain=WARD, privacy=PURE, unit=tr.User(column="id", records=1), horizon=9
    ),
}


class Cut(BaseException):
    pass


def day(step: int) -> pl.DataFrame:
    """The rows of one step; every mechanism finds its columns here."""
    rng = np.random.default_rng(step)
    many = 60
    return pl.DataFrame(
        {
            "id": rng.permutation(90)[:many],
            "sex": rng.choice(["f", "m", None], many),
            "age": rng.uniform(-5, 100, many),
            "x": rng.random(many),
            "y": rng.random(many) ** 2,
            "poor": rng.integers(0, 2, many),
        }
    )


def digest(frame: pl.DataFrame) -> str:
    return hashlib.sha256(repr(frame.rows()).encode()).hexdigest()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for stream_name, mechanism in MADE.items():
            path = folder / f"{stream_name}.tail"
            stream = tr.Stream.create(
                path, mechanism, population=stream_name, noise=tr.Noise.insecure(1)
            )
            found = {}
            for step in range(1, 5):
                leaves = day(step - 1) if mechanism.deletes and step > 2 else None
                release = stream.push(day(step), deletes=leaves)
                parts = (release.table, release.changes.added, release.changes.removed)
                found[step] = [digest(part) for part in parts]
            if stream_name in ("ward", "city"):  # a step that was cut off is finished later
                durable.hook = stop
                try:
                    stream.push(day(5))
                except Cut:
                    durable.hook = None
            stream.close()
            (folder / f"{stream_name}.json").write_text(json.dumps(found))
        made = Path(__file__).with_name("format2.tar.gz")
        with tarfile.open(made, "w:gz") as archive:
            for one in sorted(folder.iterdir()):
                archive.add(one, one.name, filter=_nobody)
    print(f"{made.name}: {made.stat().st_size:,} bytes")


def stop(point: str) -> None:
    if point == "intent, after":
        raise Cut


def _nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main()
