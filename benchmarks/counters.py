"""Error of the counters at epsilon = 0.5: root mean square over t <= T, against Simple's.

Goals are PURE_GOALS and DELTA_GOALS. Also draws the papers' comparison (PrivStream, figure 2:
Simple, Block 8, Binary tree at T = 128 and 4096) with ours beside; and times a step.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from runner import best_of, draw, main, measurement
from tailrace import ZCDP, ApproxDP, Noise, PureDP
from tailrace.counters import (
    BinaryTree,
    Block,
    Counter,
    KaryTree,
    Simple,
    SqrtToeplitz,
    UnboundedBlock,
    best,
)
from tailrace.counters.choice import candidates, mean_squared_error
from tailrace.report.chart import Line, line_chart

EPSILON, DELTA = "0.5", "1e-6"
PURE_GOALS, DELTA_GOALS = {128: 0.82, 1000: 0.50, 4096: 0.33}, {1000: 0.43, 4096: 0.245}
COPIES = {32: 4000, 128: 4000, 1000: 1000, 4096: 400}
DRAWN = (128, 4096)
ROWS, HORIZON = 1_000_000, 1024


@dataclass(frozen=True)
class Compared:
    """A counter's standard deviation at each step, predicted and measured."""

    name: str
    predicted: np.ndarray  # (steps,)
    measured: np.ndarray  # (steps,)

    @property
    def rms(self) -> tuple[float, float]:
        """Root mean square over the steps: predicted, measured."""
        return float(np.sqrt((self.predicted**2).mean())), float(np.sqrt((self.measured**2).mean()))


def contestants(*, horizon: int) -> dict[str, Counter[Any]]:
    """The papers' three counters, our best pure one, and the square root with a delta."""
    pure = PureDP(epsilon=EPSILON)
    approximate = ApproxDP(epsilon=EPSILON, delta=DELTA)
    return {
        "Simple": Simple(privacy=pure, horizon=horizon),
        "Block of 8": Block(size=8, privacy=pure, horizon=horizon),
        "Binary tree": BinaryTree(privacy=pure, horizon=horizon),
        "ours, pure": best(privacy=pure, horizon=horizon),
        f"Toeplitz, delta {DELTA}": SqrtToeplitz(privacy=approximate, horizon=horizon),
    }


def compare(
    name: str, counter: Counter[Any], *, horizon: int, copies: int, noise: Noise
) -> Compared:
    """Run `copies` rows of zeros through a counter: its output is its error."""
    state, measured = counter.init(copies), np.empty(horizon)
    for t in range(horizon):
        state, estimate = counter.step(state, np.zeros(copies, np.int64), noise.at(name, t))
        measured[t] = np.sqrt((estimate.astype(float) ** 2).mean())
    return Compared(name, np.sqrt(counter.variance(np.arange(1, horizon + 1))), measured)


def described(counter) -> str:
    """Its class and what was chosen of it."""
    if hasattr(counter, "counter"):
        return f"{type(counter).__name__} of {described(counter.counter)}, first {counter.first}"
    if isinstance(counter, UnboundedBlock):
        return "UnboundedBlock, squares" if counter.squares else "UnboundedBlock"
    options = [
        f"{part}={getattr(counter, part)}"
        for part in ("size", "arity", "levels", "subtract")
        if getattr(counter, part, None)
    ]
    return type(counter).__name__ + (f"({', '.join(options)})" if options else "")


