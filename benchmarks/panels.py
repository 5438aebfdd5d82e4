"""Panels against the published methods, at the same guarantee: errors, bias, bounds, coverage and
speed.

Goals, on a generated persistent panel of 23,374 people, T = 12, k = 3, rho = .005, 1,000
repetitions: RMS error of the windows at most .85 of the published method with padding taken off
(AddRemove) and no worse under Replace; of the weights at most .62 under Null; 1,000 repetitions in
under 60 s; a step of ten million people in under 10 s. Errors are of the synthetic people, who are
clipped and rounded; those of `estimate`, which is not, stand beside. Real panels are read from
TAILRACE_DATA or from ../shared/data beside the checkout, where they are there; their first 12 steps
are taken, in 200 repetitions.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from results import save
from tailrace import (
    ZCDP,
    AddRemove,
    Integer,
    Noise,
    Null,
    PanelCumulative,
    PanelWindow,
    Replace,
    Schema,
    Stream,
    User,
    papers,
)
from tailrace.counting.plan import Counts
from tailrace.mechanisms.panel.queries import AtLeast, Pattern, Spell
from tailrace.metrics.panels import cumulative_bound, weight_counts, window_bound, window_counts

N, STEPS, WINDOW, RHO, REPETITIONS = 23_374, 12, 3, "0.005", 1000
DOMAIN, UNIT = Schema(poor=Integer(0, 1)), User(column="id")
REAL = ("credit_delay", "cdnow_bought", "actcal_notworking", "mvad_jobless")
QUARTER = {
    "at least 1 of 3": AtLeast(times=1, of=3),
    "at least 2 of 3": AtLeast(times=2, of=3),
    "2 in a row": Spell(times=2, of=3),
    "all 3": AtLeast(times=3, of=3),
}


def generated(
    people: int = N, steps: int = STEPS, share: float = 0.11, leave: float = 0.07
) -> np.ndarray:
    """(steps, people): 11 % are poor; 7 % of them leave poverty each month, and as many enter
    it.
    """
    rng = np.random.default_rng(0)
    panel = np.zeros((steps, people), np.int64)
    panel[0] = rng.random(people) < share
    for t in range(1, steps):
        draw = rng.random(people)
        panel[t] = np.where(panel[t - 1] == 1, draw >= leave, draw < leave * share / (1 - share))
    return panel


def real(name: str) -> np.ndarray | None:
    import polars as pl

    folder = os.environ.get("TAILRACE_DATA") or Path(__file__).parents[2] / "shared" / "data"
    path = Path(folder, "panels", f"{name}.parquet")
    if not path.exists():
        return None
    frame = pl.read_parquet(path)
    columns = sorted(
        column for column in frame.columns if column[0] == "t" and column[1:].isdigit()
    )[:STEPS]
    return frame.select(columns).to_numpy().T.astype(np.int64)


def repeated(mechanism, counts: list[np.ndarray], repetitions: int) -> tuple[list, float]:
    """What is released in each repetition, and the seconds they took."""
    start, released = time.perf_counter(), []
    for repetition in range(repetitions):
        state, noise = mechanism.init(), Noise.insecure(repetition)
        for step, count in enumerate(counts):
            state = mechanism.measure(state, Counts(count, 0 * count), noise.at(step)).state
        released.append(state.public)
    return released, time.perf_counter() - start


def window_runs(panel, neighbours, repetitions):
    """For each method: errors (repetitions, releases, windows) of people and of estimates, the last
    view, seconds.
    """
    steps, people = panel.shape
    truth = window_counts(panel, window=WINDOW)
    counts = [*np.zeros((WINDOW - 1, truth.shape[1]), np.int64), *truth]
    parts = {
        "domain": DOMAIN,
        "unit": UNIT,
        "window": WINDOW,
        "horizon": steps,
        "privacy": ZCDP(rho=RHO),
        "neighbours": neighbours,
    }
    for name, mechanism in (
        ("published", papers.panel_window(**parts)),
        ("ours", PanelWindow(**parts)),
    ):
        released, seconds = repeated(mechanism, counts, repetitions)
        shown = np.array([public.histograms for public in released]) - mechanism.padding - truth
        estimates = np.array([public.estimates for public in released])
        yield (
            name,
            shown / people,
            (estimates - truth) / people,
            estimates,
            mechanism.view(released[-1]),
            seconds,
        )


def cumulative_runs(panel, neighbours, repetitions):
    steps, people = panel.shape
    truth = weight_counts(panel)
    reached = np.diff(np.hstack([np.full((steps, 1), people), truth]), axis=0, prepend=0)
    parts = {
        "domain": DOMAIN,
        "unit": UNIT,
        "horizon": steps,
        "privacy": ZCDP(rho=RHO),
        "neighbours": neighbours,
        "people": None if neighbours is AddRemove else people,
    }
    asked = np.tril_indices(steps)
    for name, mechanism in (
        ("published", papers.panel_cumulative(**parts)),
        ("ours", PanelCumulative(**parts)),
    ):
        released, seconds = repeated(mechanism, list(reached), repetitions)
        shown = np.array([public.totals[:, 1:] for public in released]) - truth
        estimates = np.array([public.estimates[:, 1:] for public in released]) - truth
        errors = np.sqrt(mechanism.variances[:, 1:])
        yield (
            name,
            *(part[:, asked[0], asked[1]] / people for part in (shown, estimates)),
            errors[asked] / people,
            seconds,
        )


def rms(errors: np.ndarray) -> float:
    return float(np.sqrt((errors**2).mean()))


def accuracy(name: str, panel: np.ndarray, repetitions: int, goals: bool) -> tuple[list, list]:
    """Rows of results, and the bias of each window under AddRemove."""
    rows, bias = [], []
    steps, people = panel.shape
    for neighbours, goal in ((AddRemove, 0.85), (Replace, 1.0)):
        found = {}
        bound = window_bound(
            people=people,
            horizon=steps,
            window=WINDOW,
            rho=float(RHO),
            beta=0.05,
            replaced=neighbours is Replace,
        )
        for method, shown, estimated, values, view, seconds in window_runs(
            panel, neighbours, repetitions
        ):
            found[method] = rms(shown)
            ratio = found[method] / found["published"]
            covered = window_coverage(panel, values, view)
            within = float((np.abs(shown).max(axis=(1, 2)) <= bound).mean())
            numbers = [
                rms(shown),
                np.abs(shown).mean(),
                np.abs(shown).max(axis=(1, 2)).mean(),
                rms(estimated),
            ]
            met = (
                ""
                if not goals or method == "published"
                else "yes"
                if ratio <= goal and seconds < 60
                else "NO"
            )
            rows.append(
                line(
                    name,
                    panel,
                    "windows",
                    neighbours,
                    method,
                    numbers,
                    ratio,
                    within,
                    covered,
                    seconds,
                    met,
                )
            )
            if neighbours is AddRemove:
                for window in range(shown.shape[2]):
                    pattern = f"{window:0{WINDOW}b}"
                    share = window_counts(panel, window=WINDOW)[:, window].mean() / people
                    mean = [f"{part[:, :, window].mean():.6f}" for part in (shown, estimated)]
                    doubt = estimated[:, :, window].mean(axis=1).std() / repetitions**0.5
                    bias.append([name, method, pattern, f"{share:.5f}", *mean, f"{doubt:.6f}"])
    for neighbours, goal in ((Null, 0.62), (Replace, None), (AddRemove, None)):
        found, bound = {}, cumulative_bound(people=people, horizon=steps, rho=float(RHO), beta=0.05)
        for method, shown, estimated, errors, seconds in cumulative_runs(
            panel, neighbours, repetitions
        ):
            found[method] = rms(shown)
            ratio = found[method] / found["published"]
            covered = float((np.abs(estimated) <= 1.96 * errors).mean())
            within = float((np.abs(shown).max(axis=1) <= bound).mean())
            numbers = [
                rms(shown),
                np.abs(shown).mean(),
                np.abs(shown).max(axis=1).mean(),
                rms(estimated),
            ]
            met = (
                ""
                if not goals or method == "published" or goal is None
                else "yes"
                if ratio <= goal and seconds < 60
                else "NO"
            )
            rows.append(
                line(
                    name,
                    panel,
                    "weights",
                    neighbours,
                    method,
                    numbers,
                    ratio,
                    within,
                    covered,
                    seconds,
                    met,
                )
            )
    return rows, bias


def window_coverage(panel, values, view) -> float:
    """How often the truth lies within 1.96 standard errors: each window, and the questions of each
    quarter.
    """
    hits = []
    queries = [
        *(Pattern(*map(int, f"{window:0{WINDOW}b}")) for window in range(2**WINDOW)),
        *QUARTER.values(),
    ]
    for query in queries:
        weights = query.weights([0, 1])
        for release in range(values.shape[1]):
            step = release + WINDOW
            truth = weights[tuple(panel[step - WINDOW : step])].sum()
            error = view.estimate(query, step=step).error
            hits.append(np.abs(values[:, release] @ weights.ravel() - truth) <= 1.96 * error)
    return float(np.mean(hits))


def line(name, panel, kept, neighbours, method, numbers, ratio, within, covered, seconds, met):
    steps, people = panel.shape
    shown = [f"{number:.5f}" for number in numbers]
    return [
        name,
        f"{people:,} x {steps}",
        kept,
        repr(neighbours),
        method,
        *shown,
        f"{ratio:.3f}",
        f"{within:.3f}",
        f"{covered:.3f}",
        f"{seconds:.1f}",
        met,
    ]


def ten_million() -> None:
    """A kept stream of ten million people, in this process: seconds and megabytes of each step."""
    import polars as pl

    people, rng = 10_000_000, np.random.default_rng(0)
    ids = rng.permutation(people)
    mechanism = PanelWindow(
        domain=DOMAIN,
        unit=UNIT,
        window=WINDOW,
        horizon=STEPS,
        privacy=ZCDP(rho=RHO),
        neighbours=AddRemove,
    )
    taken = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Stream.create(Path(folder) / "p.tail", mechanism, population="p") as stream,
    ):
        for _ in range(STEPS):
            frame = pl.DataFrame({"id": ids, "poor": (rng.random(people) < 0.11).astype(np.int8)})
            start, work = time.perf_counter(), time.process_time()
            stream.push(frame)
            taken.append((time.perf_counter() - start, time.process_time() - work))
        memory = sum(
            file.stat().st_size
            for file in (Path(folder) / "p.tail" / "private" / "memory").rglob("*")
        )
    status = dict(text.split(":", 1) for text in Path("/proc/self/status").read_text().splitlines())
    print(json.dumps([taken, memory / people, int(status["VmHWM"].split()[0]) * 1024 / people]))


def main() -> None:
    rows, bias = accuracy("generated", generated(), REPETITIONS, goals=True)
    for name in REAL:
        panel = real(name)
        if panel is not None:
            more = accuracy(name, panel, 200, goals=False)
            rows, bias = rows + more[0], bias + more[1]
    header = [
        "panel",
        "people x steps",
        "kept",
        "neighbours",
        "method",
        "RMS",
        "mean",
        "mean worst",
        "RMS of estimate",
    ]
    header += [
        "ratio of RMS",
        "within the published bound (95 %)",
        "coverage of 95 % intervals",
        "seconds",
        "goal met",
    ]
    save("panels", header, rows)
    header = [
        "panel",
        "method",
        "window",
        "true share",
        "bias of people",
        "bias of estimate",
        "its standard error",
    ]
    save("panel_bias", header, bias)
    output = subprocess.run(
        [sys.executable, __file__, "ten million"], check=True, capture_output=True, text=True
    ).stdout
    taken, memory, peak = json.loads(output)
    mean, slowest = np.mean(taken, axis=0), max(seconds for seconds, _ in taken)
    row = [
        "10,000,000",
        f"{mean[0]:.1f}",
        f"{slowest:.1f}",
        f"{mean[1]:.1f}",
        f"{memory:.1f}",
        f"{peak:.0f}",
    ]
    save(
        "panel_speed",
        [
            "people",
            "mean seconds a step",
            "slowest",
            "mean processor seconds",
            "bytes of memory segment a person",
            "peak bytes of RAM a person",
            "goal met",
        ],
        [[*row, "yes" if slowest < 10 else "NO"]],
    )


if __name__ == "__main__":
    ten_million() if sys.argv[1:] else main()
