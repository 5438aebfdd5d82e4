"""A process that works on a stream in children and kills them: `python killing.py MODE FOLDER
UNIT`.

It is a process of its own because a child of a process that has used Polars would wait for ever for
Polars' threads: here only the children use it.
"""

import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from tailrace import (
    ZCDP,
    AddRemove,
    BehindLedger,
    Categorical,
    Event,
    HistogramStream,
    Integer,
    Noise,
    PanelWindow,
    PureDP,
    Schema,
    Stream,
    User,
    Window,
)
from tailrace.storage import durable

STEPS = 60
WARD = Schema(sex=Categorical(["f", "m"]), age=Integer(0, 9))
UNITS = {
    "event": Event(),
    "user": User(column="id", events=3),
    "window": Window(steps=7, column="id", events=1),
    "panel": User(column="id"),
}
NOISE = {"seeded": lambda: Noise.insecure(1), "fresh": Noise.fresh}


def day(step):
    """The rows of a day: known and unknown values, ages in and out of range, from none to thirty
    people.
    """
    import polars as pl

    rng = np.random.default_rng(step)
    count = int(rng.integers(0, 30))
    people, sexes, ages = (
        rng.integers(0, 40, count),
        rng.choice(["f", "m", "x"], count),
        rng.integers(-1, 11, count),
    )
    return pl.DataFrame({"id": people, "sex": sexes, "age": ages})


def mechanism(unit):
    if unit != "panel":
        return HistogramStream(
            domain=WARD, privacy=PureDP(epsilon=1), unit=UNITS[unit], horizon=STEPS
        )
    domain, privacy = Schema(sex=WARD.attributes[0]), ZCDP(rho=1)
    return PanelWindow(
        domain=domain,
        unit=UNITS[unit],
        window=2,
        horizon=STEPS,
        privacy=privacy,
        neighbours=AddRemove,
    )


def work(folder, unit, noise, until=STEPS):
    """What a process does: create or open, then push what is missing; every third day the day
    before leaves again.
    """
    path = folder / "ward.tail"
    made = {"population": "ward", "noise": NOISE[noise]()}
    stream = Stream.open(path) if path.exists() else Stream.create(path, mechanism(unit), **made)
    with stream:
        for step in range(stream.step + 1, until + 1):
            leave = step % 3 == 0 and unit != "panel"
            stream.push(day(step), deletes=day(step - 1) if leave else None, step=step)


def fill(folder, unit, noise, until=2):
    """The same days, in three parts each, the second twice; who comes back repeats every call."""
    path = folder / "ward.tail"
    made = {"population": "ward", "noise": NOISE[noise]()}
    stream = Stream.open(path) if path.exists() else Stream.create(path, mechanism(unit), **made)
    with stream:
        for step in range(1, until + 1):
            for part in (0, 1, 1, 2):
                stream.add(day(step).gather_every(3, part), key=f"{step}/{part}")
            if unit != "panel":
                stream.add(None, day(step).head(3), key=f"{step}/left")
            stream.publish(step=step)


def warm():
    """Load the compiled loops once, here, rather than in every child; Polars is not touched."""
    import tempfile

    import polars as pl  # noqa: F401 (imported, not used: its threads start with the first frame)

    from tailrace.counting.memory import LastValues, Missing, bound, follow
    from tailrace.domain import kernel
    from tailrace.mechanisms.panel.people import chosen

    Noise.fresh().laplace(5, 3)
    chosen([np.ones((1, 2), np.int64)], seed=1, values=2, factor=2, modulus=2)
    kernel.count(np.zeros(1, np.int64), 1)
    # Numbers, since reading declared texts would start the threads of Polars.
    for attribute in (Categorical([0, 1]), WARD.attributes[1]):
        attribute.encode(np.array([1.0]))
    with tempfile.TemporaryDirectory() as folder:
        rows = np.arange(3), np.arange(3)
        bound(
            old=None,
            new=Path(folder) / "a",
            unit=UNITS["user"],
            key=bytes(16),
            adds=rows,
            deletes=rows,
        )
        recall = LastValues(window=2, values=3, missing=Missing.Carry, first=True)
        follow(old=None, new=Path(folder) / "b", recall=recall, key=bytes(16), rows=rows)


def begin(job):
    """Start `job` in a child."""
    child = os.fork()
    if child:
        return child
    try:
        job()
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(count, job):
    """`job`, which kills itself at the count-th point of its life."""

    def run():
        left = [count]

        def hook(_):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        durable.hook = hook
        job()

    return run


def logged(job, log):
    """Run `job` to its end in a child; the points it passed."""

    def run():
        with log.open("w") as file:
            durable.hook = lambda name: (file.write(f"{name}\n"), file.flush())
            job()

    assert ended(begin(run)) == 0
    return log.read_text().splitlines()


def killed_until_done(most, job):
    """Kill `job` at one of its first points, drawn anew, until it ends; how often that was."""
    rng, kills = random.Random(1), 0
    while (outcome := ended(begin(killed_at(rng.randint(1, most), job)))) != 0:
        assert outcome == -signal.SIGKILL, outcome
        kills += 1
    return {"kills": kills}


