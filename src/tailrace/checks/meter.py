"""An exact meter of privacy loss, by replaying a neighbour.

The neighbouring world is forced to the outputs of a recorded one. Why its shifts bound the loss:

1. World A runs on noise z. Every noisy number (counts + noise), comparison, coin and choice is
   recorded.
2. World B, the neighbour, is given the same noisy numbers, answers, coins and choices. Functions of
   these alone are equal in both worlds: `public` must be the same, byte by byte. Where it is not,
   an exact number reached it.
3. B's own counts give those numbers with the noise z + r: where counts a in A and b in B get noise,
   r = a - b. The data and the outputs determine r, so that z -> z + r is one to one, and
   P(outputs in A) / P(outputs in B) is at most the largest P(z) / P(z + r).
4. A comparison noise >= x needs no equality: any shift that keeps the answer will do. Noise that is
   kept and compared again (a threshold's) is raised until negative answers keep themselves, and
   positive ones pay for both.
5. Laplace noise of scale s costs |r| / s, in exact fractions; in zCDP e^2 / 2, where e sums the
   costs of all draws compared with the same kept draw. Gaussian noise of variance v costs
   r^2 / (2 v) in zCDP. A choice costs rate times the range of its scores' shifts, coins the sum of
   their log-ratios; in zCDP either costs an eighth of the squared range (of coins, as far as seen).
6. A draw is added to one count: a second one would need the same r. A draw may be subtracted before
   that (as in counters with subtraction): the draw it is subtracted from then moves with it.
7. Draws by private keys (`laplace_by`) may be there in one world alone. A key of B alone is
   answered no; one of A alone that was answered yes shows in `public`. How likely that is, the
   mechanism's delta, the meter does not see.

One path of one pair of neighbours is seen: the meter refutes, it does not prove. For noise to be
seen, add it to integers of its shape: `counts + noise.at("cells").laplace(scale, counts.shape)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tailrace.noise import Draws, Shape
from tailrace.noise.words import Part
from tailrace.privacy.loss import ApproxDP, Loss, Number, PureDP

PUBLIC_ONLY = "what is drawn, and where it is added, depends on released numbers only"
ONCE = "a draw is added to one count"
SHAPE = "noise is drawn in the shape of the counts that it meets"
# Each as noise >= bound: (whether equality answers no, whether yes means true)
COMPARISONS = {
    np.greater_equal: (False, True),
    np.greater: (True, True),
    np.less: (False, False),
    np.less_equal: (True, False),
}
_TURNED = {
    np.greater_equal: np.less_equal,
    np.greater: np.less,
    np.less: np.greater,
    np.less_equal: np.greater_equal,
}
# Tolerance for the logarithms of coins, which are floats; all else is exact.
_ROUNDING = Fraction(1, 10**9)


@dataclass(frozen=True)
class Measured:
    """The measured loss of a replayed run.

    epsilon: None where Gaussian noise had to move.
    exact: no coins were tossed; their logarithms are floats.
    """

    epsilon: Fraction | None
    rho: Fraction
    exact: bool = True

    def share(self, claim: Loss) -> Fraction | None:
        """The measured part of a claim; None: it cannot hold."""
        if isinstance(claim, PureDP) or (
            isinstance(claim, ApproxDP) and claim.rho is None and self.epsilon
        ):
            return None if self.epsilon is None else self.epsilon / claim.epsilon
        return self.rho / claim.zcdp_within().rho if claim.rho is None else self.rho / claim.rho

    def within(self, claim: Loss) -> bool:
        """Whether a claim holds for this run."""
        share = self.share(claim)
        return share is not None and share <= 1 + (0 if self.exact else _ROUNDING)


class _Drawn(NamedTuple):
    path: tuple[Part, ...]
    kind: str
    parameter: Fraction
    shape: tuple[int, ...]
    values: Any
    first: int  # the number of its first element


class _Met(NamedTuple):
    exact: np.ndarray
    terms: np.ndarray
    noisy: np.ndarray


class _Answered(NamedTuple):
    terms: np.ndarray
    least: np.ndarray  # noise >= least, or not
    answers: np.ndarray


class _Coins(NamedTuple):
    """Log-ratios of one decision's coins: their sum and its range."""

    total: float = 0.0
    least: float = 0.0
    most: float = 0.0


class _Line(NamedTuple):
    """One comparison: fresh draw, kept draws, bound's move, answer."""

    own: int
    kept: tuple[int, ...]
    move: int
    answer: bool


