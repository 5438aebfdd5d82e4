"""Tailrace on Spark: the same releases, what they cost, and what the driver holds.

`same` compares releases with those of one machine, for mechanisms and units, on 1 to 16 partitions,
with one person who has half of the rows. `cost` compares the processor time of a stream's counting
(`add`, and the bounding of people) with a plain groupBy(cell).count() over the same frames, made by Spark from numbers; time is
that of all processes below this one, executors and their Python workers too, after one round
to compile. Publishing (noise, and the synthetic rows, on the driver) is measured apart, and so is
the peak of the driver's Python process. Masters: local[1], local[2], or local-cluster[2,1,1024],
which starts workers as processes.

Kills are apart: `python tests/e2e/killing_spark.py 50`.
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import tailrace.stream.step as step_module
from runner import alone, main, measurement
from tailrace import (
    ZCDP,
    AddRemove,
    Box,
    Categorical,
    Event,
    HistogramStream,
    Integer,
    Missing,
    Noise,
    PanelColumns,
    PanelCumulative,
    PanelWindow,
    PureDP,
    Schema,
    SnapshotHistogram,
    SpatialStream,
    Stream,
    TabularStream,
    Trajectories,
    User,
    Window,
)

SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=1024)
SMALL = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=64)
STATUS = Schema(status=Integer(0, 1, outside="clip"))
WARD = Schema(sex=Categorical(["f", "m"]), age=Integer(0, 9, outside="clip"))


def session(master: str):
    """A small Spark, whose executors run this Python."""
    import pyspark
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    if master.startswith("local-cluster"):
        # Its workers are started from there.
        os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    options: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": "4",
        "spark.log.level": "ERROR",
    }
    return SparkSession.builder.master(master).config(map=options).getOrCreate()


def processor() -> float:
    """Seconds of processor time of this process and all below it."""
    total, left = 0, [os.getpid()]
    while left:
        pid = left.pop()
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                left += map(int, task.read_text().split())
        except OSError:
            continue
    return total / os.sysconf("SC_CLK_TCK")


# The same releases

UNITS = {
    "event": Event(),
    "user": User(column="id", events=3),
    "window": Window(steps=2, column="id", events=2),
    "records": User(column="id", records=2),
    "records of a window": Window(steps=2, column="id", records=1),
    "person": User(column="id"),
}
PURE, GAUSSIAN = PureDP(epsilon=1), ZCDP(rho=1)
BOTH = Schema(status=Integer(0, 1, outside="clip"), ill=Integer(0, 1, outside="clip"))
PANEL = {"privacy": GAUSSIAN, "neighbours": AddRemove}
WALKS = {"trajectory": "trip", "order": "at"}
MECHANISMS: dict[str, Any] = {
    "histogram": partial(HistogramStream, domain=WARD, privacy=PURE, horizon=3),
    "tabular": partial(TabularStream, domain=WARD, privacy=GAUSSIAN, horizon=3),
    "spatial": partial(SpatialStream, domain=SMALL, privacy=PURE, horizon=3),
    "snapshot": partial(SnapshotHistogram, domain=WARD, privacy=PURE, horizon=3),
    "panel window": partial(
        PanelWindow, domain=STATUS, window=2, horizon=3, missing=Missing.Carry, **PANEL
    ),
    "panel cumulative": partial(PanelCumulative, domain=STATUS, horizon=3, **PANEL),
    "panel columns": partial(PanelColumns, domain=BOTH, window=2, horizon=3, **PANEL),
    "trajectories": partial(Trajectories, domain=SMALL, privacy=PURE, **WALKS),
}
SAME = {
    **dict.fromkeys(("histogram", "tabular", "spatial"), ("event", "user", "window")),
    "snapshot": ("records", "records of a window"),
    **dict.fromkeys(("panel window", "panel cumulative", "panel columns"), ("person",)),
    "trajectories": ("event", "person"),
}


def rows(step: int, many: int = 2000) -> pl.DataFrame:
    """Rows of one step; person 0 has half of them."""
    rng = np.random.default_rng(step)
    return pl.DataFrame(
        {
            "id": np.where(rng.random(many) < 0.5, 0, rng.integers(0, 300, many)),
            "sex": rng.choice(["f", "m"], many),
            "age": rng.integers(-2, 12, many),
            "status": rng.integers(0, 2, many),
            "ill": rng.integers(0, 2, many),
            "x": rng.random(many),
            "y": rng.random(many),
            "trip": rng.integers(0, 200, many),
            "at": rng.permutation(many),
        }
    )


def released(mechanism: str, unit: str, frame: Callable[[pl.DataFrame], Any]) -> list:
    """What the releases of three steps say, or of one where there is one."""
    found, made = [], MECHANISMS[mechanism](unit=UNITS[unit])
    own = ["id", *made.domain.columns, *(WALKS.values() if mechanism == "trajectories" else ())]
    with Stream(made, noise=Noise.insecure(1)) as stream:
        for step in range(1, made.horizon + 1):
            gone = frame(rows(step - 1).select(own)[:300]) if made.deletes and step > 1 else None
            release = stream.push(frame(rows(step).select(own)), gone)
            for table in (release.rows, release.added, release.removed):
                found.append(
                    [table.cells.tolist(), *(one.tolist() for one in table.columns.values())]
                )
    return found


def compared(master: str, partitions: int) -> list[tuple[str, str, bool]]:
    """Whether Spark releases what one machine does, of every mechanism and unit."""
    spark = session(master)

    def there(frame: pl.DataFrame) -> Any:
        return spark.createDataFrame(frame.to_arrow()).repartition(partitions)

    found = []
    for case in ((mechanism, unit) for mechanism, units in SAME.items() for unit in units):
        found.append((*case, released(*case, there) == released(*case, lambda frame: frame)))
        print(*found[-1], flush=True)
    spark.stop()
    return found


@measurement(
    "spark_same",
    keys="master | partitions | mechanism | unit",
    columns="the same ?",
    cases=[
        *(("local[2]", partitions) for partitions in (1, 5, 16)),
        *(("local-cluster[2,1,1024]", partitions) for partitions in (5, 16)),
    ],
    goal="the releases of one machine, bit for bit",
)
def same(master, partitions):
    for case in alone(compared, master, partitions)[0]:
        yield [master, partitions, *case]


# What it costs


def counted(unit: str, many: int, master: str, steps: int) -> list[float]:
    """Processor time of a plain count, of adding and of publishing, and the driver's peak of MB."""
    from pyspark.sql import functions as sql

    spark = session(master)
    mechanism = SpatialStream(
        domain=SQUARE,
        privacy=PureDP(epsilon=1),
        unit=Event() if unit == "event" else User(column="id", events=3),
        horizon=steps + 1,
    )

    def frame(step, rows):
        # Every person comes once in a stream.
        ids = (sql.col("id") * steps + step).alias("id")
        return spark.range(0, rows, 1, 4).select(
            ids, sql.rand(2 * step).alias("x"), sql.rand(2 * step + 1).alias("y")
        )

    def plain(step, rows):
        cell = (sql.floor(sql.col("x") * 1024) * 1024 + sql.floor(sql.col("y") * 1024)).alias(
            "cell"
        )
        found = frame(step, rows).select(cell).groupBy("cell").count()
        found.write.format("noop").mode("overwrite").save()

    # People are bounded and counted when a step is published: that is counting too.
    counting, count = [0.0], step_module.count

    def timed(*given, **named):
        before = processor()
        try:
            return count(*given, **named)
        finally:
            counting[0] += processor() - before

    step_module.count = timed
    spent = np.zeros(3)
    with Stream(mechanism, noise=Noise.insecure(1)) as stream:
        # Once to compile, and to start workers.
        plain(0, 10_000)
        stream.add(frame(0, 10_000))
        stream.publish()
        counting[0] = 0.0
        for step in range(1, steps + 1):
            marks = [processor()]
            plain(step, many // steps)
            marks.append(processor())
            stream.add(frame(step, many // steps))
            marks.append(processor())
            stream.publish()
            marks.append(processor())
            spent += np.diff(marks)
    spark.stop()
    return (spent + np.array([0, counting[0], -counting[0]])).tolist()


@measurement(
    "spark_cost",
    keys="unit | rows ,",
    columns="plain s .1f | adding s .1f | ratio .2f | met ? | publishing s .1f | driver MB .0f",
    cases=[(unit, many) for unit in ("event", "user") for many in (10**6, 3 * 10**6, 10**7)],
    goal="events: at most 1.25 times a plain count; users: 4 times",
)
def cost(unit, many, master="local[1]", steps=24):
    (plain, adding, publishing), peak = alone(counted, unit, many, master, steps)
    most = {"event": 1.25, "user": 4.0}[unit]
    yield [unit, many, plain, adding, adding / plain, adding <= most * plain, publishing, peak]


if __name__ == "__main__":
    main(__doc__)
