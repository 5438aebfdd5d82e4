"""The gallery: every published flaw that is corrected here.

An exhibit says what was claimed and where, the worlds and the event that refute it, the correction,
and computes the published loss beside ours. docs/explanation/corrections.md is made of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from tailrace.audit.losses import counters, panels, snapshots, tables, trajectories, trees
from tailrace.audit.losses.replaying import Points

PRIVSTREAM = "PrivStream (Kumar, Strohmer, Vershynin)"
PANELS = "Panels (Bun, Gaboardi, Neunhoeffer, Zhang)"
TABLES = "Tabular stream (Kumar, Strohmer, Vershynin)"
SNAPSHOTS = "DSFT and DSAT (Li, Xiong, Jiang, Liu)"
DISSERTATION = "Kumar's dissertation"


def _no_cost() -> Iterator[tuple[str, float, float]]:
    return iter(())


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """One published claim and its counterexample.

    what: "privacy", where more is lost than claimed, or "accuracy".
    evidence: "exact" or "measured".
    x, y: the names of the points' axes; y is a multiple of the claim where privacy is lost.
    cost: (setting, noise as printed, noise as corrected).
    """

    name: str
    title: str
    paper: str
    place: str
    claim: str
    event: str
    correction: str
    points: Callable[[], Points]
    x: str
    y: str = "loss / claim"
    what: Literal["privacy", "accuracy"] = "privacy"
    evidence: Literal["exact", "measured"] = "exact"
    cost: Callable[[], Iterator[tuple[str, float, float]]] = _no_cost
    paid: str = ""

    def summary(self, points: Points) -> tuple[str, str]:
        """The largest published number, and ours beside it."""
        x, published, ours = max(points, key=lambda point: point[1])
        where = f"{self.x} = {x:,}" if isinstance(x, int | float) else x
        if math.isinf(published):
            finite = [point for point in points if math.isfinite(point[1])]
            most = f"; else up to {told(max(p[1] for p in finite))}" if finite else ""
            return f"infinite ({where}){most}", told(max(point[2] for point in points))
        return f"{told(published)} ({where})", told(ours)


def told(value: float) -> str:
    """A multiple, to three digits."""
    if math.isinf(value):
        return "infinite"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


_ALL = (
    Exhibit(
        name="binary-tree",
        title="The binary tree misses a level",
        paper=PRIVSTREAM,
        place="Appendix D, Algorithm 10",
        claim="A tree over T steps whose nodes have noise Lap(log2(T) / epsilon) is epsilon-DP.",
        event="One more event at step 1. It lies in bit_length(T) noisy nodes, one more than "
        "log2(T) at powers of two. The event: the estimates at 1, 2, 4, ..., T all "
        "exceed the truth. At T = 1 there is no noise at all.",
        correction="Noise of scale bit_length(T) / epsilon.",
        points=counters.binary_tree,
        x="T",
        cost=counters.binary_tree_noise,
        paid="The standard deviation of every node grows by one level in log2(T).",
    ),
    Exhibit(
        name="own-output",
        title="Selective counting is for pure counters",
        paper=PRIVSTREAM,
        place="Theorem 4.2 and its proof in Appendix E",
        claim="Counters that are epsilon-DP stay so when an algorithm that sees their "
        "outputs decides what they are fed.",
        event="True for pure DP, but the proof compares one step and calls all later "
        "outputs identical; as written it would hold for (epsilon, delta) too, where it "
        "is false. A counter prints a password of 20 bits at step 1, and the input of "
        "step 1 to whoever feeds it the password at step 2: (0, 2^-20)-DP on fixed "
        "streams. Fed its own output, it tells the input every time.",
        correction="Pure counters, by the proof below; Gaussian ones whose numbers depend "
        "on the past alone.",
        points=counters.own_output,
        x="",
        y="delta / claimed delta; ours: epsilon shown / claim",
        evidence="measured",
        paid="Nothing: the counters in use are pure, or Gaussian as said.",
    ),
    Exhibit(
        name="endless-block",
        title="Blocks of squares grow too fast",
        paper=TABLES,
        place="Algorithm 4, the unbounded block counter",
        claim="Parts of 4, 9, 16, ... steps give an error of order t^(1/4).",
        event="Private, but by time t there are about t^(2/3) noise terms: the error is "
        "t^(1/3). It is drawn here in units of t^(1/4), where a line that rises refutes "
        "the claim.",
        correction="Parts of 4^j steps in blocks of 2^j; the published ones are squares=True.",
        points=counters.endless_block,
        x="t",
        y="error / t^(1/4)",
        what="accuracy",
        paid="Nothing: the error falls.",
    ),
    Exhibit(
        name="panel-windows",
        title="A person replaced moves two windows",
        paper=PANELS,
        place="Algorithm 1, Theorem 3.1",
        claim="Noise of variance (T-k+1) / (2 rho) on every window's count is rho-zCDP.",
        event="n is fixed, so one person is replaced by another: two counts move, and the "
        "squared sensitivity is 2. One person of one step, 0 against 1: the Renyi "
        "divergence of order 2 is 2 where 1 is claimed (rho = 1/2).",
        correction="Noise by the named relation; differences of windows in place of raw bins.",
        points=panels.panel_windows,
        x="",
        y="rho lost / claimed",
        cost=panels.panel_windows_noise,
        paid="A replaced person costs sqrt(2) in noise. Differences of windows "
        "(`PanelWindow`) win back a factor of (1 + 1/k) / 2 in variance.",
    ),
    Exhibit(
        name="panel-weights",
        title="Trees of weights miss a level",
        paper=PANELS,
        place="Theorem 4.1 and Corollary B.1; Algorithms 2 and 3",
        claim="Nodes with noise of variance max(ceil(log2 T'), 1) / (2 rho_b) are rho-zCDP in all.",
        event="A person with the value at every step against one who never has it (n public). "
        "They lie in bit_length(T') nodes of each tree. Under replacement it is up to "
        "2.073 rho at T = 12; n itself is printed, so one who leaves is seen with "
        "certainty.",
        correction="bit_length(T-b+1) levels; Replace pays for moves between nodes; a noisy number "
        "of people under AddRemove.",
        points=panels.panel_weights,
        x="T",
        y="rho lost / claimed",
        paid="A level more at powers of two, in variance; under Replace more (see the loss).",
    ),
    Exhibit(
        name="panel-hats",
        title="Index sets without hats",
        paper=PANELS,
        place="Algorithms 1 and 2, the sets I_z and I",
        claim="Synthetic rows are made of noisy counts.",
        event="As printed, I_z ranges over real people: row i follows person i. Three people; "
        "row 3 is 1 although nobody of its prefix was given a 1: it happens where "
        "person 3 ended in 1, and never otherwise.",
        correction="Synthetic people are a function of released counts.",
        points=panels.panel_hats,
        x="",
        paid="Nothing: synthetic people are made of the same counts.",
    ),
    Exhibit(
        name="tree-on-noise",
        title="PrivTree on noisy counts",
        paper=PRIVSTREAM,
        place="Theorems 3.1 and 3.2; Algorithms 1, 5, 6 and 7; the proof in Appendix B",
        claim="PrivTree on the counts released before plus the new events is epsilon-DP.",
        event="The proof needs a child to hold no more than its parent. Released counts are "
        "noisy: with G(v_i) = i delta on a path, every node stands at the threshold, "
        "and one insertion moves each. The event: the path is split down to depth D "
        "(Algorithms 6 and 7, epsilon = 1).",
        correction="Nonnegative consistent counts on a grid, insertions alone decide, constants "
        "kappa, exact coins. `SpatialStream` needs no PrivTree.",
        points=trees.tree_on_noise,
        x="depth",
        paid="Measured below, as error on rectangles.",
    ),
    Exhibit(
        name="tree-on-deletions",
        title="PrivTree and deletions",
        paper=PRIVSTREAM,
        place="the same",
        claim="The same, with deletions.",
        event="Legal data, no rare noise: N points are spread over siblings and the root "
        "stays a leaf; then all are deleted and threshold + N come to one place. Every "
        "node of its path stands at the threshold of 200.",
        correction="Deletions are counted at leaves and never decide a split.",
        points=trees.tree_on_deletions,
        x="depth",
        paid="Measured below, as error on rectangles.",
    ),
    Exhibit(
        name="threshold-noise",
        title="Positives pay twice",
        paper=SNAPSHOTS,
        place="Theorems 4.1 and 4.2 (DSFT)",
        claim="Threshold noise Lap(2 Delta / epsilon_1) and distance noise Lap(2 C Delta / "
        "epsilon_1) lose epsilon_1 over C releases.",
        event="The threshold is moved by Delta to save the negatives; positives then move by "
        "2 Delta. Negatives at distance 0 and C - 1 positives at Delta, against the "
        "other way round.",
        correction="Scales divided as 1 : (2 c)^(2/3) with c = C - 1 positives: exactly epsilon_1.",
        points=snapshots.threshold_noise,
        x="C",
        cost=snapshots.threshold_scales,
        paid="Of noise on what is compared, not on what is released.",
    ),
    Exhibit(
        name="clamped-threshold",
        title="A clamped noisy threshold is public",
        paper=SNAPSHOTS,
        place="Algorithm 2 (DSAT), lines 7 and 8",
        claim="The noisy threshold may be moved and clamped to [0, 2].",
        event="At a bound it no longer depends on its noise. Each negative comparison then "
        "costs epsilon_1 / (2 C); C = 5, distances 0 against Delta, n negatives in a "
        "row. (At 10 negatives the loss is 1 with a probability of .001; at 100 the "
        "event is very rare.)",
        correction="Only the public part is clamped; the noise stays.",
        points=snapshots.clamped_threshold,
        x="negatives",
        paid="Nothing in noise.",
    ),
    Exhibit(
        name="private-scale",
        title="A scale that tells the number of people",
        paper=SNAPSHOTS,
        place="Lemma 4.1, Theorem 5.4",
        claim="Noise by the sensitivity 2 / (n - 1), n from the data.",
        event="The scale alone tells n from n + 1: for C = 1 and a threshold of 2, one "
        "positive costs half of epsilon_1 more.",
        correction="Integer distances, relative to a public number.",
        points=snapshots.private_scale,
        x="people",
        paid="A public number of people must be named; noise as before where it is right.",
    ),
    Exhibit(
        name="shared-threshold",
        title="One threshold for all windows",
        paper=SNAPSHOTS,
        place="Algorithm 3 (windows)",
        claim="epsilon_1 for everything inside w steps.",
        event="K positives and K negatives outside the window reveal the threshold's noise, "
        "on which 40 negatives inside rely (C = 2).",
        correction="The threshold is drawn again after each positive; C + 1 epochs share "
        "epsilon_1.",
        points=snapshots.shared_threshold,
        x="K",
        paid="Comparisons have noise for C + 1 epochs in place of one.",
    ),
    Exhibit(
        name="float-ledger",
        title="Ten tenths are less than one",
        paper=SNAPSHOTS,
        place="Algorithm 3, the remaining budget",
        claim="Releases stop when epsilon_rm = 0.",
        event="In floats C releases of epsilon / C leave something over: one more is let through.",
        correction="Integer units.",
        points=snapshots.float_ledger,
        x="C",
        y="releases / paid for",
        paid="One release in C + 1.",
    ),
    Exhibit(
        name="true-snapshot",
        title="The true snapshot between releases",
        paper=SNAPSHOTS,
        place="Algorithm 3, lines 5 and 13",
        claim="Between releases the last release stands.",
        event="Printed is D_j, the true data of that step: 10 people or 11, with certainty.",
        correction="The release stands.",
        points=snapshots.true_snapshot,
        x="",
        paid="The noise that was missing.",
    ),
    Exhibit(
        name="worst-first",
        title="The exponential mechanism turned round",
        paper=TABLES,
        place="Definition 3.8",
        claim="exp(-epsilon u / (2 Delta)) picks what has a large utility.",
        event="It picks the worst: the best of two that lie 10 apart, at epsilon = 1.",
        correction="exp(rate score), integer scores.",
        points=tables.worst_first,
        x="",
        y="P(the best is chosen)",
        what="accuracy",
        paid="Nothing: the best is chosen.",
    ),
    Exhibit(
        name="selection",
        title="A selection that costs twice its share",
        paper=TABLES,
        place="Algorithm 2 (streaming MWEM), line 10",
        claim="k selections with exp(epsilon / (2 k) e) and k measurements lose epsilon.",
        event="Errors of sensitivity 1 both ways: a selection spends epsilon / k. |Q| "
        "queries, all errors fall by one but that of query 1, which rises: query 1 is "
        "chosen.",
        correction="(epsilon_S / k) / 2 per unit of a score of sensitivity one.",
        points=tables.selection,
        x="queries",
        paid="The choice is half as sharp at the same share of the budget.",
    ),
    Exhibit(
        name="single-values",
        title="A sensitivity of one quarter",
        paper=TABLES,
        place="Algorithm 3, section 7.2",
        claim="A pair's mean error moves by at most 1/4.",
        event="It moves by 1 / |q|: by 1 where both attributes have a single value.",
        correction="Sums of whole numbers; attributes of one value are left out; the expected "
        "noise is subtracted from the sum, not the number of cells from a mean.",
        points=tables.single_values,
        x="queries",
        y="loss / budget of the choice",
        paid="Nothing where no attribute has a single value.",
    ),
    Exhibit(
        name="true-total",
        title="A table scaled to the true number of rows",
        paper=TABLES,
        place="Algorithms 1 and 2, line 17; total= of a graphical model",
        claim="Measured with noise, so private.",
        event="The released table has as many rows as the batch: 50 or 51. An empty batch "
        "divides by zero.",
        correction="A counted, noisy total.",
        points=tables.true_total,
        x="",
        paid="A share of 1/20 of the budget for the number of rows.",
    ),
    Exhibit(
        name="exact-shares",
        title="Transition shares without noise",
        paper=DISSERTATION,
        place="Algorithm 17, lines 10 and 12; Algorithm 20, line 4; Algorithm 21, line 8",
        claim="Shares of noisy transition counts.",
        event="Line 10 forgets the counts and line 12 the noise. D = {(x, y)}, or also (x, "
        "x): the share of (x, y) is 1 in one world only.",
        correction="Noise on every public edge, shares of the noisy counts.",
        points=trajectories.exact_shares,
        x="",
        paid="The noise that was missing.",
    ),
    Exhibit(
        name="exact-lengths",
        title="Lengths of the true most probable path",
        paper=DISSERTATION,
        place="Algorithm 20, lines 4 to 7",
        claim="Lengths are a function of noisy shares.",
        event="They follow the true ones: one trajectory more changes the most probable path "
        "from 0 to 2, and with it every length.",
        correction="Lengths are a function of the release.",
        points=trajectories.exact_lengths,
        x="",
        paid="Nothing: the noisy shares are there already.",
    ),
    Exhibit(
        name="observed-edges",
        title="Noise on what occurred",
        paper=DISSERTATION,
        place="Algorithms 17 to 19, read as dictionaries",
        claim="Noise on all transitions.",
        event="Kept by observed keys, the set of keys alone tells who went where.",
        correction="Every edge of the public graph gets noise.",
        points=trajectories.observed_edges,
        x="",
        paid="Noise on every edge of the public graph.",
    ),
    Exhibit(
        name="drawn-twice",
        title="The discretisation is drawn twice",
        paper=DISSERTATION,
        place="Algorithm 21, lines 4 and 10",
        claim="epsilon_1 + epsilon_2 + epsilon_3.",
        event="Algorithm 16 runs twice, epsilon_1 each.",
        correction="Drawn once.",
        points=trajectories.drawn_twice,
        x="",
        paid="Nothing: one tree less.",
    ),
    Exhibit(
        name="float-noise",
        title="Laplace noise in floats",
        paper="all of them, implemented as written (Mironov 2012)",
        place="every Lap(b)",
        claim="A count plus Laplace noise is epsilon-DP.",
        event="Floats near 0 are finer than floats near 1: 0 + noise is often no multiple of "
        "2^-53, and 1 + noise always is (200,000 runs, confidence .9998).",
        correction="Exact integer noise.",
        points=counters.float_noise,
        x="",
        evidence="measured",
        paid="Nothing in noise: integers of the same variance.",
    ),
)
EXHIBITS: dict[str, Exhibit] = {exhibit.name: exhibit for exhibit in _ALL}