@measurement(
    "counters",
    keys="T | counter",
    columns="algorithm | predicted RMS .3f | measured RMS .3f | ratio to Simple .4f | goal | goal met ?",
    cases=[(horizon,) for horizon in COPIES],
    goal="the best counter's predicted RMS against Simple",
)
def accuracy(horizon):
    """Predicted and measured errors; for two horizons, also drawn."""
    noise = Noise.fresh()
    budgets = {
        "pure": PureDP(epsilon=EPSILON),
        f"delta {DELTA}": ApproxDP(epsilon=EPSILON, delta=DELTA),
    }
    simple = mean_squared_error(Simple(privacy=budgets["pure"], horizon=horizon)) ** 0.5
    named = contestants(horizon=horizon)
    drawn = list(named)
    named |= {
        f"best, {kind}": best(privacy=privacy, horizon=horizon) for kind, privacy in budgets.items()
    }
    goals = {"best, pure": PURE_GOALS, f"best, delta {DELTA}": DELTA_GOALS}
    compared = {}
    for name, counter in named.items():
        compared[name] = compare(
            name, counter, horizon=horizon, copies=COPIES[horizon], noise=noise
        )
        predicted, measured = compared[name].rms
        ratio, goal = predicted / simple, goals.get(name, {}).get(horizon)
        met = None if goal is None else ratio <= goal
        yield [horizon, name, described(counter), predicted, measured, ratio, goal, met]
    if horizon in DRAWN:
        # Predicted errors are lines, measured ones dots.
        steps = np.arange(1, horizon + 1)
        lines = [
            Line(name, steps, compared[name].predicted, dots=compared[name].measured)
            for name in drawn
        ]
        title = f"Error of a running sum, epsilon = {EPSILON}, T = {horizon}"
        y = "standard deviation of the running sum"
        draw(f"counters_{horizon}", line_chart(lines, title=title, x_label="step", y_label=y))


@measurement(
    "sqrt_toeplitz",
    keys="T",
    columns="maximum variance at unit sensitivity noise .3f | standard deviation .3f",
    goal="a maximum variance of 10.7 at T = 1024",
)
def toeplitz():
    for horizon in (16, 64, 365, 1024, 4096):
        counter = SqrtToeplitz(privacy=ZCDP(rho=0.5), horizon=horizon)
        most = counter.variance(np.arange(1, horizon + 1)).max()
        yield [horizon, most, most**0.5]


@measurement(
    "counters_endless",
    keys="budget | counter | noise for",
    columns="RMS over 4096 .2f | RMS over 65536 .2f",
)
def endless():
    """Counters without a horizon, over their first steps."""
    for privacy in (PureDP(epsilon=EPSILON), ApproxDP(epsilon=EPSILON, delta=DELTA)):
        for counter in candidates(privacy, None):
            errors = [mean_squared_error(counter, steps) ** 0.5 for steps in (4096, 65536)]
            kinds = [type(one).__name__ for one in (privacy, counter.privacy)]
            yield [kinds[0], described(counter), kinds[1], *errors]


def copied(state) -> None:
    for field in dataclasses.fields(state):
        getattr(state, field.name).copy()


@measurement(
    "counter_speed",
    keys="budget | counter | case",
    columns="step ms .1f | noise ms .1f | copy ms .1f | ratio .2f | goal met ?",
    goal="Simple, Block and BinaryTree take at most 3 times the floor at every kind of step",
)
def speed():
    """A step of a million rows, against drawing its noise and copying the state once."""
    noise, x = Noise.fresh(), np.random.default_rng(0).integers(0, 5, ROWS)
    clocks = {"first step": 0, "step 512 ends levels": 511, "own clocks": np.arange(ROWS) % 1000}
    for privacy in (PureDP(epsilon=0.5), ZCDP(rho=0.1)):
        for shape in (Simple(), Block(size=32), BinaryTree(), KaryTree(subtract=False)):
            counter = dataclasses.replace(shape, privacy=privacy, horizon=HORIZON)
            kind, name = type(privacy).__name__, type(counter).__name__
            start = counter.init(ROWS)
            for case, clock in clocks.items():
                state = dataclasses.replace(start, clock=np.broadcast_to(clock, ROWS).copy())
                at = noise.at(kind, name, case)
                works = (
                    lambda i: counter.step(state, x, at.at("step", i)),
                    lambda i: counter.atoms.draw(at.at("draw", i), ROWS),
                    lambda _: copied(state),
                )
                step, draw, copy = (1e3 * best_of(5, work)[0].seconds for work in works)
                ratio = step / (draw + copy)
                met = None if name == "KaryTree" else ratio <= 3
                yield [kind, name, case, step, draw, copy, ratio, met]


if __name__ == "__main__":
    main(__doc__)
