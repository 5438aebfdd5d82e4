"""A driver of Spark that is killed, and workers of it: `python killing_spark.py KILLS [SEED]`.

A child follows a streaming query, and at a durable write drawn by lot it kills itself, or a Python
worker of its executors. The next child goes on. In the end every row must have counted once, and
every step must have one release: those of the same rows, pushed day by day.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

DAYS, FILES = 4, 3
COLUMNS = "id long, sex string, age double, at timestamp"


def mechanism():
    from tailrace import Categorical, HistogramStream, Integer, PureDP, Schema, User

    ward = Schema(sex=Categorical(["f", "m"], outside="other"), age=Integer(0, 9, outside="clip"))
    unit = User(column="id", events=3)
    return HistogramStream(domain=ward, privacy=PureDP(epsilon=1), unit=unit, horizon=DAYS)


def rows(seed):
    """Rows of all days; person 0 has half of them."""
    import numpy as np
    import polars as pl

    rng, many = np.random.default_rng(seed), 200
    times = np.datetime64("2026-01-01", "us") + rng.integers(0, DAYS * 86_400, many).astype("m8[s]")
    return pl.DataFrame(
        {
            "id": np.where(rng.random(many) < 0.5, 0, rng.integers(0, 40, many)),
            "sex": rng.choice(["f", "m", "?"], many),
            "age": rng.integers(-2, 12, many).astype(float),
            "at": pl.Series(times).dt.replace_time_zone("UTC"),
        }
    )


def content(release):
    return release.view.estimates.tobytes(), release.rows.cells.tolist()


def workers():
    """The Python workers of this process's executors."""
    found, left = [], [os.getpid()]
    while left:
        pid = left.pop()
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                children = [int(child) for child in task.read_text().split()]
            except OSError:
                continue
            left += children
        try:
            said = Path(f"/proc/{pid}/cmdline").read_bytes()
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            daemon = b"pyspark.daemon" in Path(f"/proc/{parent}/cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if b"pyspark.daemon" in said and daemon:
            found.append(pid)
    return found


def work(folder, at, whom):
    """One life of the driver, which ends at the durable write number `at` (0: never)."""
    from pyspark.sql import SparkSession

    from tailrace import Calendar, Noise, Stream, spark
    from tailrace.storage import durable

    left = [at]

    def hook(name):
        left[0] -= 1
        if left[0] == 0 and whom == "driver":
            print("killed", name, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        # Workers come and go: the first that is there from then on.
        if at and left[0] <= 0 and whom == "worker" and (some := workers()):
            print("killed", name, flush=True)
            os.kill(some[0], signal.SIGKILL)
            left[0] = 1 << 60

    options = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    options |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    options |= {"spark.driver.memory": "512m", "spark.sql.streaming.schemaInference": "false"}
    # A task is tried four times.
    builder = SparkSession.builder.master("local[2,4]").config(map=options)
    session = builder.getOrCreate()
    durable.hook = hook
    calendar = Calendar(start="2026-01-01", period="1 day")
    if not (folder / "ward").exists():
        told = {"population": "ward", "calendar": calendar, "noise": Noise.insecure(1)}
        Stream.create(folder / "ward", mechanism(), **told).close()
    with Stream.open(folder / "ward") as stream:
        reads = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
        frame = reads.parquet(str(folder / "in"))
        for _ in spark.run(stream, frame, time="at", checkpoint=str(folder / "checkpoint")):
            pass
    durable.hook = None
    print("done", flush=True)
    session.stop()


def lives(folder, kills, seed):
    """Run children until all is released; return what was killed, and where."""
    lot, killed = random.Random(seed), []
    (folder / "in").mkdir(parents=True)
    for number in range(FILES):
        rows(number).write_parquet(folder / "in" / f"{number}.parquet")
    while True:
        whom = lot.choice(["driver", "driver", "worker"])
        at = lot.randint(1, 60) if len(killed) < kills else 0
        command = [sys.executable, __file__, "work", str(folder), str(at), whom]
        child = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = child.stdout.splitlines()
        killed += [(whom, line[7:]) for line in lines if line.startswith("killed")]
        if "done" in lines:
            return killed
        if child.returncode != -signal.SIGKILL and not killed:
            raise AssertionError(child.stderr[-4000:])


def check(folder):
    """Compare all releases with those of the same rows, pushed day by day."""
    import polars as pl

    from tailrace import Noise, Stream

    every = pl.concat([rows(number) for number in range(FILES)])
    with (
        Stream.open(folder / "ward") as found,
        Stream(mechanism(), noise=Noise.insecure(1)) as local,
    ):
        assert found.step == DAYS
        for day in range(1, DAYS + 1):
            own = every.filter(pl.col("at").dt.day() == day).drop("at")
            assert content(local.push(own)) == content(found.release(day)), day


def main(kills, seed):
    killed = []
    while len(killed) < kills:
        folder = Path(tempfile.mkdtemp(prefix="killing-spark-"))
        more = lives(folder, kills - len(killed), seed + len(killed))
        check(folder)
        shutil.rmtree(folder)
        for whom, where in more:
            print(f"{whom:6}  {where}", flush=True)
        killed += more
    print(f"{len(killed)} kills, every row counted once, one release a step")


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
