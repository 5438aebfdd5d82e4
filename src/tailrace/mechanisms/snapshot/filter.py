"""A Kalman filter on the details of releases, with learned drift.

Privacy: a function of released numbers and public ones.

Accuracy:
1. Details of the halving tree are orthonormal, so those of a release have uncorrelated noise of
   known variances (`levels.variances`). They are filtered one by one; details of one *class* (a
   depth and, within it, nodes of alike size) share their variances, and so their gains.
2. A detail is f(t) . x with the public regressors f(t): 1, the time since the origin and, with a
   season, three harmonics of it. Its coefficients have the prior variances of a *hypothesis*,
   relative to the energy of their class, and its level walks by a variance at each step.
3. Every hypothesis has a filter of its own. Their weights are the likelihoods of all innovations,
   so the releases themselves say whether data stand still, walk, trend or have a season. What is
   shown is the weighted mean; its variance is the mean of variances and the spread of the means.
4. After a jump the level alone is unsure: the energy of the jump is learned from the innovations of
   each class, and each detail moves by its share of signal.
5. Drift that hypotheses understate is caught by `excess`, the ratio of observed to predicted
   squared innovations, by which stated variances grow, and by `lag`, the squares by which a
   combination stays behind its release beyond what noise explains.

Source: Kalman 1960; Magill 1965 (weighted hypotheses); James, Stein 1961 for the energies.
Departs: nothing in the papers combines releases.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from tailrace.domain.halving import Halving

# Settings after a prototype, tried on the family CHOSEN of benchmarks/snapshots_generated.py; no
# committed result.
# Details that the energy of the class below counts for.
_POOLED = 8.0
# Nodes in the first class of a depth; each further one has twice as many.
_LARGEST = 16
# Bins beyond which few hypotheses are kept: memory.
_MANY = 200_000
# How much of the last weights is kept, and the least log-weight.
_KEPT, _LEAST = 0.9, -12.0
# A share of a hypothesis that is not worth its work.
_LITTLE = 1e-4
# Noise of a smaller share of a class's energy counts as this much. By reasoning: means are kept in
# 24 bits, and variances that differ by more than a double tells apart would turn negative.
_ROUNDING = 1e-14
# How slowly stated errors forget that they were too small, and by how much they grow at most.
_DECAY, _MOST = 0.8, 100.0
# Harmonics of a season, and their prior standard deviations.
_HARMONICS = (0.7, 0.35, 0.24)


@dataclass(frozen=True)
class Hypothesis:
    """How details may change, relative to their energy."""

    prior: float
    walk: float = 0.0  # the variance of a step
    slope: float = 0.0  # the standard deviation of a trend over all steps
    season: float = 0.0  # a factor on the harmonics
    jitter: float = 0.0  # of the churn of people who come and go: their number


_FEW = (Hypothesis(0.5), Hypothesis(0.25, walk=1e-4), Hypothesis(0.25, walk=1e-5, slope=1.0))
_ALL = (
    Hypothesis(0.4),
    Hypothesis(0.1, jitter=1.0),
    *(Hypothesis(0.05, walk=q) for q in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)),
    *(Hypothesis(0.05, walk=q, jitter=1.0) for q in (1e-5, 1e-3)),
    *(Hypothesis(0.033, walk=1e-7, slope=s) for s in (0.3, 1.0, 3.0, 10.0)),
)
_SEASONS = (
    Hypothesis(0.3, season=1.0),
    Hypothesis(0.2, season=1.0, jitter=1.0),
    Hypothesis(0.2, season=1.0, slope=1.0, jitter=1.0),
    Hypothesis(0.2, season=1.0, walk=1e-4),
)


@dataclass(frozen=True)
class Track:
    """What is known of every detail, for each hypothesis."""

    kinds: np.ndarray  # (bins,) int32 the class of each detail
    energy: np.ndarray  # (classes,)
    means: np.ndarray  # (hypotheses, terms, bins) float32
    spreads: np.ndarray  # (hypotheses, classes, terms, terms)
    weights: np.ndarray  # (hypotheses,) logarithms
    origin: np.ndarray  # () the step that trends are counted from
    at: np.ndarray  # () the step of the last release
    excess: np.ndarray  # () observed over predicted innovations
    lag: np.ndarray  # (classes,) variances that the last combination was behind by


@dataclass(frozen=True, eq=False)
class Filter:
    """The public facts of a filter."""

    tree: Halving
    steps: int  # over which slopes are stated
    season: int | None

    @functools.cached_property
    def hypotheses(self) -> tuple[Hypothesis, ...]:
        found = _FEW if len(self.tree.order) > _MANY else _ALL
        return found if self.season is None else (*found[:: 1 if found is _FEW else 3], *_SEASONS)

    @functools.cached_property
    def terms(self) -> int:
        return 2 if self.season is None else 2 + 2 * len(_HARMONICS)

    @functools.cached_property
    def many(self) -> list[int]:
        """The details of the whole, and of each depth."""
        return [1, *(len(self.tree.whose(depth)) for depth in range(self.tree.depth))]

    @functools.cached_property
    def counts(self) -> np.ndarray:
        """(classes,) the details of each."""
        found = []
        for many in self.many:
            starts, size = [0], _LARGEST
            while starts[-1] + 2 * size < many:
                starts.append(starts[-1] + size)
                size *= 2
            found.append(np.diff(starts, append=many))
        return np.concatenate(found)

    @functools.cached_property
    def place(self) -> np.ndarray:
        """(classes,) 0 for the whole, 1 + depth for the others."""
        ends, total = np.cumsum(self.counts), np.cumsum(self.many)
        return np.searchsorted(total, ends, side="left")

    def blank(self) -> Track:
        """Before the first release."""
        bins, one = len(self.tree.order), (len(self.hypotheses), self.terms)
        classes, zero = len(self.counts), np.zeros((), np.int64)
        return Track(
            np.zeros(bins, np.int32),
            np.zeros(classes),
            np.zeros((*one, bins), np.float32),
            np.zeros((one[0], classes, self.terms, self.terms)),
            self._prior(),
            zero,
            zero,
            np.ones(()),
            np.zeros(classes),
        )

    def _prior(self) -> np.ndarray:
        found = np.array([one.prior for one in self.hypotheses])
        return np.log(found / found.sum())

    def begun(self, fresh: np.ndarray, noise: np.ndarray, step: int) -> Track:
        """The track of a first release: (bins,) details, variances by place."""
        kinds = self._kinds(fresh, noise)
        energy = self._energies(kinds, fresh, noise)
        track = replace(self.blank(), kinds=kinds, energy=energy, origin=np.asarray(step))
        return self._restart(track, np.zeros(len(fresh)), energy, fresh, noise, step)

    def _restart(
        self,
        track: Track,
        mean: np.ndarray,
        spread: np.ndarray,
        fresh: np.ndarray,
        noise: np.ndarray,
        step: int,
    ) -> Track:
        """Every level anew, from a prior mean and variance and a release."""
        v = self._noise(noise)
        gain = spread / (spread + v)
        level = mean + gain[track.kinds] * (fresh - mean)
        return self.standing(track, level, gain * np.where(np.isfinite(v), v, 0), step)

    def standing(self, track: Track, level: np.ndarray, spread: np.ndarray, step: int) -> Track:
        """The track whose level is this, whatever the hypothesis."""
        means, spreads = np.zeros_like(track.means), np.zeros_like(track.spreads)
        means[:, 0] = level
        spreads[:, :, 0, 0] = spread
        for h, one in enumerate(self.hypotheses):
            spreads[h, :, 1, 1] = one.slope**2 * track.energy
            for i in range(2, self.terms):
                part = one.season * _HARMONICS[(i - 2) // 2]
                spreads[h, :, i, i] = part**2 * track.energy
        now = np.asarray(step)
        lag = np.zeros_like(track.lag)
        return replace(track, means=means, spreads=spreads, origin=now, at=now, lag=lag)

    def _kinds(self, fresh: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Classes by depth, and by the size of nodes within it."""
        tree, ends = self.tree, np.cumsum(self.many)
        sums = tree.sums(tree.cells(np.split(fresh, ends[:-1]))[tree.order])
        del noise
        kinds, first, at = np.zeros(len(fresh), np.int32), 1, 1
        for depth in range(tree.depth):
            size = sums[depth][tree.whose(depth)]
            of = self.counts[self.place == 1 + depth]
            if len(size):
                order = np.argsort(-size, kind="stable")
                kinds[at + order] = first + np.repeat(np.arange(len(of)), of)
            first, at = first + len(of), at + len(size)
        return kinds

    def _energies(self, kinds: np.ndarray, moved: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """The signal in each class: squares beyond the noise.

        A few details say little, so a class is pooled with the one after it.
        """
        v, found, below = self._noise(noise), np.zeros(len(self.counts)), 0.0
        squares = np.bincount(kinds, moved**2, minlength=len(found))
        for one in range(len(found) - 1, -1, -1):
            if np.isfinite(v[one]) and self.counts[one]:
                energy = squares[one] + _POOLED * (below + v[one])
                below = max(0.0, energy / (self.counts[one] + _POOLED) - v[one])
            found[one] = below
        found[0] = max(found[0], squares[0])
        return found

    def shrunk(self, track: Track, noise: np.ndarray) -> np.ndarray:
        """The variances that a release leaves, by place: signal is bounded."""
        v = self._noise(noise)
        left = np.where(np.isfinite(v), track.energy / (track.energy + v) * noise[self.place], 0)
        sums = np.bincount(self.place, left * self.counts, minlength=len(noise))
        return sums / np.maximum(1, self.many)

    def _noise(self, noise: np.ndarray) -> np.ndarray:
        """By class; what is not measured has endless noise."""
        return np.where(noise > 0, noise, np.inf)[self.place]

    def regressors(self, track: Track, step: int, *, ahead: bool) -> np.ndarray:
        """(terms,) f(t); `ahead`: a trend goes on for as long as it was seen."""
        seen, since = int(track.at) - int(track.origin), step - int(track.at)
        gone = float(since)
        if ahead:
            gone = seen * (1 - np.exp(-since / seen)) if seen else 0.0
        found = [1.0, (seen + gone) / self.steps]
        for order in range(1, 1 + (self.terms - 2) // 2):
            angle = 2 * np.pi * order * step / (self.season or 1)
            found += [np.cos(angle), np.sin(angle)]
        return np.array(found)

    def shares(self, track: Track) -> np.ndarray:
        """(hypotheses,) the weights, as shares."""
        found = np.exp(track.weights - track.weights.max())
        return found / found.sum()

    def level(self, track: Track, step: int, many: int | None = None) -> np.ndarray:
        """(bins,) the details that are shown at a step, or the first few."""
        f, level = self.regressors(track, step, ahead=True), 0.0
        for share, means in zip(self.shares(track), track.means[:, :, :many], strict=True):
            level = level + share * (f @ means) if share > _LITTLE else level
        return np.asarray(level, float)

    def nodes(self, details: np.ndarray, depths: list[int]) -> list[tuple[int, np.ndarray]]:
        """Some ascending depths with the sums of their nodes."""
        found, at, sums = [], 1, details[:1] * np.sqrt(len(self.tree.order))
        for depth in range(depths[-1] + 1):
            if depth in depths:
                found.append((depth, sums))
            if depth < depths[-1]:
                many = self.many[1 + depth]
                sums, at = self.tree.descend(depth, sums, details[at : at + many]), at + many
        return found

    def _grown(self, track: Track, step: int) -> np.ndarray:
        """The variances of coefficients at a later step."""
        spreads = track.spreads.copy()
        walks = np.array([one.walk for one in self.hypotheses])
        spreads[:, :, 0, 0] += walks[:, None] * track.energy * (step - int(track.at))
        return spreads

    def known(self, track: Track) -> np.ndarray:
        """(classes,) variances at the last release."""
        f = self.regressors(track, int(track.at), ahead=False)
        return self.shares(track) @ np.maximum(0, track.spreads @ f @ f)

    def grown(self, track: Track, step: int) -> np.ndarray:
        """(hypotheses, classes) variances since the last release."""
        f, last = (self.regressors(track, t, ahead=False) for t in (step, int(track.at)))
        return np.maximum(0, self._grown(track, step) @ f @ f - track.spreads @ last @ last)

    def variance(self, track: Track, step: int, shares: np.ndarray) -> np.ndarray:
        """(bins,) of the details that are shown, by shares of hypotheses."""
        f = self.regressors(track, step, ahead=True)
        mean, apart = self.level(track, step), np.zeros(track.means.shape[2])
        for share, means in zip(shares, track.means, strict=True):
            apart += share * (f @ means - mean) ** 2 if share > _LITTLE else 0
        moved = apart + (shares @ self.grown(track, step))[track.kinds]
        behind = (self.known(track) + track.lag)[track.kinds]
        return behind + float(track.excess) * moved

    def updated(
        self,
        track: Track,
        fresh: np.ndarray,
        noise: np.ndarray,
        step: int,
        *,
        people: float,
        weight: np.ndarray,
    ) -> Track:
        """Combine a release with everything before it.

        Parameters
        fresh: (bins,) its details.
        noise: their variances, by place.
        people: how many there are: their churn is jitter.
        weight: of details in the errors that matter, by place.
        """
        f = self.regressors(track, step, ahead=False)
        excess = self._excess(track, fresh, noise, step, weight)
        # What has grown may walk further than it could before.
        energy = np.maximum(track.energy, self._energies(track.kinds, fresh, noise))
        track = replace(track, energy=energy, excess=np.asarray(excess))
        v = np.maximum(self._noise(noise), _ROUNDING * energy)
        spreads, means = self._grown(track, step), track.means.copy()
        jitter = np.array([one.jitter for one in self.hypotheses]) * people / len(fresh)
        weights = _KEPT * track.weights + (1 - _KEPT) * self._prior()
        toward = spreads @ f
        total = np.maximum(toward @ f, 0) + v + jitter[:, None]
        gain, known = toward / total[:, :, None], np.isfinite(v)
        for h, (held, spread) in enumerate(zip(means, spreads, strict=True)):
            off = fresh - f @ held
            squares = np.bincount(track.kinds, off**2, minlength=len(v))[known]
            likely = self.counts[known] * np.log(total[h, known]) + squares / total[h, known]
            weights[h] -= 0.5 * float(likely.sum())
            held += gain[h][track.kinds].T * off
            spread -= gain[h][:, :, None] * toward[h][:, None, :]
        made = replace(
            track,
            means=means,
            spreads=spreads,
            weights=np.maximum(weights - weights.max(), _LEAST),
            at=np.asarray(step),
        )
        left = np.where(known, self.shares(made) @ ((v + jitter[:, None]) ** 2 / total), 0)
        return replace(made, lag=self._lag(made, fresh, left, weight))

    def _lag(
        self, track: Track, fresh: np.ndarray, left: np.ndarray, weight: np.ndarray
    ) -> np.ndarray:
        """(classes,) how far a combination stays behind its release, beyond noise.

        `left`: the mean square that noise alone leaves between the two.
        """
        off = np.bincount(
            track.kinds, (fresh - self.level(track, int(track.at))) ** 2, minlength=len(left)
        )
        each = (weight / np.maximum(1, self.many))[self.place] * (left > 0)
        expected = float(each @ (left * self.counts))
        ratio = float(each @ off) / expected if expected > 0 else 1.0
        return np.maximum(max(0.0, min(ratio, _MOST) - 1) * left, _DECAY * track.lag)

    def _excess(
        self, track: Track, fresh: np.ndarray, noise: np.ndarray, step: int, weight: np.ndarray
    ) -> float:
        """How far innovations exceed what was predicted, decaying slowly."""
        plain = replace(track, excess=np.ones(()))
        stated = self.variance(plain, step, self.shares(track)) - track.lag[track.kinds]
        off = (fresh - self.level(track, step)) ** 2
        place, known = self.place[track.kinds], self.known(track)[track.kinds]
        each = (weight / np.maximum(1, self.many))[place] * (noise > 0)[place]
        observed = float(each @ (off - noise[place] - known))
        predicted = float(each @ (stated - known))
        ratio = observed / predicted if predicted > 0 else 1.0
        return float(np.clip(max(ratio, _DECAY * float(track.excess)), 1.0, _MOST))

    def jumped(self, track: Track, fresh: np.ndarray, noise: np.ndarray, step: int) -> Track:
        """Combine a release after a jump with the level before it."""
        mean, before = self.level(track, step), self.known(track)
        off = fresh - mean
        moved = self._energies(track.kinds, off, noise)
        energy = np.maximum(track.energy, self._energies(track.kinds, fresh, noise))
        track = replace(track, energy=energy, weights=self._prior())
        return self._restart(track, mean, np.maximum(before, moved), fresh, noise, step)


@functools.lru_cache(maxsize=16)
def importance(shape: tuple[int, ...], tree: Halving) -> np.ndarray:
    """(1 + depths,) mean squared weights of ranges, by place.

    Ranges have their ends at all pairs of some places, evenly spread over each side.
    """
    found, ends = np.zeros(1 + tree.depth), _ends(len(tree.order))
    for low, high in ends:
        inside = np.ones(1)
        for side in shape:
            place = np.arange(side) + 0.5
            inside = np.multiply.outer(inside, (place >= low * side) & (place <= high * side))
        found += [float((part**2).sum()) for part in tree.details(inside.reshape(-1))]
    return found / len(ends)


def _ends(cells: int) -> list[tuple[float, float]]:
    """Ends of ranges, as shares of a side; few where cells are many."""
    many = int(np.clip((2**22 // cells) ** 0.5, 3, 11))
    places = (np.arange(many) + 0.37) / many
    return [(low, high) for low in places for high in places if low <= high]