@dataclass
class _Replay:
    """World B: its place on the tape, and its shifts."""

    at: dict[str, int] = field(default_factory=dict)
    # draw: (move, terms)
    moves: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    lines: list[_Line] = field(default_factory=list)
    choices: list[Fraction] = field(default_factory=list)
    alone: set[int] = field(default_factory=set)  # draws for keys that world A has not
    coins: dict[tuple[Part, ...], _Coins] = field(default_factory=dict)


@dataclass
class _Tape:
    """World A, in order."""

    drawn: list[_Drawn] = field(default_factory=list)
    met: list[_Met] = field(default_factory=list)
    answered: list[_Answered] = field(default_factory=list)
    paths: set[tuple[Part, ...]] = field(default_factory=set)
    added: set[int] = field(default_factory=set)  # draws that met a count
    next: int = 1  # the number of the next draw
    # By path and key, or by key alone where it is kept: the number of its draw.
    keyed: dict[tuple[Any, ...], int] = field(default_factory=dict)
    values: dict[int, tuple[int, Fraction]] = field(default_factory=dict)  # with the scale
    keyed_answers: dict[int, tuple[int, bool]] = field(default_factory=dict)
    replay: _Replay | None = None

    def found(self, name: str) -> Any:
        """World A's next entry for world B."""
        assert self.replay is not None
        place, entries = self.replay.at.get(name, 0), getattr(self, name)
        assert place < len(entries), PUBLIC_ONLY
        self.replay.at[name] = place + 1
        return entries[place]


