"""A step of 1e6 rows against its floor in the same run: drawing the step's noise once and copying
the state once.

Goal: at most 3 times that floor for Simple, Block and BinaryTree, at every kind of step.
"""

import dataclasses
import time

import numpy as np

from results import save
from tailrace import ZCDP, Noise, PureDP
from tailrace.counters import BinaryTree, Block, KaryTree, Simple

ROWS, HORIZON, ROUNDS = 1_000_000, 1024, 5


def best_of(work) -> float:
    times = []
    for i in range(ROUNDS):
        start = time.perf_counter()
        work(i)
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def copied(state) -> None:
    for field in dataclasses.fields(state):
        getattr(state, field.name).copy()


def main() -> None:
    noise, rows = Noise.fresh(), []
    x = np.random.default_rng(0).integers(0, 5, ROWS)
    for privacy in (PureDP(epsilon=0.5), ZCDP(rho=0.1)):
        for shape in (Simple(), Block(size=32), BinaryTree(), KaryTree(subtract=False)):
            counter = dataclasses.replace(shape, privacy=privacy, horizon=HORIZON)
            kind, name = type(privacy).__name__, type(counter).__name__
            start = counter.init(ROWS)
            clocks = {
                "first step": 0,
                "step 512 ends levels": 511,
                "own clocks": np.arange(ROWS) % 1000,
            }
            for case, clock in clocks.items():
                state = dataclasses.replace(start, clock=np.broadcast_to(clock, ROWS).copy())
                step = best_of(
                    lambda i: counter.step(state, x, noise.at("step", kind, name, case, i))
                )
                draw = best_of(
                    lambda i: counter.atoms.draw(noise.at("draw", kind, name, case, i), ROWS)
                )
                copy = best_of(lambda _: copied(state))
                ratio = step / (draw + copy)
                goal = "" if name == "KaryTree" else "yes" if ratio <= 3 else "NO"
                rows.append(
                    [
                        kind,
                        name,
                        case,
                        f"{step:.1f}",
                        f"{draw:.1f}",
                        f"{copy:.1f}",
                        f"{ratio:.2f}",
                        goal,
                    ]
                )
    save(
        "counter_speed",
        ["budget", "counter", "case", "step ms", "noise ms", "copy ms", "ratio", "goal met"],
        rows,
    )


if __name__ == "__main__":
    main()
