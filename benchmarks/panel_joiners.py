"""Panels that people join late, leave early or report to with gaps: coverage, bias, errors.

5,000 generated people over 8 steps, and nlswork, an unbalanced survey; rho = .05, windows of three
steps. Settings were chosen on generated panels of seeds 0 to 2; the rows are of seeds 100 to 103
and of nlswork, which nothing was chosen on. Beside `Missing.Absent`, the default, stands what was
the default before, `Missing.Carry`, and on the complete panel `complete=True`. Biases and errors of
people are in standard errors of the answer, the largest over all steps and questions.
"""

import numpy as np
import polars as pl

from runner import data, main, measurement
from tailrace import (
    ZCDP,
    AddRemove,
    Integer,
    Missing,
    Noise,
    PanelCumulative,
    PanelWindow,
    Replace,
    Schema,
    User,
)
from tailrace.counting.plan import Counts
from tailrace.mechanisms.panel.queries import AtLeast, Pattern, Spell
from tailrace.metrics.panels import window_counts

WINDOW = 3
ABOUT = {
    "domain": Schema(poor=Integer(0, 1)),
    "unit": User(column="id"),
    "privacy": ZCDP(rho="0.05"),
}
# Shares of 5,000 people.
JOINERS = {
    "complete": {},
    "5 % late": {"late": 0.05},
    "30 % late": {"late": 0.3},
    "30 % leave": {"leave": 0.3},
    "10 % gaps": {"gaps": 0.1},
    "all three": {"late": 0.3, "leave": 0.3, "gaps": 0.1},
}
ASKED = [
    Pattern(1),
    Pattern(0, 1),
    AtLeast(times=1, of=3),
    AtLeast(times=2, of=3),
    Spell(times=2, of=3),
    AtLeast(times=3, of=3),
]
FRESH = range(100, 104)


def joining(seed: int, late: float = 0.0, leave: float = 0.0, gaps: float = 0.0) -> np.ndarray:
    """(8 steps, 5,000 people): 0, 1, or 2 where a person is absent."""
    rng, steps, people = np.random.default_rng(seed), 8, 5000
    panel, at = np.zeros((steps, people), np.int64), np.arange(steps)[:, None]
    panel[0] = rng.random(people) < 0.3
    for t in range(1, steps):
        stays = rng.random(people) < 0.85
        panel[t] = np.where(stays, panel[t - 1], rng.random(people) < 0.3)
    absent = (rng.random(people) < late) & (at < rng.integers(1, steps, people))
    absent |= (rng.random(people) < leave) & (at >= rng.integers(1, steps, people))
    panel[absent | (rng.random((steps, people)) < gaps)] = 2
    return panel


def nlswork(column: str) -> np.ndarray:
    """(waves, women): 0, 1, or 2 where a woman did not answer."""
    table = pl.read_parquet(data("tables", "nlswork.parquet")).select("idcode", "year", column)
    wide = table.drop_nulls().pivot(on="year", index="idcode", values=column)
    waves = sorted(wide.columns[1:], key=int)
    return wide.select(waves).fill_null(2).to_numpy().T.astype(np.int64)


def carried(panel: np.ndarray) -> list[np.ndarray]:
    """Counts of windows where a missing report is the last one, from a person's first on."""
    filled = panel.copy()
    for t in range(1, len(panel)):
        filled[t] = np.where(panel[t] == 2, filled[t - 1], panel[t])
    powers, found = 2 ** np.arange(WINDOW)[::-1], []
    for t in range(1, len(panel) + 1):
        rows = filled[max(0, t - WINDOW) : t]
        known = (rows < 2).all(axis=0) & (t >= WINDOW)
        ends = powers[-len(rows) :] @ rows[:, known]
        found.append(np.bincount(ends, minlength=2**WINDOW))
    return found


def shares(histogram: np.ndarray, query, symbols: int) -> float:
    """Of people with these windows, the share of those present that a query holds for."""
    inside = np.zeros((symbols,) * query.length)
    inside[(slice(2),) * query.length] = 1
    asked = query.weights([0, 1, None][:symbols]) * inside
    table = histogram.reshape((-1, *(symbols,) * query.length)).sum(axis=0)
    return float((asked * table).sum() / max((inside * table).sum(), 1))


def released(mechanism, counts, seed):
    """The last view of a run."""
    state, noise = mechanism.init(), Noise.insecure(seed)
    for step, count in enumerate(counts):
        state = mechanism.measure(state, Counts(count, 0 * count), noise.at(step)).state
    return mechanism.view(state.public)


def joined_errors(panel, mechanism, counts, repetitions, first):
    """Errors (queries, steps, runs) of answers and of people, and the answers' errors."""
    symbols = mechanism.symbols
    truths = [*np.zeros((WINDOW - 1, 27)), *window_counts(panel, window=WINDOW, values=3)]
    steps = range(WINDOW, len(panel) + 1)
    found = np.zeros((3, len(ASKED), len(steps), repetitions))
    for run in range(repetitions):
        view = released(mechanism, counts, first + run)
        for q, query in enumerate(ASKED):
            for t, step in enumerate(steps):
                truth, answer = (
                    shares(truths[step - 1], query, 3),
                    view.proportion(query, step=step),
                )
                people = shares(view.histograms[t], query, symbols)
                found[:, q, t, run] = answer.value - truth, people - truth, answer.error
    return found


