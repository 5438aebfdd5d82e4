"""Quarterly poverty rates from a monthly panel, with synthetic households who persist.

python examples/quarterly_poverty.py            # follow 23,374 generated households through a year
python examples/quarterly_poverty.py report     # many runs against the truth, as poverty.html
"""

import sys
from pathlib import Path

import numpy as np
import polars as pl

import tailrace as tr

HOUSEHOLDS, MONTHS = 23_374, 12
QUESTIONS = {
    "in at least one month": tr.queries.AtLeast(times=1, of=3),
    "in at least two months": tr.queries.AtLeast(times=2, of=3),
    "in at least two months in a row": tr.queries.Spell(times=2, of=3),
    "in all three months": tr.queries.AtLeast(times=3, of=3),
}


def households() -> np.ndarray:
    """(months, households), 1 where one is in poverty: 11 % are, and 7 % of those leave it each
    month.
    """
    rng = np.random.default_rng(2021)
    poor = np.zeros((MONTHS, HOUSEHOLDS), np.int64)
    poor[0] = rng.random(HOUSEHOLDS) < 0.11
    for month in range(1, MONTHS):
        draw = rng.random(HOUSEHOLDS)
        poor[month] = np.where(poor[month - 1] == 1, draw >= 0.07, draw < 0.07 * 0.11 / 0.89)
    return poor


def follow(poor: np.ndarray) -> None:
    panel = tr.PanelWindow(
        domain=tr.Schema(poor=tr.Integer(0, 1)),
        unit=tr.User(column="household"),
        window=3,
        horizon=MONTHS,
        privacy=tr.ZCDP(rho=0.005),
        neighbours=tr.AddRemove,
        complete=True,
    )
    stream = tr.Stream(panel)
    for month in range(MONTHS):
        release = stream.push(
            pl.DataFrame({"household": np.arange(HOUSEHOLDS), "poor": poor[month]})
        )
        if (month + 1) % 3 == 0:
            print(f"\nQuarter {(month + 1) // 3}: share of households in poverty")
            for words, query in QUESTIONS.items():
                found = release.view.proportion(query)
                truth = query.weights([0, 1])[tuple(poor[month - 2 : month + 1])].mean()
                print(
                    f"  {words:<32} {found.value:7.4f} +- {found.error:.4f}   (true: {truth:.4f})"
                )
    print(f"\n{release.view.panel.head(5)}")
    print(f"\n{release.guarantee}")


def report(poor: np.ndarray, to: Path, repetitions: int = 300) -> None:
    from tailrace.report.runs import panel_report

    options = {"privacy": tr.ZCDP(rho=0.005), "neighbours": tr.AddRemove, "noise": tr.Noise.fresh()}
    to.write_text(panel_report(poor, repetitions=repetitions, generated=True, **options))
    print(f"Wrote {to}.")


if __name__ == "__main__":
    if sys.argv[1:] == ["report"]:
        report(households(), Path("poverty.html"))
    else:
        follow(households())
