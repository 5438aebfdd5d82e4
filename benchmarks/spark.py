"""Tailrace on Spark: the same releases, what they cost, and what the driver holds.

`same` compares releases with those of one machine, for every mechanism and unit, on 1 to 16
partitions, with one person who has half of the rows, in local mode and on local-cluster[2,1,1024],
which starts workers as processes.

`cost` compares the processor time of a stream's counting (`add`, and the bounding of people) with a
plain groupBy(cell).count() over a frame of the same size, which Spark makes from numbers, before
each step of the same run. Time is that of all processes below this one, executors and their Python
workers too, after one round to compile. Publishing (noise, on the driver) is measured apart, and so
are the peaks of resident memory of the driver's two processes, Python and JVM (which in local mode
holds the executors too). The stream makes no table (full="none"). There are two tasks a core, and
`local[8]` has eight cores in Spark's eyes, so that what each core adds to a step is seen.

`sizing` fits a model to smaller runs, and checks it on the largest, which is not in the fit.

`kills` runs tests/e2e/killing_spark.py on local-cluster[2,1,1024]: kill -9 of drivers, of their
JVMs, of Python workers and of executors, ten a seed.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import tailrace.stream.step as step_module
from runner import alone, main, measurement, read
from tailrace import (
    ZCDP,
    AddRemove,
    Box,
    Categorical,
    Event,
    HistogramStream,
    Integer,
    JourneyStream,
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


class Processor:
    """Processor time of this process and all below it, also of those that ended.

    Spark's daemon of Python lets idle workers end and forgets their time, so each process is looked
    at every LOOK seconds, and what it had when last seen stays in the sum.
    """

    LOOK = 0.2

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], int] = {}
        self._one_at_a_time = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.seconds()
            time.sleep(self.LOOK)

    def seconds(self) -> float:
        with self._one_at_a_time:
            left = [os.getpid()]
            while left:
                pid = left.pop()
                try:
                    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                # User and system time, by the process's number and its start.
                self._seen[pid, stat[19]] = int(stat[11]) + int(stat[12])
                for task in Path(f"/proc/{pid}/task").glob("*/children"):
                    # A thread may end in between.
                    with contextlib.suppress(OSError):
                        left += map(int, task.read_text().split())
            return sum(self._seen.values()) / os.sysconf("SC_CLK_TCK")


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
# So that some of few journeys are drawn.
MUCH = PureDP(epsilon=5000)
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
    "trajectories": partial(Trajectories, domain=SMALL, privacy=MUCH, **WALKS),
    "journeys": partial(JourneyStream, domain=SMALL, privacy=MUCH, horizon=3, **WALKS),
}
SAME = {
    **dict.fromkeys(("histogram", "tabular", "spatial", "journeys"), ("event", "user", "window")),
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
    own = [
        "id",
        *made.domain.columns,
        *(WALKS.values() if mechanism in ("trajectories", "journeys") else ()),
    ]
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

WARM = 300_000


def counted(unit: str, many: int, master: str, steps: int) -> list[float]:
    """Processor time of plain counts, of adding and of publishing, and the driver JVM's MB.

    The first of two is its peak of resident memory, the second what lies on its heap at the end,
    after a collection of garbage.
    """
    from pyspark.sql import functions as sql

    spark: Any = session(master)
    mechanism = SpatialStream(
        domain=SQUARE,
        privacy=PureDP(epsilon=1),
        unit=Event() if unit == "event" else User(column="id", events=3),
        horizon=steps + 1,
    )

    def frame(step, rows):
        # Every person comes once in a stream.
        ids = (sql.col("id") * (steps + 1) + step).alias("id")
        return spark.range(0, rows, 1, 2 * spark.sparkContext.defaultParallelism).select(
            ids, sql.rand(2 * step).alias("x"), sql.rand(2 * step + 1).alias("y")
        )

    def plain(step, rows):
        x, y = (sql.floor(sql.col(name) * 1024) for name in ("x", "y"))
        found = frame(step, rows).select((x * 1024 + y).alias("cell")).groupBy("cell").count()
        found.write.format("noop").mode("overwrite").save()

    processor = Processor().seconds
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
    told: dict[str, Any] = {"population": "square", "noise": Noise.insecure(1), "full": "none"}
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-spark-") as folder,
        Stream.create(Path(folder, "square"), mechanism, **told) as stream,
    ):
        # Once to compile, and to start workers.
        plain(0, WARM)
        stream.add(frame(0, WARM))
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
            print(f"{step}: {spent.round(1)}, counting {counting[0]:.1f}", flush=True)
        spark._jvm.System.gc()
        memory = spark._jvm.Runtime.getRuntime()
        heap = (memory.totalMemory() - memory.freeMemory()) / 1e6
        jvm = peak(spark._jvm.java.lang.ProcessHandle.current().pid())
    spark.stop()
    plainly, adding, publishing = spent
    return [plainly, adding + counting[0], publishing - counting[0], jvm, heap]


def peak(pid: int) -> float:
    """A process's peak of resident MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(one.split()[1]) for one in lines if one.startswith("VmHWM")) * 1024 / 1e6