def held(folder):
    """What a sink holds: a digest per step."""
    found, releases = {}, folder / "ward.tail" / "releases"
    for entry in sorted(releases.glob("log/*.json")):
        files = json.loads(entry.read_text())["files"]
        data = b"".join((releases / name).read_bytes() for name in files)
        found[entry.stem] = hashlib.sha256(entry.read_bytes() + data).hexdigest()
    return found


def unbroken(folder, unit):
    """One run without a kill; the points it passed."""
    return {"points": logged(lambda: work(folder, unit, "seeded"), folder / "points")}


def at_writes(folder, unit):
    """Killed at a random durable write of each life, at most one step's worth of them on, until the
    work is done.
    """
    most = 24 if unit == "event" else 34
    return killed_until_done(most, lambda: work(folder, unit, "seeded"))


def at_moments(folder, unit):
    """Killed at random moments; whatever a sink has held stays as it was."""
    rng, seen, kills, patience = random.Random(2), {}, 0, 1.0
    while True:
        child = begin(lambda: work(folder, unit, "fresh"))
        time.sleep(patience * rng.uniform(0.03, 0.12))
        os.kill(child, signal.SIGKILL)
        outcome, now = ended(child), held(folder)
        assert all(now.get(step) == digest for step, digest in seen.items()), (
            "a release that was held changed or went"
        )
        # A slow machine is given longer until something is released.
        patience = 1.0 if len(now) > len(seen) else 1.1 * patience
        seen = now
        if outcome == 0 or len(now) == STEPS:
            break
        kills += 1
    assert ended(begin(lambda: work(folder, unit, "fresh"))) == 0
    final = held(folder)
    assert all(final[step] == digest for step, digest in seen.items())
    return {"kills": kills, "steps": list(final)}


def at_some(folder, unit):
    return at_each(folder, unit, every=5)


def at_each(folder, unit, every=1):
    """Killed once at every point of create and two steps, each in a directory of its own, then
    resumed.
    """
    first = folder / "0"
    first.mkdir()
    points = logged(lambda: work(first, unit, "fresh", until=2), first / "points")
    numbers = range(1, len(points) + 1, every)
    for number in numbers:
        own, name = folder / str(number), points[number - 1]
        own.mkdir()
        job = lambda own=own: work(own, unit, "fresh", until=2)  # noqa: E731
        assert ended(begin(killed_at(number, job))) == -signal.SIGKILL, name
        before = held(own)
        assert ended(begin(job)) == 0, name
        after = held(own)
        assert list(after) == ["000001", "000002"], name
        assert all(after[step] == digest for step, digest in before.items()), name
    return {"numbers": list(numbers)}


def filled_at_each(folder, unit):
    """Killed once at every point of two steps that are filled in parts, and done again."""
    first = folder / "0"
    first.mkdir()
    points = logged(lambda: fill(first, unit, "seeded"), first / "points")
    numbers = range(1, len(points) + 1)
    for number in numbers:
        own, name = folder / str(number), points[number - 1]
        own.mkdir()
        job = lambda own=own: fill(own, unit, "seeded")  # noqa: E731
        assert ended(begin(killed_at(number, job))) == -signal.SIGKILL, name
        assert ended(begin(job)) == 0, name
    return {"numbers": list(numbers), "points": points}


def at_each_of_a_fork(folder, unit):
    """A fork killed once at each of its points, then forked again or opened, and pushed on."""

    def fork(own):
        target = own / "fork.tail"
        stream = Stream.open(target) if target.exists() else Stream.fork(own / "ward.tail", target)
        with stream:
            if stream.step < 2:
                stream.push(day(2), step=2)

    number, killed = 1, True
    while killed:
        own = folder / str(number)
        own.mkdir()
        assert ended(begin(lambda own=own: work(own, unit, "fresh", until=1))) == 0
        killed = ended(begin(killed_at(number, lambda own=own: fork(own)))) == -signal.SIGKILL
        assert ended(begin(lambda own=own: fork(own))) == 0, number
        number += 1
    return {"folders": number - 1}


def race(folder, unit):
    """Two copies of a stream push the next step at the same time; how many got it, and whether the
    other drew anything.
    """
    import shutil

    won = []
    for number in range(20):
        own = folder / str(number)
        own.mkdir()
        assert ended(begin(lambda own=own: work(own, unit, "fresh", until=1))) == 0
        shutil.copytree(own / "ward.tail", own / "copy.tail")
        (ready, go), (told, tell) = os.pipe(), os.pipe()

        def push(name, own=own, ready=ready, tell=tell):
            with Stream.open(own / name) as stream:
                os.write(tell, b"!")
                os.read(ready, 1)  # both are open and wait here
                try:
                    stream.push(day(2))
                except BehindLedger:
                    assert not (own / name / "releases/log/000002.json").exists()
                    os._exit(3)

        children = [begin(lambda name=name: push(name)) for name in ("ward.tail", "copy.tail")]
        for _ in children:
            os.read(told, 1)
        os.write(go, b"go")
        won.append(sorted(ended(child) for child in children))
        for end in (ready, go, told, tell):
            os.close(end)
    return {"won": won}


if __name__ == "__main__":
    mode, where, whose = sys.argv[1:]
    warm()
    Path(where).mkdir()
    print(json.dumps(globals()[mode](Path(where), whose)))
