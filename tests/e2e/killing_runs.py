"""`tailrace run` in children that are killed, over a folder that grows: `python killing_runs.py
MODE FOLDER`.

Like `killing.py`, from which it takes what it needs: only the children use Polars, so that they can
be forked and start at once.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from killing import begin, ended, held, killed_at, logged, warm

from tailrace.cli import app

SECONDS = 45  # steps of a second each
TOML = """
[stream]
path = "ward.tail"
population = "ward"
[mechanism]
kind = "HistogramStream"
horizon = {horizon}
privacy = {{ kind = "PureDP", epsilon = 900 }}
unit = {{ kind = "Event" }}
counter = {{ kind = "Simple" }}
[schema]
sex = {{ kind = "Categorical", values = ["f", "m"] }}
[calendar]
start = {start}
period = "{period}"
[source]
kind = "Folder"
path = "incoming"
files = "*.csv"
time = "at"
[[sink]]
kind = "CsvFolder"
path = "csv"
[[sink]]
kind = "ParquetFolder"
path = "parquet"
"""


def configure(folder, **values):
    (folder / "incoming").mkdir(parents=True)
    (folder / "stream.toml").write_text(TOML.format(**values))


def work(folder, *options):
    """What a process does."""

    def run():
        os.chdir(folder)
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        try:
            app(["run", "stream.toml", *options])
        except SystemExit as done:
            os._exit(done.code or 0)

    return run


def add(folder, name, rows):
    """A new file, which appears whole."""
    text = "".join(f"{sex},{at}\n" for sex, at in rows)
    (folder / "incoming" / f".{name}").write_text(f"sex,at\n{text}")
    (folder / "incoming" / f".{name}").rename(folder / "incoming" / name)


class Writer(threading.Thread):
    """Adds files until shortly before the end: rows of now, rows of closed steps that come late,
    and rows that count nowhere.
    """

    def __init__(self, folder, start, until):
        super().__init__()
        self.folder, self.start_at, self.until, self.written = (
            folder,
            start,
            until,
            {"f": 0, "m": 0},
        )

    def run(self):
        rng = random.Random(3)
        for number in range(10**6):
            now = datetime.now(UTC)
            if now >= self.until:
                return
            late = max(self.start_at, now - timedelta(seconds=rng.uniform(1, 9)))
            rows = [
                (rng.choice("fm"), rng.choice([now, now, late]).isoformat())
                for _ in range(rng.randint(0, 5))
            ]
            for sex, _ in rows:
                self.written[sex] += 1
            add(self.folder, f"{number:06d}.csv", [*rows, ("x", now.isoformat()), ("f", "no time")])
            time.sleep(rng.uniform(0.02, 0.25))


def watch(folder):
    """Watched while files come, killed at random moments and at random points, and started
    again.
    """
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=3)
    local = start.replace(tzinfo=None).isoformat()
    configure(folder, start=local, period="1 second", horizon=SECONDS)
    writer = Writer(folder, start, start + timedelta(seconds=SECONDS - 4))
    writer.start()
    rng, seen, kills, outcome = (
        random.Random(4),
        {},
        {"moments": 0, "points": 0, "processes": 0},
        None,
    )
    while outcome != 0:
        way = rng.choice(["moments", "moments", "points", "points", "points", "processes"])
        if way == "processes":  # as a user starts it
            words = [
                sys.executable,
                "-c",
                "from tailrace.cli import app; app()",
                "run",
                "stream.toml",
                "--watch",
            ]
            child = subprocess.Popen(
                [*words, "--every", "0.1"], cwd=folder, stdout=subprocess.DEVNULL
            )
            time.sleep(rng.uniform(1, 3))
            child.kill()
            outcome = child.wait()
        elif way == "moments":
            child = begin(work(folder, "--watch", "--every", "0.1"))
            time.sleep(rng.uniform(0.05, 1))
            os.kill(child, signal.SIGKILL)
            outcome = ended(child)
        else:
            outcome = ended(
                begin(killed_at(rng.randint(1, 40), work(folder, "--watch", "--every", "0.1")))
            )
        assert outcome in (0, -signal.SIGKILL), (way, outcome)
        kills[way] += outcome != 0
        now = held(folder)
        assert all(now.get(step) == digest for step, digest in seen.items()), (
            "a release that was held changed or went"
        )
        seen = now
    writer.join()
    return {"kills": kills, "written": writer.written, "steps": SECONDS}


def at_each(folder):
    """Killed once at each point of create and two steps; then a late file comes, and the next
    process goes on to the end.
    """

    def prepared(name):
        own = folder / name
        configure(own, start="2026-01-01", period="1 day", horizon=3)
        add(
            own,
            "a.csv",
            [("f", "2026-01-01"), ("m", "2026-01-02"), ("f", "2026-01-03"), ("f", "2025-12-31")],
        )
        return own

    first = prepared("first")
    points = logged(work(first), first / "points")
    # of step 3
    last = [number for number, name in enumerate(points) if name == "intent, before"][2]
    for number in range(1, last + 1):
        own = prepared(str(number))
        assert ended(begin(killed_at(number, work(own)))) == -signal.SIGKILL, points[number - 1]
        before = held(own)
        add(own, "b.csv", [("m", "2026-01-01"), ("m", "2026-01-02")])
        assert ended(begin(work(own))) == 0, points[number - 1]
        after = held(own)
        assert all(after[step] == digest for step, digest in before.items()), points[number - 1]
    return {"points": points[:last]}


if __name__ == "__main__":
    mode, where = sys.argv[1:]
    warm()
    Path(where).mkdir()
    print(json.dumps(globals()[mode](Path(where))))
