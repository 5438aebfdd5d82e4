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
    PanelWindow,
    PureDP,
    Schema,
    SnapshotHistogram,
    SpatialStream,
    Stream,
    TabularStream,
    User,
    Window,
)

SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=1024)
SMALL = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=64)
WARD = Schema(sex=Categorical(["f", "m"]), age=Integer(0, 9, outside="clip"))


def session(master: str):
    """A small Spark, whose executors run this Python."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
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

PERSON = {"user": User(column="id", events=3), "window": Window(steps=2, column="id", events=2)}
MECHANISMS = {
    "histogram": lambda unit: HistogramStream(
        domain=WARD, privacy=PureDP(epsilon=1), unit=unit, horizon=3
    ),
    "tabular": lambda unit: TabularStream(domain=WARD, privacy=ZCDP(rho=1), unit=unit, horizon=3),
    "spatial": lambda unit: SpatialStream(
        domain=SMALL, privacy=PureDP(epsilon=1), unit=unit, horizon=3
    ),
    "snapshot": lambda unit: SnapshotHistogram(
        domain=WARD, privacy=PureDP(epsilon=1), unit=unit, horizon=3
    ),
    "panel": lambda unit: PanelWindow(
        domain=Schema(age=Integer(0, 9, outside="clip")),
        window=2,
        privacy=ZCDP(rho=1),
        unit=unit,
        horizon=3,
        missing=Missing.Carry,
        neighbours=AddRemove,
    ),
}
SAME = [
    *((name, unit) for name in ("histogram", "tabular", "spatial") for unit in ("event", *PERSON)),
    ("snapshot", "records"),
    ("panel", "person"),
]
UNITS = {
    "event": Event(),
    **PERSON,
    "records": User(column="id", records=2),
    "person": User(column="id"),
}


def rows(step: int, many: int = 2000) -> pl.DataFrame:
    """Rows of one step; person 0 has half of them."""
    rng = np.random.default_rng(step)
    return pl.DataFrame(
        {
            "id": np.where(rng.random(many) < 0.5, 0, rng.integers(0, 300, many)),
            "sex": rng.choice(["f", "m"], many),
            "age": rng.integers(-2, 12, many),
            "x": rng.random(many),
            "y": rng.random(many),
        }
    )


def released(mechanism: str, unit: str, partitions: int, spark) -> list:
    """What three releases say."""
    found = []
    used = {"panel": ["id", "age"]}.get(mechanism, ["id", "sex", "age", "x", "y"])
    with Stream(MECHANISMS[mechanism](UNITS[unit]), noise=Noise.insecure(1)) as stream:
        for step in range(1, 4):
            frame = rows(step).select(used)
            if spark is not None:
                frame = spark.createDataFrame(frame.to_arrow()).repartition(partitions)
            table = stream.push(frame).rows
            found.append({name: values.tolist() for name, values in table.columns.items()})
    return found


def compared(mechanism: str, unit: str, partitions: int, master: str) -> bool:
    """Whether Spark releases what one machine does."""
    spark = session(master)
    try:
        return released(mechanism, unit, partitions, spark) == released(mechanism, unit, 0, None)
    finally:
        spark.stop()


@measurement(
    "spark_same",
    keys="mechanism | unit | partitions",
    columns="the same ?",
    cases=[(*case, partitions) for partitions in (5, 1, 16) for case in SAME],
    goal="the releases of one machine, bit for bit",
)
def same(mechanism, unit, partitions, master="local[2]"):
    yield [mechanism, unit, partitions, alone(compared, mechanism, unit, partitions, master)[0]]


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
