"""Conditioned walks have exactly their law: chi-square against enumeration of all paths, which also
rejects wrong laws.
"""

import itertools

import numpy as np
import pytest
from scipy import stats

from tailrace.domain.geometry.graph import Graph
from tailrace.models.walks import walks as module
from tailrace.models.walks.second_order import turning_walks
from tailrace.models.walks.walks import walks

LEVEL = 1e-6  # of every test below; seeds are fixed
SAMPLE = 40_000


def graph_of(dense):
    sources, targets = np.nonzero(dense)
    return Graph(starts=np.searchsorted(sources, np.arange(len(dense) + 1)), targets=targets)


def grid(side):
    """A square of cells that touch at sides and corners."""
    x, y = np.divmod(np.arange(side * side), side)
    near = (abs(x[:, None] - x) <= 1) & (abs(y[:, None] - y) <= 1)
    return graph_of(near & ~np.eye(side * side, dtype=bool))


def ring(cells):
    step = (np.arange(cells)[:, None] - np.arange(cells)) % cells
    return graph_of((step == 1) | (step == cells - 1))


def one_way(cells, seed):
    """Random edges, most of them in one direction only, and a ring that leads everywhere."""
    dense = np.random.default_rng(seed).random((cells, cells)) < 0.3
    dense |= np.roll(np.eye(cells, dtype=bool), 1, axis=1)
    np.fill_diagonal(dense, False)
    return graph_of(dense)


def chances(graph, seed):
    """Peaked: a few moves from each cell are likely."""
    weights = np.random.default_rng(seed).gamma(0.5, size=len(graph.targets)) + 1e-3
    return weights / np.bincount(graph.sources, weights)[graph.sources]


def paths_of(graph, first, last, moves):
    """All paths, as rows of edges."""
    rows, at = np.zeros((1, 0), int), np.array([first])
    for _ in range(moves):
        many = np.diff(graph.starts)[at]
        begins = np.repeat(graph.starts[at], many)
        edges = begins + np.arange(len(begins)) - np.repeat(np.cumsum(many) - many, many)
        rows = np.column_stack([np.repeat(rows, many, axis=0), edges])
        at = graph.targets[edges]
    return rows[at == last]


def law_of(graph, probability, first, last, moves):
    """Every path as a string of its cells, with its probability; by logarithms, which do not
    vanish.
    """
    paths = paths_of(graph, first, last, moves)
    with np.errstate(divide="ignore"):
        weights = np.log(probability)[paths].sum(axis=1)
    weights = np.exp(weights - weights.max())
    cells = np.column_stack([np.full(len(paths), first), graph.targets[paths]])
    return [row.tobytes() for row in cells.astype(np.int64)], weights / weights.sum()


def counts_of(names, offsets, cells, which):
    """How often each path was walked; a path that is not among them is counted last."""
    numbers = {name: i for i, name in enumerate(names)}
    counts = np.zeros(len(names) + 1)
    for i in which:
        counts[numbers.get(cells[offsets[i] : offsets[i + 1]].tobytes(), -1)] += 1
    return counts


def p_value(counts, law):
    """Of a chi-square test, with all paths that are expected less than five times as one."""
    assert not counts[-1], "a walk took a path that does not exist"
    counts, expected = counts[:-1], law * counts.sum()
    often = expected >= 5
    observed = np.append(counts[often], counts[~often].sum())
    expected = np.append(expected[often], expected[~often].sum())
    if expected[-1] < 5:
        observed[-2:] = observed[-2:].sum()
        expected[-2:] = expected[-2:].sum()
        observed, expected = observed[:-1], expected[:-1]
    return stats.chisquare(observed, expected).pvalue if len(observed) > 1 else 1.0


def sampled(graph, probability, asked, seed):
    """SAMPLE walks of each kind, all in one call and in mixed order."""
    rng = np.random.default_rng(seed)
    kinds = rng.permutation(np.repeat(np.arange(len(asked)), SAMPLE))
    offsets, cells = walks(graph, probability, *np.array(asked)[kinds].T, rng)
    return [(offsets, cells, np.flatnonzero(kinds == kind)) for kind in range(len(asked))]


