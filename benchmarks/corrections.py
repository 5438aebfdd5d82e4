"""The corrections of published guarantees: what was lost, and what the corrections cost.

`losses`: the points of every exhibit of `tailrace audit --gallery`, as multiples of the claim.
`noise`: the standard deviation of the noise as printed and as corrected, exactly, from the noise
that is drawn. `privstream`: the error of PrivStream with its tree as printed (drawn on the released
counts plus the net change of the batch) beside the corrected one, on the streams, rectangles and
noise seeds of `spatial.py`; nothing was chosen on them. As printed there are two versions:
Algorithms 1 and 5 (lambda = 12 / epsilon, counts Lap(2 / epsilon)), 6 and 7 (6 and 4); the
corrected one has kappa / (epsilon / 2) = 5.2 and 2, or 3.5 and 4 where the tree has three quarters.
The third comparison gives the printed rule the corrected lambda, so that only the rule differs.
"""

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from unittest.mock import patch

import numpy as np

from runner import main, mean_error, measurement
from tailrace import Event, PureDP
from tailrace.audit.exhibits import EXHIBITS
from tailrace.counters import Simple
from tailrace.experiments import spatial_data
from tailrace.experiments.spatial import CLASSES, FRESH, Data, errors, judged, synthetic
from tailrace.papers.privtree import stream
from tailrace.papers.privtree.nodes import Batch, Growth
from tailrace.papers.privtree.splits import PrivTree, SplitCoin, kappa
from tailrace.privacy.budget import Drawn
from tailrace.privacy.loss import Number

# Of each version: lambda times epsilon, and the share of the budget that the tree has.
VERSIONS: dict[str, tuple[Number, str]] = {
    "Algorithms 1 and 5": (12, "1/2"),
    "Algorithms 6 and 7": (6, "3/4"),
    "the corrected lambda": (2 * kappa(2), "1/2"),
}


@functools.lru_cache(maxsize=1)
def known(name: str) -> Data:
    """The named generated stream, as in `spatial.py`."""
    return judged(spatial_data.SQUARE, getattr(spatial_data, name)(seed=FRESH), 1)


class Printed(Growth):
    """Splits on the released counts, of any sign, plus the net change."""

    def grow(self, batch: Batch, coin: SplitCoin, noise) -> None:
        level = np.zeros(1, np.int64)
        for depth in range(self.grid.deepest + 1):
            self.levels.append(level)
            if depth == self.grid.deepest:
                self.splits.append(np.zeros(len(level), np.bool_))
                return
            span = self.grid.span(self.depth[level], self.index[level])
            split = coin.draw(
                noise.at("split", depth), self._total(level), batch.among(batch.net, *span), depth
            )
            self.splits.append(split)
            if not split.any():
                return
            level, _ = self._descend(level[split], np.zeros(int(split.sum())))


@dataclass(frozen=True, kw_only=True)
class AsPrinted(stream.PrivTreeStream):
    """PrivStream with lambda as printed: no stream may use it."""

    scale: Number = 12

    @functools.cached_property
    def splitting(self) -> SplitCoin:
        assert isinstance(self.privacy, PureDP)
        tree: Drawn = PureDP(epsilon=self.privacy.epsilon * kappa(2) / Fraction(self.scale))
        return SplitCoin(2, self.structure.threshold, tree, 1)


@measurement(
    "corrections_privstream",
    keys="data | version | method",
    columns=" | ".join(f"{kind} .4f | {kind} +- .4f" for kind in CLASSES),
    cases=[(name, version) for name in ("circles", "city") for version in VERSIONS],
)
def privstream(name, version, seeds=4, epsilon=1.0):
    of, (scale, share) = known(name), VERSIONS[version]
    about = {
        "domain": of.domain,
        "privacy": PureDP(epsilon=epsilon),
        "unit": Event(),
        "horizon": len(of.stream),
        "structure": PrivTree(share=share),
        "begin": of.begin,
        "rounding": "up",
        "deletes": any(len(gone) for _, gone in of.stream),
    }
    methods = {
        "as printed": (AsPrinted(scale=scale, counter=Simple(), **about), Printed),
        "corrected": (stream.PrivTreeStream(counter=Simple(), **about), Growth),
    }
    for method, (mechanism, growth) in methods.items():
        found = []
        for seed in range(1, seeds + 1):
            with patch.object(stream, "Growth", growth):
                found.append(errors(of, synthetic(mechanism, of, FRESH + seed)).mean(axis=0)[:3])
        pairs = zip(np.mean(found, axis=0), mean_error(np.array(found)), strict=True)
        yield [name, version, method, *(value for pair in pairs for value in pair)]


@measurement(
    "corrections_losses",
    keys="exhibit | at",
    columns="published .9g | ours .6g | of | evidence",
    cases=[(name,) for name in EXHIBITS],
)
def losses(name):
    exhibit = EXHIBITS[name]
    for x, published, ours in exhibit.points():
        yield [name, x, published, ours, exhibit.y, exhibit.evidence]


@measurement(
    "corrections_noise",
    keys="exhibit | setting",
    columns="as printed .4g | corrected .4g | cost % .1f",
)
def noise():
    for exhibit in EXHIBITS.values():
        for setting, printed, corrected in exhibit.cost():
            assert math.isfinite(corrected)
            yield [exhibit.name, setting, printed, corrected, 100 * (corrected / printed - 1)]


if __name__ == "__main__":
    main(__doc__)
