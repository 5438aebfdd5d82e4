"""A driver of Spark that is killed, and workers of it: `python killing_spark.py KILLS [SEED]`.

A child follows a streaming query. In the middle of a batch, of a merge of the unit memory or of a
release, after a time drawn by lot, `kill -9` ends the driver, a Python worker that is at work, or
the Java process of an executor (then Spark is a `local-cluster`). Where the driver lives, it must
finish; where it died, the next child goes on. In the end every row must have counted once, and
every step must have one release: those of the same rows, pushed day by day.
"""

import contextlib
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


def victims(whom):
    """The Python workers of executors, or their Java processes."""
    found = below()
    if whom == "executor":
        return [pid for pid, (_, said) in found.items() if b"CoarseGrainedExecutor" in said]
    daemons = {pid for pid, (_, said) in found.items() if b"pyspark.daemon" in said}
    return [pid for pid in daemons if found[pid][0] in daemons]


def at_work(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "R"
    return False


class Killer:
    """Kills in the middle of some work, some time after it began.

    What is killed when is drawn by lot; a driver dies once, others up to `kills` times.
    """

    def __init__(self, whom, kills, seed):
        self.whom, self.kills, self.lot = whom, kills, random.Random(seed)
        self.inside, self.aiming = [], False
        self._aim()

    def _aim(self):
        self.during = self.lot.choice(["batch", "merge", "release"]) if self.kills else None
        # A release is short.
        longest = 0.02 if self.during == "release" else 0.8
        self.left, self.wait = self.lot.randint(1, 2), self.lot.uniform(0, longest)

    @contextlib.contextmanager
    def doing(self, name):
        """What the driver waits for now."""
        self.inside.append(name)
        if name == self.during and not self.aiming:
            self.left -= 1
            if self.left == 0:
                self.aiming = True
                threading.Thread(target=self._kill, daemon=True).start()
        try:
            yield
        finally:
            self.inside.pop()

    def _kill(self):
        time.sleep(self.wait)
        if self.whom == "driver":
            self._end(os.getpid())
        while True:
            some = victims(self.whom)
            busy = [pid for pid in some if at_work(pid)]
            if self.whom == "executor" or self.during not in self.inside:
                # Between two tasks all are idle.
                busy = busy or some
            if busy:
                break
            time.sleep(0.002)
        self._end(busy[0])
        self.kills -= 1
        self._aim()
        self.aiming = False

    def _end(self, pid):
        print("killed", self.inside[-1] if self.inside else "between", flush=True)
        os.kill(pid, signal.SIGKILL)


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
    for name in ("write", "draw", "commit", "deliver"):
        within(streams, name, "release")


def work(folder, whom, kills, seed):
    """One life of the driver."""
    import pyspark
    from pyspark.sql import SparkSession

    from tailrace import Calendar, Noise, Stream, spark

    watched(Killer(whom, kills, seed))
    # A task is tried four times.
    master = "local-cluster[2,1,1024]" if whom == "executor" else "local[2,4]"
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
    with Stream.open(folder / "ward") as stream:
        reads = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
        frame = reads.parquet(str(folder / "in"))
        for _ in spark.run(stream, frame, time="at", checkpoint=str(folder / "checkpoint")):
            pass
    print("done", flush=True)
    session.stop()


def lives(folder, kills, seed, only=None):
    """Run children until all is released; return whom a kill ended, and in the middle of what."""
    lot, killed = random.Random(seed), []
    (folder / "in").mkdir(parents=True)
    for number in range(FILES):
        rows(number).write_parquet(folder / "in" / f"{number}.parquet")
    while True:
        whom = only or lot.choice(["driver"] * 3 + ["worker"] * 2 + ["executor"])
        told = [str(folder), whom, str(kills - len(killed)), str(lot.randrange(1 << 30))]
        child = subprocess.run(
            [sys.executable, __file__, "work", *told], capture_output=True, text=True, check=False
        )
        lines = child.stdout.splitlines()
        killed += [(whom, line[7:]) for line in lines if line.startswith("killed")]
        if "done" in lines:
            return killed
        if child.returncode != -signal.SIGKILL:
            raise AssertionError(f"{told}: {child.stderr[-4000:]}")


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
        work(Path(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:]))
    else:
        main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