@measurement(
    "panel_joiners",
    keys="panel | people x steps | neighbours | missing",
    columns="coverage, all questions .3f | the lowest .3f | the highest .3f"
    " | standard error of a share .5f | largest bias of answers in SE .2f"
    " | largest bias of people in SE .2f | RMS of people in SE .2f | goal met ?",
    cases=[
        *((name,) for name in JOINERS),
        *((f"nlswork {name}",) for name in ("msp", "union", "south")),
    ],
    goal="coverage .93 to .97 of every question, bias of people under 1.5 SE",
)
def joiners(name, seeds=100):
    fresh = name in JOINERS
    panels = (
        [joining(seed, **JOINERS[name]) for seed in FRESH] if fresh else [nlswork(name.split()[1])]
    )
    many = max(seeds // len(panels), 2)
    for neighbours in (AddRemove, Replace):
        for missing, complete in (
            (Missing.Carry, False),
            (Missing.Carry, True),
            (Missing.Absent, False),
        ):
            if (neighbours is Replace and not complete and missing is Missing.Carry) or (
                complete and name != "complete"
            ):
                continue
            parts = {**ABOUT, "neighbours": neighbours}
            results = []
            for number, panel in enumerate(panels):
                mechanism = PanelWindow(
                    **parts, window=WINDOW, horizon=len(panel), missing=missing, complete=complete
                )
                counts = [*np.zeros((WINDOW - 1, 27), np.int64)]
                counts += [*window_counts(panel, window=WINDOW, values=3)]
                if missing is Missing.Carry:
                    counts = carried(panel)
                results.append(joined_errors(panel, mechanism, counts, many, 1000 * number))
            answers, people, errors = np.concatenate(results, axis=3)
            covered = (np.abs(answers) <= 1.96 * errors).mean(axis=(1, 2))
            scale = errors.mean(axis=2)
            biases = [np.abs(part.mean(axis=2) / scale).max() for part in (answers, people)]
            spread = float(np.sqrt((people**2).mean(axis=2) / scale**2).mean())
            met = covered.min() >= 0.93 and covered.max() <= 0.97 and biases[1] < 1.5
            size = f"{panels[0].shape[1]:,} x {len(panels[0])}"
            key = [name, size, repr(neighbours), "complete=True" if complete else missing.name]
            numbers = [covered.mean(), covered.min(), covered.max(), errors[0].mean()]
            yield [*key, *numbers, *biases, spread, met if missing is Missing.Absent else None]


@measurement(
    "panel_joiners_weights",
    keys="panel | people x steps | neighbours",
    columns="coverage, all questions .3f | standard error of a share .5f"
    " | largest bias of people in SE .2f | goal met ?",
    cases=[*((name,) for name in JOINERS), ("nlswork msp",), ("nlswork union",)],
    goal="coverage .93 to .97, bias of people under 1.5 SE",
)
def joined_weights(name, seeds=100):
    """At least 1, 2 and 3 times so far, among those seen so far; one generated panel, seed 100."""
    panel = joining(FRESH[0], **JOINERS[name]) if name in JOINERS else nlswork(name.split()[1])
    steps, people = panel.shape
    seen, weights = np.cumsum(panel < 2, axis=0) > 0, np.cumsum(panel == 1, axis=0)
    counts = np.zeros((steps, steps + 1), np.int64)
    counts[:, 0] = np.diff(seen.sum(axis=1), prepend=0)
    for step in range(steps):
        np.add.at(counts[step], weights[step][panel[step] == 1], 1)
    asked = [(t, b) for t in range(steps) for b in (1, 2, 3) if b <= t + 1]
    truths = np.array([(weights[t] >= b)[seen[t]].mean() for t, b in asked])
    for neighbours in (AddRemove, Replace):
        parts = {**ABOUT, "neighbours": neighbours}
        mechanism, found = PanelCumulative(**parts, horizon=steps), []
        for seed in range(seeds):
            view = released(mechanism, counts, seed)
            assert view is not None
            answers = [view.proportion(AtLeast(times=b, of=t + 1), step=t + 1) for t, b in asked]
            shown = [view.totals[t, b] / max(view.totals[t, 0], 1) for t, b in asked]
            found.append(
                [(one.value, one.error, many) for one, many in zip(answers, shown, strict=True)]
            )
        values, errors, shown = np.moveaxis(np.array(found), 2, 0)
        covered = (np.abs(values - truths) <= 1.96 * errors).mean()
        bias = np.abs((shown - truths).mean(axis=0) / errors.mean(axis=0)).max()
        met = 0.93 <= covered <= 0.97 and bias < 1.5
        key = [name, f"{people:,} x {steps}", repr(neighbours)]
        yield [*key, covered, errors.mean(), bias, met]


if __name__ == "__main__":
    main(__doc__)
