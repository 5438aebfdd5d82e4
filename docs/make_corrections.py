"""Write explanation/corrections.md from the exhibits and the committed results.

    python docs/make_corrections.py

The figures come from benchmarks/results/corrections_*.csv, made by benchmarks/corrections.py.
"""
# ruff: noqa: E501 (lines of a page)

import csv
import math
from pathlib import Path

from tailrace.audit.exhibits import EXHIBITS, Exhibit, told
from tailrace.audit.losses.replaying import Points

HERE = Path(__file__).parent
RESULTS = HERE.parent / "benchmarks" / "results"
PAGE = HERE / "explanation" / "corrections.md"
# Points of a table at most.
MOST = 9
HEAD = """\
# Where published guarantees fail

We implement five texts, and found that some of their guarantees do not hold as printed. This page is for their authors and readers: for each claim its place, a
counterexample, the exact loss, the correction, what the correction costs, and the command that computes it again. `tailrace audit --gallery` makes all of it, with plots, in
a minute; the published versions are in [`audit/gallery.py`](../../src/tailrace/audit/gallery.py), as printed, and no stream accepts them.

A loss is a multiple of the claim: above 1 the claim is refuted. *Infinite* means an outcome that is possible in one of two neighbouring worlds only. "Ours" is the same event
where it can be asked of the corrected version, otherwise the largest loss that the [replay meter](../how-to/audit.md) finds in it. Several events are improbable: they refute pure
epsilon as claimed, and do not by themselves show a large (epsilon, delta) leak. Figures: `benchmarks/results/corrections_losses.csv`, `corrections_noise.csv` and
`corrections_privstream.csv`, made by `benchmarks/corrections.py`. If we have misread a text, please [tell us](../../SECURITY.md).

The methods themselves stand: every one of them is here, corrected (`tailrace.papers`), most at little cost.
"""
TREES = """\
## What the corrected tree of PrivStream costs

Mean relative error on small, medium and large rectangles, epsilon = 1, {seeds}. "As printed" draws the tree on the released counts plus the net change, with lambda as printed;
"corrected" draws it on nonnegative consistent counts and insertions alone, with kappa constants and the same share for the leaves' counters. The last comparison gives the printed rule
the corrected lambda, so that only the rule differs. A negative cost is a gain: the printed versions spend three quarters of epsilon.
Where only the rule differs the cost is within the noise of the measurement; the rest comes of lambda, which decides how fine the tree is.

"""
OTHERS = """\
## Of accuracy only, and slips of the pen

| published | finding | here | test |
|---|---|---|---|
| Panels: "exactly b times between t1 and t2" as S_b(t2) - S_{b-1}(t1) (Bun et al., section 1.1) | Not an identity: one person with the value at every step, t1 = 3, t2 = 6, b = 3 gives 0 where 1 is true. | `queries.Between`, from differences of counters; windows for "at least b" | `tests/unit/mechanisms/panel/test_columns.py` |
| A count over m bins is off by at most 2 sqrt(2) C ln(2 / sigma) / epsilon_2, for any m (Li et al., Theorem 5.1) | Lemma 5.1 asks for gamma >= b sqrt(m): it holds for m <= ln(2 / sigma) alone; over 64 bins it is exceeded far more often than sigma. | sqrt(max(m, ln(2 / sigma))) in the place of sqrt(ln(2 / sigma)) | `tests/unit/papers/test_theorems.py` |
| e_i = abs(E_i - delta) / delta, and a k that uses n (Li et al., Theorem 5.4) | n is private, and a controller pushes hardest where it is on target. | public numbers; max(0, E_i - delta) / delta | `tests/unit/mechanisms/snapshot/test_snapshot.py` |
| The text's r(t, i) (tabular stream, section 6.2) | Its condition is the other way round than Algorithm 3's lines 16 and 21. | the algorithm's | `tests/unit/papers/test_tabular_steps.py` |
| The number of cells is subtracted from a mean error (tabular stream, section 7.2) | A perfect fit of 2 x 2 cells is chosen before an error of 100,000. | the expected noise is subtracted from the sum | `tests/audit/test_tabular.py` |
| Weights of points that peak in the middle (dissertation, equation 5.10) | They sum to one, so it is private, but not what the text says. | 2^-min(i-1, t-i), normalised, in whole numbers | `tests/unit/counting/journeys/test_journeys.py` |

"""
PROOF = """\
## The proof for counters fed adaptively

*Pure.* Suppose P_x(a) <= e^epsilon P_x'(a) for every pair of fixed neighbouring streams and every output a. Let the inputs depend on past outputs. For
a fixed output a the inputs x(a) and x'(a) are fixed neighbouring streams, and the adaptive probability of a is P_x(a)(a). So the same bound holds.

*Gaussian.* Atoms y_t = (C x)_t + z_t with C lower triangular: given the past outputs, each y_t is a Gaussian shifted by at most the
row's sensitivity; Renyi divergences of such a chain add up along every path, so a total squared shift of at most 2 rho sigma^2 on every path
gives rho-zCDP. An atom must be complete when it is drawn. That is why `KaryTree` with subtraction, whose
estimates use noise of intervals that have not ended, takes Laplace noise only.
"""