class Meter:
    """Noise that records one world and forces it on another."""

    def __init__(
        self, source: Draws, path: tuple[Part, ...] = (), tape: _Tape | None = None
    ) -> None:
        self.path = path
        self._source, self._tape = source, _Tape() if tape is None else tape

    def at(self, *path: Part) -> Meter:
        return Meter(self._source.at(*path), self.path + path, self._tape)

    def replay(self) -> None:
        """Begin a neighbour's run, and forget the last one."""
        self._tape.replay = _Replay()

    def laplace(self, scale: Number, shape: Shape) -> np.ndarray:
        return self._noise("laplace", scale, shape)

    def laplace_by(self, scale: Number, keys: Sequence[str], *, kept: bool = False) -> np.ndarray:
        tape, names = self._tape, [(key,) if kept else (*self.path, key) for key in keys]
        assert list(keys) == sorted(set(keys)), "private keys are drawn for once, in order"
        if tape.replay is None:
            assert self.path not in tape.paths, "a noise path is drawn from once"
            tape.paths.add(self.path)
            drawn = self._source.laplace_by(scale, keys, kept=kept)
            for name, value in zip(names, drawn.tolist(), strict=True):
                assert name not in tape.keyed, "the noise of a key is kept once"
                tape.keyed[name] = tape.next
                tape.values[tape.next] = (value, Fraction(scale))
                tape.next += 1
        numbers, values = [], []
        for name in names:
            number = tape.keyed.get(name)
            if number is None:
                assert tape.replay is not None
                number, tape.next = tape.next, tape.next + 1
                tape.replay.alone.add(number)
            value, own = tape.values.get(number, (0, Fraction(scale)))
            assert own == Fraction(scale), PUBLIC_ONLY
            numbers.append(number)
            values.append(value)
        terms = np.array(numbers, np.int64).reshape(1, -1)
        return Tracked.of(self, np.array(values, np.int64), terms)

    def gaussian(self, variance: Number, shape: Shape) -> np.ndarray:
        return self._noise("gaussian", variance, shape)

    def survive(self, n: np.ndarray, rate: Number) -> np.ndarray:
        true = -np.asarray(n, float) * float(Fraction(rate))
        false = np.log(-np.expm1(np.minimum(true, -1e-300)))
        return self._flipped("survive", rate, (true, false), lambda: self._source.survive(n, rate))

    def coin(self, excess: np.ndarray, scale: Number) -> np.ndarray:
        unlikely = -np.abs(np.asarray(excess, float)) / float(Fraction(scale)) - math.log(2)
        likely, above = np.log1p(-np.exp(unlikely)), np.asarray(excess) > 0
        odds = np.where(above, likely, unlikely), np.where(above, unlikely, likely)
        return self._flipped("coin", scale, odds, lambda: self._source.coin(excess, scale))

    def choose(self, scores: np.ndarray, rate: Number) -> int:
        now = np.array(scores)
        chosen, before = self._drawn(
            "choose", rate, now.shape, lambda: (self._source.choose(scores, rate), now)
        ).values
        if self._tape.replay is not None:
            moved = before - now
            self._tape.replay.choices.append(Fraction(rate) * int(moved.max() - moved.min()))
        return chosen

    def _drawn(
        self, kind: str, parameter: Number, shape: tuple[int, ...], draw: Callable[[], Any]
    ) -> _Drawn:
        """A draw of world A, now or as recorded."""
        tape, what = self._tape, (self.path, kind, Fraction(parameter), shape)
        if tape.replay is not None:
            found = tape.found("drawn")
            assert found[:4] == what, PUBLIC_ONLY
            return found
        assert self.path not in tape.paths, "a noise path is drawn from once"
        tape.paths.add(self.path)
        tape.drawn.append(_Drawn(*what, draw(), tape.next))
        return tape.drawn[-1]

    def _noise(self, kind: str, parameter: Number, shape: Shape) -> np.ndarray:
        sides = tuple(map(int, shape if isinstance(shape, tuple) else (shape,)))
        found = self._drawn(
            kind, parameter, sides, lambda: getattr(self._source, kind)(parameter, shape)
        )
        many = found.values.size
        self._tape.next = max(self._tape.next, found.first + many)
        numbers = np.arange(found.first, found.first + many).reshape(1, *found.values.shape)
        return Tracked.of(self, found.values.copy(), numbers)

    def _flipped(
        self, kind: str, parameter: Number, odds: Any, flip: Callable[[], np.ndarray]
    ) -> np.ndarray:
        """World A's coins; sums the log-ratios of a decision."""
        outcome, before = self._drawn(kind, parameter, odds[0].shape, lambda: (flip(), odds)).values
        if self._tape.replay is not None:
            ratios = before[0] - odds[0], before[1] - odds[1]
            seen, other = np.where(outcome, *ratios), np.where(outcome, *ratios[::-1])
            coins, name = self._tape.replay.coins, _decision(self.path)
            total, least, most = coins.get(name, _Coins())
            total += float(seen.sum())
            values = [least, most, total, *(total - seen + other)[seen != other].tolist()]
            coins[name] = _Coins(total, min(values), max(values))
        return outcome.copy()

    def met(self, exact: np.ndarray, noise: np.ndarray, terms: np.ndarray) -> np.ndarray:
        """Add noise to counts; both worlds get world A's sums."""
        assert exact.shape == noise.shape, SHAPE
        assert exact.dtype.kind in "iu", "noise is added to integers"
        tape, first = self._tape, (terms != 0).argmax(axis=0)[None]
        own = np.take_along_axis(terms, first, axis=0)[0]
        if tape.replay is None:
            numbers = np.abs(own[own != 0]).tolist()
            assert len(set(numbers)) == len(numbers) and tape.added.isdisjoint(numbers), ONCE
            tape.added.update(numbers)
            tape.met.append(_Met(exact.copy(), terms, exact + noise))
            return tape.met[-1].noisy.copy()
        before = tape.found("met")
        assert np.array_equal(before.terms, terms), PUBLIC_ONLY
        moved = before.exact - exact
        for place in map(tuple, np.argwhere((np.count_nonzero(terms, axis=0) > 1) | (moved != 0))):
            draw = int(own[place])
            assert draw, "every number that is released has noise"
            others = (int(term) for term in terms[:, *place] if term and abs(term) != abs(draw))
            tape.replay.moves[abs(draw)] = (
                _sign(draw) * int(moved[place]),
                tuple(-_sign(draw) * term for term in others),
            )
        return before.noisy.copy()

    def compared(self, comparison: Any, noise: Tracked, against: np.ndarray) -> np.ndarray:
        """Compare noise; both worlds get world A's answers."""
        beyond, says_yes = COMPARISONS[comparison]
        least = np.asarray(np.floor(against) + 1 if beyond else np.ceil(against)).astype(np.int64)
        tape = self._tape
        known = {*tape.values, *(tape.replay.alone if tape.replay else ())}
        if least.ndim == 1 and set(np.abs(noise.terms[0]).tolist()) <= known:
            answers = self._compared_by_key(noise, least)
            return answers if says_yes else ~answers
        if tape.replay is None:
            found = _Answered(noise.terms, least, np.asarray(np.asarray(noise) >= least))
            tape.answered.append(found)
        else:
            found = tape.found("answered")
            assert np.array_equal(found.terms, noise.terms), PUBLIC_ONLY
            for place in np.ndindex(least.shape):
                own, *kept = (int(term) for term in noise.terms[:, *place] if term)
                move = int(least[place] - found.least[place])
                tape.replay.lines.append(_Line(own, tuple(kept), move, bool(found.answers[place])))
        return found.answers.copy() if says_yes else ~found.answers

    def _compared_by_key(self, noise: Tracked, least: np.ndarray) -> np.ndarray:
        """Answers of keys, each as in world A; no where it has not asked."""
        tape, replay = self._tape, self._tape.replay
        answers = np.asarray(noise) >= least
        for place, bound in enumerate(least.tolist()):
            own, *kept = (int(term) for term in noise.terms[:, place] if term)
            if replay is None:
                tape.keyed_answers[own] = (bound, bool(answers[place]))
                continue
            before, answers[place] = tape.keyed_answers.get(own, (bound, False))
            if own not in replay.alone:
                answer = bool(answers[place])
                replay.lines.append(_Line(own, tuple(kept), bound - before, answer))
        return answers

    def loss(self) -> Measured:
        """The measured loss of the neighbour's run."""
        tape, replay = self._tape, self._tape.replay
        assert replay is not None
        assert all(
            replay.at.get(name, 0) == len(getattr(tape, name))
            for name in ("drawn", "met", "answered")
        ), PUBLIC_ONLY
        shifts = _of_sums(replay.moves)
        group = _of_comparisons(replay.lines, shifts, tape.added)
        firsts = np.array([drawn.first for drawn in tape.drawn])
        laplace: dict[int, Fraction] = {}
        gaussian = Fraction(0)
        for draw, shift in shifts.items():
            if draw in tape.values:
                own = group.get(draw, draw)
                cost = abs(shift) / tape.values[draw][1]
                laplace[own] = laplace.get(own, Fraction(0)) + cost
                continue
            if draw in replay.alone:
                continue
            drawn = tape.drawn[int(np.searchsorted(firsts, draw, side="right")) - 1]
            if drawn.kind == "gaussian":
                gaussian += Fraction(shift**2) / (2 * drawn.parameter)
            else:
                own = group.get(draw, draw)
                laplace[own] = laplace.get(own, Fraction(0)) + abs(shift) / drawn.parameter
        coins = abs(sum(decision.total for decision in replay.coins.values()))
        ranges = [Fraction(decision.most - decision.least) for decision in replay.coins.values()]
        epsilon = sum(laplace.values(), Fraction(0)) + sum(replay.choices) + Fraction(coins)
        rho = gaussian + sum(each**2 / 2 for each in laplace.values())
        rho += sum(each**2 / 8 for each in (*replay.choices, *ranges))
        return Measured(None if gaussian else epsilon, rho, exact=not any(ranges))


