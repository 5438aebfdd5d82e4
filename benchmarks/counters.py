"""Error of the counters at epsilon = 0.5: root mean square over t <= T, as a ratio to the simple
counter, predicted and measured.

Goals: pure .82 (T = 128), .50 (1000), .33 (4096); with delta = 1e-6 .43 (1000), .245 (4096);
unit-noise maximum variance of SqrtToeplitz 10.7 at T = 1024. Also draws the papers' comparison
(PrivStream, figure 2: Simple, Block 8, Binary tree at T = 128 and 4096) with ours beside.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from results import FOLDER, save
from tailrace import ZCDP, ApproxDP, Noise, PureDP
from tailrace.counters import BinaryTree, Block, Counter, Simple, SqrtToeplitz, UnboundedBlock, best
from tailrace.counters.choice import candidates, mean_squared_error
from tailrace.report.chart import Line, line_chart

EPSILON, DELTA = "0.5", "1e-6"
PURE_GOALS, DELTA_GOALS = {128: 0.82, 1000: 0.50, 4096: 0.33}, {1000: 0.43, 4096: 0.245}
COPIES = {32: 4000, 128: 4000, 1000: 1000, 4096: 400}


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
        for part in ("size", "arity", "levels")
        if getattr(counter, part, None)
    ]
    return type(counter).__name__ + (f"({', '.join(options)})" if options else "")


def accuracy() -> None:
    noise, rows = Noise.fresh(), []
    budgets = {
        "pure": PureDP(epsilon=EPSILON),
        f"delta {DELTA}": ApproxDP(epsilon=EPSILON, delta=DELTA),
    }
    for horizon, copies in COPIES.items():
        simple = mean_squared_error(Simple(privacy=budgets["pure"], horizon=horizon)) ** 0.5
        named = contestants(horizon=horizon)
        named |= {
            f"best, {kind}": best(privacy=privacy, horizon=horizon)
            for kind, privacy in budgets.items()
        }
        for name, counter in named.items():
            result = compare(
                name, counter, horizon=horizon, copies=copies, noise=noise.at("accuracy", horizon)
            )
            predicted, measured = result.rms
            goal = {"best, pure": PURE_GOALS, f"best, delta {DELTA}": DELTA_GOALS}.get(
                name, {}
            ).get(horizon)
            met = "" if goal is None else "yes" if predicted / simple <= goal else "NO"
            numbers = [f"{predicted:.3f}", f"{measured:.3f}", f"{predicted / simple:.4f}"]
            rows.append([horizon, name, described(counter), *numbers, goal or "", met])
    save(
        "counters",
        [
            "T",
            "counter",
            "algorithm",
            "predicted RMS",
            "measured RMS",
            "ratio to Simple",
            "goal",
            "goal met",
        ],
        rows,
    )


def endless() -> None:
    """Counters without a horizon, over the first 4,096 and 65,536 steps."""
    rows = []
    for privacy in (PureDP(epsilon=EPSILON), ApproxDP(epsilon=EPSILON, delta=DELTA)):
        for counter in candidates(privacy, None):
            errors = [mean_squared_error(counter, steps) ** 0.5 for steps in (4096, 65536)]
            noise_for = type(counter.privacy).__name__
            rows.append(
                [
                    type(privacy).__name__,
                    described(counter),
                    noise_for,
                    *(f"{error:.2f}" for error in errors),
                ]
            )
    save(
        "counters_endless",
        ["budget", "counter", "noise for", "RMS over 4096", "RMS over 65536"],
        rows,
    )


def toeplitz() -> None:
    rows = []
    for horizon in (16, 64, 365, 1024, 4096):
        variance = SqrtToeplitz(privacy=ZCDP(rho=0.5), horizon=horizon).variance(
            np.arange(1, horizon + 1)
        )
        rows.append([horizon, f"{variance.max():.3f}", f"{variance.max() ** 0.5:.3f}"])
    save(
        "sqrt_toeplitz",
        ["T", "maximum variance at unit sensitivity noise", "standard deviation"],
        rows,
    )


def figure() -> None:
    noise = Noise.fresh()
    for horizon in (128, 4096):
        named = contestants(horizon=horizon)
        compared = [
            compare(
                name,
                counter,
                horizon=horizon,
                copies=COPIES[horizon],
                noise=noise.at("figure", horizon),
            )
            for name, counter in named.items()
        ]
        # Predicted errors are lines, measured ones dots.
        steps = np.arange(1, horizon + 1)
        lines = [Line(one.name, steps, one.predicted, dots=one.measured) for one in compared]
        title = f"Error of a running sum, epsilon = {EPSILON}, T = {horizon}"
        svg = line_chart(
            lines, title=title, x_label="step", y_label="standard deviation of the running sum"
        )
        (FOLDER / f"counters_{horizon}.svg").write_text(svg + "\n")
        print(f"results/counters_{horizon}.svg")


if __name__ == "__main__":
    accuracy()
    toeplitz()
    endless()
    figure()