CASES = {
    "grid": (grid(3), [(0, 7, 2), (0, 8, 5), (4, 8, 4), (8, 8, 3)]),
    "larger grid": (grid(4), [(0, 15, 4), (0, 15, 5), (3, 15, 6)]),
    "ring": (ring(6), [(0, 3, 3), (1, 3, 8), (3, 3, 6), (5, 3, 10)]),
    "one way": (one_way(6, 1), [(0, 3, 4), (2, 3, 6), (5, 1, 5)]),
    "one way, more cells": (one_way(9, 2), [(0, 8, 8), (4, 8, 7), (8, 0, 6)]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("room", [1 << 24, 1])
def test_walks_have_the_law_of_the_chain_given_both_ends_and_the_moves(name, room, monkeypatch):
    """With all messages in memory, and with most of them made again."""
    monkeypatch.setattr(module, "_ROOM", room)
    graph, asked = CASES[name]
    probability = chances(graph, seed=len(name))
    for (first, last, moves), drawn in zip(
        asked, sampled(graph, probability, asked, seed=room), strict=True
    ):
        names, law = law_of(graph, probability, first, last, moves)
        assert len(names) > 1
        assert p_value(counts_of(names, *drawn), law) > LEVEL


@pytest.mark.parametrize("exponent", [-60, -300, -600])
def test_walks_have_the_law_where_doubles_vanish(exponent, monkeypatch):
    """Moves to the right have almost no probability, and every path has two: 2^-1200 is below the
    smallest double.
    """
    by_logarithms, attempted = [], module._attempted
    monkeypatch.setattr(
        module, "_attempted", lambda *args: by_logarithms.append(args[-1]) or attempted(*args)
    )
    graph, asked = grid(3), [(0, 7, 4), (2, 8, 3), (1, 8, 5)]
    probability = chances(graph, seed=5) * np.where(
        graph.targets // 3 > graph.sources // 3, 2.0**exponent, 1
    )
    for (first, last, moves), drawn in zip(
        asked, sampled(graph, probability, asked, seed=6), strict=True
    ):
        names, law = law_of(graph, probability, first, last, moves)
        assert np.count_nonzero(law * SAMPLE > 5) > 5
        assert p_value(counts_of(names, *drawn), law) > LEVEL
    assert any(by_logarithms) == (exponent == -600)


@pytest.mark.parametrize("room", [1000, pytest.param(1 << 24, marks=pytest.mark.slow)])
def test_long_walks_over_hundreds_of_cells_stand_where_they_should_halfway(room, monkeypatch):
    """Too many paths to list: where walks stand after some moves, against powers of the whole
    matrix.
    """
    monkeypatch.setattr(module, "_ROOM", room)
    graph, asked = grid(20), [(0, 210, 15), (399, 210, 40), (205, 210, 33), (17, 380, 30)]
    probability = chances(graph, seed=14)
    step = np.zeros((400, 400))
    step[graph.sources, graph.targets] = probability
    for (first, last, moves), (offsets, cells, which) in zip(
        asked, sampled(graph, probability, asked, 15), strict=True
    ):
        for before in (moves // 3, moves - 4):
            law = (
                np.linalg.matrix_power(step, before)[first]
                * np.linalg.matrix_power(step, moves - before)[:, last]
            )
            found = np.bincount(cells[offsets[which] + before], minlength=400)
            assert not found[law == 0].any()
            assert p_value(np.append(found[law > 0], 0), law[law > 0] / law.sum()) > LEVEL


def size_for_power(law, wrong):
    """The sample at which a chi-square test at LEVEL misses the wrong law less than once in a
    million.
    """
    divergence, free = ((wrong - law) ** 2 / law).sum(), len(law) - 1
    critical = stats.chi2.isf(LEVEL, free)
    sizes = 2 ** np.arange(8, 24)
    return int(sizes[stats.ncx2.sf(critical, free, sizes * divergence) > 1 - 1e-6][0])


def test_an_edge_that_is_ten_percent_off_is_rejected():
    graph = grid(3)
    probability = chances(graph, seed=7) + 0.05
    names, law = law_of(graph, probability, 0, 8, 4)
    off = probability.copy()
    off[graph.edge(np.array([0]), np.array([4]))] *= 1.1
    wrong = law_of(graph, off, 0, 8, 4)[1]
    size = size_for_power(law, wrong)
    ends = np.zeros(size, int), np.full(size, 8), np.full(size, 4)
    counts = counts_of(names, *walks(graph, off, *ends, np.random.default_rng(8)), range(size))
    assert p_value(counts, law) < LEVEL
    assert p_value(counts, wrong) > LEVEL
    counts = counts_of(
        names, *walks(graph, probability, *ends, np.random.default_rng(9)), range(size)
    )
    assert p_value(counts, law) > LEVEL


@pytest.mark.parametrize(
    "wrong", ["steps by probability alone", "all paths alike", "by hops to the end"]
)
def test_a_law_that_forgets_a_part_is_rejected(wrong):
    """The first goes on to any cell from which the end can still be reached, in proportion to the
    edge: it forgets how likely that is.
    """
    graph, (first, last, moves) = grid(3), (0, 5, 4)
    probability = chances(graph, seed=10) + 0.02
    names, law = law_of(graph, probability, first, last, moves)
    paths = paths_of(graph, first, last, moves)
    share = np.ones(len(paths))
    if wrong == "steps by probability alone":
        for step in range(moves):
            ways = {tuple(path[: step + 1]) for path in paths.tolist()}
            total = {}
            for way in ways:
                total[way[:-1]] = total.get(way[:-1], 0) + probability[way[-1]]
            share *= [
                probability[path[step]] / total[tuple(path[:step])] for path in paths.tolist()
            ]
    elif wrong == "by hops to the end":
        share = law * 0.5 ** np.count_nonzero(graph.targets[paths] == last, axis=1)
    share /= share.sum()
    size = size_for_power(law, share)
    ends = np.full(size, first), np.full(size, last), np.full(size, moves)
    counts = counts_of(
        names, *walks(graph, probability, *ends, np.random.default_rng(11)), range(size)
    )
    assert p_value(counts, law) > LEVEL
    assert p_value(counts, share) < LEVEL


class Map:
    """Cells of a square (rows of text, # is a cell), the eight directions between those that touch,
    and links between others.
    """

    def __init__(self, rows, links=()):
        y, x = np.nonzero([[sign == "#" for sign in row] for row in rows])
        near = (abs(x[:, None] - x) <= 1) & (abs(y[:, None] - y) <= 1) & ~np.eye(len(x), dtype=bool)
        for a, b in links:
            near[a, b] = near[b, a] = True
        self.graph = graph_of(near)
        across, up = (place[self.graph.targets] - place[self.graph.sources] for place in (x, y))
        self.directions = np.rint(np.arctan2(up, across) * 4 / np.pi).astype(int) & 7

    def chain(self, seed, *, closed=0.0):
        """Attractions of edges, a share of them 0, and factors of turns, neither of them
        symmetric.
        """
        rng = np.random.default_rng(seed)
        attraction = (rng.gamma(0.7, size=len(self.directions)) + 0.02) * (
            rng.random(len(self.directions)) >= closed
        )
        return attraction, np.array([1.0, 0.4, 0.15, 0.03, 0.05, 0.02, 0.3, 0.6]) * rng.uniform(
            0.8, 1.2, 8
        )

    def law(self, attraction, factors, first, last, moves, *, sums=True, turns=1):
        """Every path with its probability: edge by edge, each by the definition; or a wrong one,
        without Z or with turns reversed.
        """
        graph, logs = self.graph, []
        paths = paths_of(graph, first, last, moves)
        with np.errstate(divide="ignore"):
            for path in paths:
                log = np.log(attraction[path[0]])
                for before, edge in itertools.pairwise(path):
                    onward = np.arange(
                        *graph.starts[graph.targets[before] : graph.targets[before] + 2]
                    )
                    weights = (
                        attraction
                        * factors[turns * (self.directions - self.directions[before]) % 8]
                    )
                    log += np.log(weights[edge]) - (np.log(weights[onward].sum()) if sums else 0)
                logs.append(log)
        law = np.exp(np.array(logs) - max(logs))
        cells = np.column_stack([np.full(len(paths), first), graph.targets[paths]])
        return [row.tobytes() for row in cells.astype(np.int64)], law / law.sum()

    def counts(self, names, attraction, factors, kind, size, seed):
        ends = (np.full(size, part) for part in kind)
        rng = np.random.default_rng(seed)
        return counts_of(
            names,
            *turning_walks(self.graph, self.directions, attraction, factors, *ends, rng),
            range(size),
        )


MAPS = {
    "square": (Map(["###", "###", "###"]), 0, [(0, 7, 2), (0, 8, 4), (4, 4, 5)]),
    "holes": (Map(["###.", "#.##", "####"]), 0, [(0, 8, 5), (5, 9, 4), (2, 2, 4)]),
    "one way here and there": (Map(["####", "####"]), 0.3, [(0, 7, 5), (4, 3, 5)]),
    "two links in one direction": (
        Map(["##.##", "##...", "...##"], [(1, 2), (1, 3), (5, 6)]),
        0,
        [(0, 3, 4), (4, 7, 6)],
    ),
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("room", [1 << 24, 1])
def test_walks_that_turn_have_the_law_of_the_second_order_chain(name, room, monkeypatch):
    """And not that of one without the sums, with turns to the other side, or with turns of one kind
    alike.
    """
    monkeypatch.setattr(module, "_ROOM", room)
    city, closed, asked = MAPS[name]
    attraction, factors = city.chain(len(name), closed=closed)
    for kind in asked:
        names, law = city.law(attraction, factors, *kind)
        counts = city.counts(names, attraction, factors, kind, SAMPLE, seed=room)
        assert np.count_nonzero(law * SAMPLE > 5) > 1
        assert p_value(counts, law) > LEVEL
        if name == "square" and kind[2] > 2:
            for wrong in ({"sums": False}, {"turns": -1}):
                assert p_value(counts, city.law(attraction, factors, *kind, **wrong)[1]) < LEVEL
            assert p_value(counts, city.law(attraction, np.ones(8), *kind)[1]) < LEVEL


def test_a_turn_that_is_ten_percent_off_is_rejected():
    city, kind = MAPS["square"][0], (0, 8, 4)
    attraction, factors = city.chain(16)
    names, law = city.law(attraction, factors, *kind)
    off = factors * np.where(np.arange(8) == 1, 1.1, 1.0)
    wrong = city.law(attraction, off, *kind)[1]
    size = size_for_power(law, wrong)
    counts = city.counts(names, attraction, off, kind, size, seed=17)
    assert p_value(counts, law) < LEVEL
    assert p_value(counts, wrong) > LEVEL
    assert p_value(city.counts(names, attraction, factors, kind, size, seed=18), law) > LEVEL


@pytest.mark.parametrize("what", ["attraction", "factor"])
@pytest.mark.parametrize("exponent", [-60, -300, -600])
def test_walks_that_turn_have_the_law_where_doubles_vanish(what, exponent, monkeypatch):
    """Every path has two moves to the right, or a turn at least, which have almost no
    probability.
    """
    by_logarithms, attempted = [], module._attempted
    monkeypatch.setattr(
        module, "_attempted", lambda *args: by_logarithms.append(args[-1]) or attempted(*args)
    )
    city = Map(["###", "#.#", "###"])
    attraction, factors = city.chain(19)
    kinds = [(0, 7, 4), (0, 7, 6), (3, 4, 5)]
    if what == "attraction":
        attraction[np.isin(city.directions, [7, 0, 1])] *= 2.0**exponent
    else:
        factors[1:] *= 2.0**exponent
    for kind in kinds:
        names, law = city.law(attraction, factors, *kind)
        assert np.count_nonzero(law * SAMPLE > 5) > 1
        assert p_value(city.counts(names, attraction, factors, kind, SAMPLE, seed=20), law) > LEVEL
    assert any(by_logarithms) == (exponent == -600)


@pytest.mark.slow
def test_long_walks_that_turn_stand_where_they_should_halfway(monkeypatch):
    """Too many paths to list: where walks stand and where they come from, against powers of the
    matrix of all edges.
    """
    monkeypatch.setattr(module, "_ROOM", 5000)
    city = Map(["#" * 8] * 3 + ["##.##.##"] * 2 + ["#" * 8] * 3)
    attraction, factors = city.chain(21)
    graph, edges, size = city.graph, np.arange(len(city.directions)), 5 * SAMPLE
    follows = graph.targets[:, None] == graph.sources
    step = follows * attraction * factors[(city.directions - city.directions[:, None]) % 8]
    step /= step.sum(axis=1, keepdims=True)
    for first, last, moves in [(0, 59, 20), (30, 3, 31)]:
        ends = np.full(size, first), np.full(size, last), np.full(size, moves)
        rng = np.random.default_rng(22)
        offsets, cells = turning_walks(graph, city.directions, attraction, factors, *ends, rng)
        for before in (1, moves // 2, moves - 3):
            law = (attraction * (graph.sources == first)) @ np.linalg.matrix_power(step, before - 1)
            law *= np.linalg.matrix_power(step, moves - before)[:, graph.targets == last].sum(
                axis=1
            )
            at = offsets[:-1] + before
            found = np.bincount(graph.edge(cells[at - 1], cells[at]), minlength=len(edges))
            assert not found[law == 0].any()
            assert p_value(np.append(found[law > 0], 0), law[law > 0] / law.sum()) > LEVEL