def _of_sums(moves: dict[int, tuple[int, tuple[int, ...]]]) -> dict[int, int]:
    """Shifts of draws: their count's move, plus subtracted draws' shifts."""
    shifts: dict[int, int] = {}
    left = dict(moves)

    def shift(draw: int) -> int:
        if draw not in shifts:
            # a draw that met no count need not move
            move, others = left.pop(draw, (0, ()))
            shifts[draw] = move + sum(_sign(term) * shift(abs(term)) for term in others)
        return shifts[draw]

    for draw in moves:
        shift(draw)
    for draw, (move, others) in moves.items():
        assert shifts[draw] == move + sum(_sign(term) * shifts[abs(term)] for term in others), ONCE
    return shifts


def _of_comparisons(lines: list[_Line], shifts: dict[int, int], added: set[int]) -> dict[int, int]:
    """Shift compared draws to keep answers; returns their kept draws."""
    group: dict[int, int] = {}
    owned = [abs(line.own) for line in lines]
    kept = {abs(term) for line in lines for term in line.kept}
    assert len(set(owned)) == len(owned) and kept.isdisjoint(owned), "fresh noise is compared once"
    for line in lines:
        for term in line.kept:
            assert abs(term) not in added, "noise that is kept for comparisons is never released"
            if not line.answer:
                low = shifts.get(abs(term), 0)
                shifts[abs(term)] = min(low, line.move) if term > 0 else max(low, -line.move)
    for line in lines:
        needed = line.move - sum(_sign(term) * shifts.get(abs(term), 0) for term in line.kept)
        shift = _sign(line.own) * (max(needed, 0) if line.answer else min(needed, 0))
        if abs(line.own) in added:
            assert shifts.get(abs(line.own), 0) == shift, "noise is released or compared, not both"
        shifts[abs(line.own)] = shift
        for term in line.kept:
            group[abs(line.own)] = group[abs(term)] = abs(line.kept[0])
    return group