def rows(name: str) -> list[dict[str, str]]:
    """Committed results."""
    with (RESULTS / f"corrections_{name}.csv").open() as file:
        return list(csv.DictReader(file))


def number(text: str) -> float | str:
    """A cell: a whole number, another one, or text."""
    try:
        value = float(text)
    except ValueError:
        return text
    return int(value) if math.isfinite(value) and value == int(value) else value


def section(exhibit: Exhibit, points: Points, noise: list[dict[str, str]]) -> str:
    """One flaw, from claim to script."""
    published, ours = exhibit.summary(points)
    lines = [
        f"## {exhibit.title}",
        "",
        f"**Claim** ({exhibit.paper}, {exhibit.place}). {exhibit.claim}",
        "",
        f"**Counterexample.** {exhibit.event}",
        "",
        f"**{'Loss' if exhibit.what == 'privacy' else 'Finding'}** ({exhibit.evidence}; {exhibit.y}). "
        f"Published {published}, ours {ours}.",
        "",
    ]
    if len(points) > 1:
        some = points[:: -(-len(points) // MOST)]
        some = some if points[-1] in some else [*some, points[-1]]
        lines.append("| " + " | ".join([exhibit.x, *(f"{point[0]:,}" for point in some)]) + " |")
        lines.append("|---" * (len(some) + 1) + "|")
        values = {"published": [one[1] for one in some], "ours": [one[2] for one in some]}
        lines += [f"| {name} | {' | '.join(map(told, each))} |" for name, each in values.items()]
        lines.append("")
    costs = "; ".join(
        f"{row['setting']}: {float(row['as printed']):.3g} to {float(row['corrected']):.3g} "
        f"({float(row['cost %']):+.0f} %)"
        for row in noise
    )
    lines += [f"**Correction.** {exhibit.correction}", ""]
    lines += [f"**Cost.** {exhibit.paid}{f' Noise {costs}.' if costs else ''}", ""]
    lines += [f"**Again.** `tailrace audit --gallery {exhibit.name}`", ""]
    return "\n".join(lines)


def trees() -> str:
    """Errors of PrivStream, as printed and corrected."""
    found = {(row["data"], row["version"], row["method"]): row for row in rows("privstream")}
    lines = ["| stream | version | as printed | corrected | cost |", "|---|---|---|---|---|"]
    for data, version in dict.fromkeys(key[:2] for key in found):
        printed, corrected = (
            [float(found[data, version, method][kind]) for kind in ("small", "medium", "large")]
            for method in ("as printed", "corrected")
        )
        cells = [" / ".join(f"{one:.3f}" for one in each) for each in (printed, corrected)]
        pairs = zip(printed, corrected, strict=True)
        cost = " / ".join(f"{100 * (new / old - 1):+.0f} %" for old, new in pairs)
        lines.append(f"| {data} | {version} | {cells[0]} | {cells[1]} | {cost} |")
    seeds = "means of 4 noise seeds, whose standard errors are in the results"
    return TREES.format(seeds=seeds) + "\n".join(lines) + "\n\n"


def page() -> str:
    """The page as it should be."""
    points: dict[str, Points] = {name: [] for name in EXHIBITS}
    for row in rows("losses"):
        if row["exhibit"] in points:
            at = number(row["at"])
            points[row["exhibit"]].append((at, float(row["published"]), float(row["ours"])))
    noise = rows("noise")
    sections = [
        section(one, points[one.name], [row for row in noise if row["exhibit"] == one.name])
        for one in EXHIBITS.values()
    ]
    return "\n".join([HEAD, *sections]) + "\n" + trees() + OTHERS + PROOF


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{PAGE.name} written")
