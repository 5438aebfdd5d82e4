"""A process that works on a tabular stream in children and kills them: `python killing_tabular.py
MODE FOLDER UNIT`.
"""

import json
import sys
from pathlib import Path

import numpy as np
from killing import begin, ended, killed_until_done

from tailrace import (
    Categorical,
    Event,
    Integer,
    Noise,
    PureDP,
    Schema,
    Selection,
    Stream,
    TabularStream,
    User,
)

STEPS = 10
SHOP = Schema(
    kind=Categorical(["a", "b", "c"]), size=Integer(0, 4), paid=Integer(0, 1), price=Integer(0, 9)
)
UNITS = {"event": Event(), "user": User(column="id", events=3)}


def day(step):
    import polars as pl

    rng = np.random.default_rng(step)
    kind = rng.integers(0, 3, 300)
    columns = {
        "size": rng.binomial(4, 0.2 + 0.3 * kind),
        "paid": kind > 1,
        "price": rng.binomial(9, 0.5, 300),
    }
    return pl.DataFrame(
        {"kind": np.array(["a", "b", "c"])[kind], **columns, "id": rng.integers(0, 900, 300)}
    ).cast({"paid": pl.Int64})


def mechanism(unit):
    selection = Selection(churn=0.2, chosen=2)  # several epochs in a few steps
    privacy = PureDP(epsilon=8)
    return TabularStream(
        domain=SHOP, privacy=privacy, unit=UNITS[unit], horizon=STEPS, selection=selection
    )


def work(folder, unit):
    """What a process does: create or open, then push what is missing; every third day the day
    before leaves again.
    """
    path = folder / "ward.tail"
    made = {"population": "shop", "noise": Noise.insecure(1)}
    stream = Stream.open(path) if path.exists() else Stream.create(path, mechanism(unit), **made)
    with stream:
        for step in range(stream.step + 1, STEPS + 1):
            stream.push(day(step), deletes=day(step - 1) if step % 3 == 0 else None, step=step)


def warm(unit):
    """Load the compiled loops once, here, rather than in every child; Polars is not touched."""
    from tailrace.counting.plan import Counts
    from tailrace.stream.state import no_rows

    made, rng, noise = mechanism(unit), np.random.default_rng(0), Noise.insecure(2)
    state, table = made.init(), no_rows(made)
    for step in range(4):
        rows = np.stack([rng.integers(0, size, 400) for size in SHOP.shape], axis=1).astype(
            np.int32
        )
        counts = made.marginals.tally(rows)
        state = made.measure(state, Counts(counts, 0 * counts), noise.at("warm", step)).state
        table = made.sample(made.view(state.public), table, rng).table


def unbroken(folder, unit):
    assert ended(begin(lambda: work(folder, unit))) == 0
    return {}


def at_writes(folder, unit):
    """Killed at a random durable write of each life until the work is done."""
    return killed_until_done({"event": 12, "user": 24}[unit], lambda: work(folder, unit))


if __name__ == "__main__":
    import polars  # noqa: F401 (imported, not used: its threads start with the first frame)

    mode, where, whose = sys.argv[1:]
    warm(whose)
    Path(where).mkdir()
    print(json.dumps(globals()[mode](Path(where), whose)))
