"""Kills on Spark: `python killing_spark.py KILLS [SEED]`.

A child follows a streaming query on a `local-cluster`, whose executors are processes. In the middle
of a batch, of a merge of the unit memory or of a release, after a time drawn by lot, `kill -9` ends

- the driver,
- its JVM alone, which the driver must tell of in a sentence,
- a Python worker that is at work, or
- the JVM of an executor that is; at a release all of them wait for work.

Where the driver lives, it must finish; where it died, the next child goes on. In the end every row
must have counted once, and every step must have one release: those of the same rows, pushed day by
day.
"""

import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
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


def below():
    """The processes below this one: number, parent and command."""
    found, left = {}, [(os.getpid(), 0)]
    while left:
        pid, parent = left.pop()
        try:
            found[pid] = parent, Path(f"/proc/{pid}/cmdline").read_bytes()
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                left += [(int(child), pid) for child in task.read_text().split()]
        except OSError:
            continue
    return found


def victim(whom, idle):
    """A process to kill, if one is there: of executors one at work, where not `idle`."""
    if whom == "driver":
        return os.getpid()
    found = below()
    if whom == "driver's JVM":
        # spark-submit became it.
        return next(pid for pid, (parent, _) in found.items() if parent == os.getpid())
    daemons = {pid for pid, (_, said) in found.items() if b"pyspark.daemon" in said}
    workers = [pid for pid in daemons if found[pid][0] in daemons and (idle or at_work(pid))]
    if whom == "executor":
        workers = [found[found[pid][0]][0] for pid in workers]
    return next(iter(workers), None)


def at_work(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "R"
    return False


class Killer:
    """Kills one process after the other, each in the middle of some work.

    How long after the work began is drawn by lot, up to the time that it took last.
    """

    def __init__(self, kills, seed):
        self.kills, self.lot = list(kills), random.Random(seed)
        self.inside, self.aiming = None, False
        self.took = {"batch": 2, "merge": 2, "release": 0.03}

    @contextlib.contextmanager
    def doing(self, work):
        """What the driver does now."""
        self.inside, began = work, time.monotonic()
        if self.kills and self.kills[0][1] == work and not self.aiming:
            self.aiming = True
            threading.Thread(target=self._kill, args=self.kills[0], daemon=True).start()
        try:
            yield
        finally:
            self.inside, self.took[work] = None, time.monotonic() - began

    def _kill(self, whom, work):
        time.sleep(self.lot.uniform(0, self.took[work]))
        pid = None
        while self.inside == work and pid is None:
            pid = victim(whom, idle=work == "release")
            time.sleep(0.002)
        # Where the work ended too early, the next one is aimed at.
        if self.inside == work:
            print("killed", flush=True)
            os.kill(pid, signal.SIGKILL)
            self.kills.pop(0)
        self.aiming = False


def watched(killer):
    """Let the killer know what is done; what is done stays the same."""
    from tailrace.counting import step as counting
    from tailrace.counting.memory import spread
    from tailrace.stream import stream as streams

    def within(home, name, kind):
        work = getattr(home, name)

        def told(*given, **named):
            with killer.doing(kind):
                return work(*given, **named)

        setattr(home, name, told)

    within(streams.Stream, "add", "batch")
    within(counting.spread, "counted", "merge")
    assert counting.spread is spread
    within(streams, "write", "release")
    within(streams.Stream, "_finish", "release")


def work(folder, master, kills, seed):
    """One life of the driver."""
    import pyspark
    from pyspark.sql import SparkSession

    from tailrace import Calendar, Noise, Stream, spark
    from tailrace.errors import Error

    watched(Killer(kills, seed))
    os.environ |= {"SPARK_HOME": str(Path(pyspark.__file__).parent)}
    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    options |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    options |= {"spark.driver.memory": "512m", "spark.sql.streaming.schemaInference": "false"}
    session = SparkSession.builder.master(master).config(map=options).getOrCreate()
    calendar = Calendar(start="2026-01-01", period="1 day")
    if not (folder / "ward").exists():
        told = {"population": "ward", "calendar": calendar, "noise": Noise.insecure(1)}
        Stream.create(folder / "ward", mechanism(), **told).close()
    try:
        with Stream.open(folder / "ward") as stream:
            reads = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
            frame = reads.parquet(str(folder / "in"))
            for _ in spark.run(stream, frame, time="at", checkpoint=str(folder / "checkpoint")):
                pass
    except Error as error:
        print("told", error, flush=True)
        os._exit(1)
    print("done", flush=True)
    session.stop()


def lives(folder, kills, seed, master="local-cluster[2,1,1024]"):
    """Run children until all is released; return the kills that are left."""
    lot, left = random.Random(seed), list(kills)
    (folder / "in").mkdir(parents=True)
    for number in range(FILES):
        rows(number).write_parquet(folder / "in" / f"{number}.parquet")
    while True:
        told = [str(folder), master, json.dumps(left), str(lot.randrange(1 << 30))]
        child = subprocess.run(
            [sys.executable, __file__, "work", *told], capture_output=True, text=True, check=False
        )
        lines = child.stdout.splitlines()
        here, left = left[: lines.count("killed")], left[lines.count("killed") :]
        if "done" in lines:
            return left
        # Its last kill ended it; without its JVM a driver says so in a sentence.
        ends = {"driver": -signal.SIGKILL, "driver's JVM": 1}
        said = child.returncode < 0 or lines[-1].startswith("told Spark ended")
        if not here or child.returncode != ends.get(here[-1][0]) or not said:
            raise AssertionError(f"{told}: {here} {lines} {child.stderr[-4000:]}")


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
    # The driver's JVM alone is rarer: who loses it mostly loses the driver.
    whom = ("driver", "worker", "executor", "driver", "worker", "executor", "driver's JVM")
    every = itertools.cycle(itertools.product(whom, ("batch", "merge", "release")))
    left = list(itertools.islice(every, seed * kills, (seed + 1) * kills))
    random.Random(seed).shuffle(left)
    while left:
        folder = Path(tempfile.mkdtemp(prefix="killing-spark-"))
        before, left = left, lives(folder, left, 100 * seed + len(left))
        check(folder)
        shutil.rmtree(folder)
        for killed in before[: len(before) - len(left)]:
            print(*killed, sep=", ", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4]), int(sys.argv[5]))
    else:
        main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