def _sign(term: int) -> int:
    return 1 if term > 0 else -1


def _decision(path: tuple[Part, ...]) -> tuple[Part, ...]:
    """The decision of a coin: its path without trailing numbers."""
    while path and isinstance(path[-1], int):
        path = path[:-1]
    return path


class Tracked(np.ndarray):
    """Noise, and the draws that each element sums, until it meets a count.

    Indexing, `sum(axis=0)`, sums and differences of noise, `concatenate` and `stack` keep that
    knowledge. Adding integers makes a noisy number and comparing makes an answer: the meter is told
    of both. Other functions see plain numbers.
    """

    watch: Meter | None
    # (terms, *shape) numbers of draws, from 1; negative: subtracted, 0: none
    terms: Any

    @classmethod
    def of(cls, watch: Meter, values: Any, terms: np.ndarray) -> Tracked:
        found = np.asarray(values).view(cls)
        found.watch, found.terms = watch, terms
        return found

    def __array_finalize__(self, obj: Any) -> None:
        self.watch = self.terms = None

    def __getitem__(self, place: Any) -> Any:
        found = np.asarray(self)[place]
        if self.watch is None:
            return found
        places = place if isinstance(place, tuple) else (place,)
        return Tracked.of(self.watch, found, self.terms[:, *places])

    def sum(self, axis: Any = None, *others: Any, **options: Any) -> Any:
        values = np.asarray(self).sum(axis, *others, **options)
        if self.watch is None or axis != 0 or others or options:
            return values
        return Tracked.of(self.watch, values, self.terms.reshape(-1, *values.shape))

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any
    ) -> Any:
        found = None
        if method == "__call__" and not options and any(map(_known, inputs)):
            found = _combined(ufunc, inputs)
        if found is None:
            found = getattr(ufunc, method)(*map(_plain, inputs), **options)
        if out is None:
            return found
        _plain(out[0])[...] = found
        return found if isinstance(out[0], Tracked) else out[0]

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        found = func(*map(_plain, args), **{name: _plain(value) for name, value in kwargs.items()})
        watch = func in (np.concatenate, np.stack) and next(
            (part.watch for part in args[0] if _known(part)), None
        )
        if not watch:
            return found
        axis = kwargs.get("axis", args[1] if len(args) > 1 else 0)
        terms = [
            part.terms if _known(part) else np.zeros((0, *np.shape(part)), np.int64)
            for part in args[0]
        ]
        most = max(map(len, terms))
        even = [
            np.pad(part, [(0, most - len(part)), *[(0, 0)] * (part.ndim - 1)]) for part in terms
        ]
        return Tracked.of(watch, found, func(even, axis=axis + 1 if axis >= 0 else axis))


def _known(value: Any) -> bool:
    return isinstance(value, Tracked) and value.watch is not None


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return np.asarray(value) if isinstance(value, Tracked) else value


def _combined(ufunc: Any, inputs: Any) -> Any:
    """Noise, noisy numbers or answers; None for other functions."""
    if ufunc is np.negative:
        return Tracked.of(inputs[0].watch, -np.asarray(inputs[0]), -inputs[0].terms)
    if ufunc not in (np.add, np.subtract, *COMPARISONS):
        return None
    one, other = (np.asarray(_plain(value)) for value in inputs)
    assert one.shape == other.shape, SHAPE
    sign = 1 if ufunc is np.add else -1
    if all(map(_known, inputs)):
        terms = np.concatenate([inputs[0].terms, sign * inputs[1].terms])
        both = Tracked.of(inputs[0].watch, one + sign * other, terms)
        return both if ufunc not in COMPARISONS else ufunc(both, np.zeros_like(one))
    first = _known(inputs[0])
    noise, exact = (inputs[0], other) if first else (inputs[1], one)
    if ufunc in COMPARISONS:
        return noise.watch.compared(ufunc if first else _TURNED[ufunc], noise, exact)
    if first:
        return noise.watch.met(sign * exact, one, noise.terms)
    return noise.watch.met(exact, sign * other, sign * noise.terms)