# Rows and steps. The last of each are what the goals speak of.
SIZES = {
    "event": [(10**6, 6), (10**7, 6), (8_333_332, 2), (10**8, 24)],
    "user": [(600_000, 2), (10**6, 6), (3 * 10**6, 6), (10**7, 6)],
}
LOCAL, CLUSTER, WIDE = "local[2]", "local-cluster[2,1,1024]", "local[8]"
COSTS = [
    *((LOCAL, unit, *size) for unit, sizes in SIZES.items() for size in sizes),
    # The driver's memory, without executors in its JVM.
    *((CLUSTER, "event", *size) for size in SIZES["event"] if size[0] in (10**6, 10**7, 10**8)),
    *((WIDE, unit, 10**6, 6) for unit in SIZES),
]


@measurement(
    "spark_cost",
    keys="master | unit | rows | steps",
    columns="plain s .1f | adding s .1f | ratio .2f | met ? | publishing s .1f"
    " | driver's Python MB .0f | driver's JVM MB .0f | of it heap MB .0f",
    cases=COSTS,
    goal="at the largest size, events: at most 1.25 times a plain count; users: 4 times",
)
def cost(master, unit, many, steps):
    (plain, adding, publishing, *jvm), python = alone(counted, unit, many, master, steps)
    ratio, most = adding / plain, {"event": 1.25, "user": 4.0}[unit]
    met = ratio <= most if (many, steps) == SIZES[unit][-1] else None
    yield [master, unit, many, steps, plain, adding, ratio, met, publishing, python, *jvm]


# Kills


@measurement(
    "spark_kills",
    keys="seed | killed | in the middle of",
    columns="kills | every row once, one release a step ?",
    cases=[(seed,) for seed in range(5)],
    goal="every row counts once, and every step has one release, that of one machine",
)
def kills(seed):
    script = Path(__file__).parents[1] / "tests" / "e2e" / "killing_spark.py"
    command = [sys.executable, str(script), "10", str(seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    # Printed once the releases after them were compared.
    lines = [tuple(line.split(", ")) for line in done.stdout.splitlines()]
    for case, number in sorted(Counter(lines).items()):
        yield [seed, *case, number, done.returncode == 0]


# How large a cluster must be

DAY, CORES, STEPS = 10**10, 100, 24
AT = {LOCAL: 2, WIDE: 8}


@measurement(
    "spark_sizing",
    keys="unit",
    columns="a step s .2f | a core and step s .3f | 10^6 rows s .3f | checked on | measured s .1f"
    " | predicted s .1f | off % .0f | 10^10 rows, core hours .2f | minutes a step, 100 cores .2f",
    cases=[(unit,) for unit in SIZES],
)
def sizing(unit):
    """Processor seconds = steps x (a + cores x b) + rows x c, fitted to the smaller runs of `cost`.

    Relative errors are least in squares, so that small runs weigh as much as large ones.
    """
    found = {
        (AT[one["master"]], int(one["rows"]), int(one["steps"])): float(one["adding s"])
        for one in read("spark_cost")
        if one["unit"] == unit and one["master"] in AT
    }
    check = (AT[LOCAL], *SIZES[unit][-1])
    measured = found.pop(check)
    model = np.array([_terms(*size) for size in found]) / np.array([*found.values()])[:, None]
    fitted, *_ = np.linalg.lstsq(model, np.ones(len(model)))
    predicted, day = (float(_terms(*size) @ fitted) for size in (check, (CORES, DAY, STEPS)))
    checked = f"{check[1]:,} rows in {check[2]} steps"
    off, minutes = 100 * (predicted / measured - 1), day / STEPS / CORES / 60
    scaled = fitted * [1, 1, 1e6]
    yield [unit, *scaled, checked, measured, predicted, off, day / 3600, minutes]


def _terms(cores: int, rows: int, steps: int) -> np.ndarray:
    """What the model of costs multiplies."""
    return np.array([steps, steps * cores, rows])


if __name__ == "__main__":
    main(__doc__)
