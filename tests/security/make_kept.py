"""Makes kept.tar.gz, the streams that later versions must open: `python make_kept.py`, with the
version that is to be kept.

Made with 0.1.0 at 25baf71: ledgers with a write-ahead log, intents without a time. kept3.tar.gz was
made at e6b96df: format 3, which published no states.
"""

import tempfile
from pathlib import Path

import polars as pl
from keeping import keep

from tailrace import Categorical, HistogramStream, PureDP, Schema, Stream, User
from tailrace.storage import durable

DAY = pl.DataFrame({"id": [1, 2, 3], "sex": ["f", "m", "f"]})


class Cut(BaseException):
    pass


def main() -> None:
    person = User(column="id", events=3)
    ward = HistogramStream(
        domain=Schema(sex=Categorical(["f", "m"])),
        privacy=PureDP(epsilon=1),
        unit=person,
        horizon=9,
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Stream.create(folder / "ward.tail", ward, population="ward") as stream:
            stream.push(DAY)
            stream.push(DAY)
        stream = Stream.create(folder / "cut.tail", ward, population="ward")
        stream.push(DAY)

        def stop(point: str) -> None:
            if point == "intent, after":
                raise Cut

        durable.hook = stop
        try:
            stream.push(DAY)
        except Cut:
            durable.hook = None
        stream.close()
        Stream.fork(folder / "ward.tail", folder / "fork.tail").close()
        keep(folder, "kept.tar.gz")


if __name__ == "__main__":
    main()
