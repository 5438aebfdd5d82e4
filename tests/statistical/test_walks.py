"""Conditioned walks have exactly their law: chi-square against enumeration of all paths, which also rejects wrong laws."""

import numpy as np
import pytest
from scipy import stats

from tailrace.journeys import walks as module
from tailrace.journeys.graph import Graph
from tailrace.journeys.second_order import walks_by_pairs
from tailrace.journeys.walks import walks

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
    """Every path as a string of its cells, with its probability; by logarithms, which do not vanish."""
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
    for (first, last, moves), drawn in zip(asked, sampled(graph, probability, asked, seed=room), strict=True):
        names, law = law_of(graph, probability, first, last, moves)
        assert len(names) > 1
        assert p_value(counts_of(names, *drawn), law) > LEVEL


@pytest.mark.parametrize("exponent", [-60, -300, -600])
def test_walks_have_the_law_where_doubles_vanish(exponent, monkeypatch):
    """Moves to the right have almost no probability, and every path has two: 2^-1200 is below the smallest double."""
    by_logarithms, attempted = [], module._attempted
    monkeypatch.setattr(module, "_attempted", lambda *args: by_logarithms.append(args[-1]) or attempted(*args))
    graph, asked = grid(3), [(0, 7, 4), (2, 8, 3), (1, 8, 5)]
    probability = chances(graph, seed=5) * np.where(graph.targets // 3 > graph.sources // 3, 2.0**exponent, 1)
    for (first, last, moves), drawn in zip(asked, sampled(graph, probability, asked, seed=6), strict=True):
        names, law = law_of(graph, probability, first, last, moves)
        assert np.count_nonzero(law * SAMPLE > 5) > 5
        assert p_value(counts_of(names, *drawn), law) > LEVEL
    assert any(by_logarithms) == (exponent == -600)


@pytest.mark.parametrize("room", [1 << 24, 1000])
def test_long_walks_over_hundreds_of_cells_stand_where_they_should_halfway(room, monkeypatch):
    """Too many paths to list: where walks stand after some moves, against powers of the whole matrix."""
    monkeypatch.setattr(module, "_ROOM", room)
    graph, asked = grid(20), [(0, 210, 15), (399, 210, 40), (205, 210, 33), (17, 380, 30)]
    probability = chances(graph, seed=14)
    step = np.zeros((400, 400))
    step[graph.sources, graph.targets] = probability
    for (first, last, moves), (offsets, cells, which) in zip(
        asked, sampled(graph, probability, asked, 15), strict=True
    ):
        for before in (moves // 3, moves - 4):
            law = np.linalg.matrix_power(step, before)[first] * np.linalg.matrix_power(step, moves - before)[:, last]
            found = np.bincount(cells[offsets[which] + before], minlength=400)
            assert not found[law == 0].any()
            assert p_value(np.append(found[law > 0], 0), law[law > 0] / law.sum()) > LEVEL


def size_for_power(law, wrong):
    """The sample at which a chi-square test at LEVEL misses the wrong law less than once in a million."""
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
    counts = counts_of(names, *walks(graph, probability, *ends, np.random.default_rng(9)), range(size))
    assert p_value(counts, law) > LEVEL


@pytest.mark.parametrize("wrong", ["steps by probability alone", "all paths alike", "by hops to the end"])
def test_a_law_that_forgets_a_part_is_rejected(wrong):
    """The first goes on to any cell from which the end can still be reached, in proportion to the edge: it forgets how likely that is."""
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
            share *= [probability[path[step]] / total[tuple(path[:step])] for path in paths.tolist()]
    elif wrong == "by hops to the end":
        share = law * 0.5 ** np.count_nonzero(graph.targets[paths] == last, axis=1)
    share /= share.sum()
    size = size_for_power(law, share)
    ends = np.full(size, first), np.full(size, last), np.full(size, moves)
    counts = counts_of(names, *walks(graph, probability, *ends, np.random.default_rng(11)), range(size))
    assert p_value(counts, law) > LEVEL
    assert p_value(counts, share) < LEVEL


def test_walks_by_pairs_have_the_law_of_the_second_order_chain():
    graph, (first, last, moves) = grid(3), (0, 7, 4)
    rng = np.random.default_rng(12)
    probability = chances(graph, seed=13)
    onward = np.diff(graph.starts)[graph.targets]
    pairs = rng.gamma(0.5, size=onward.sum()) + 1e-3
    paths = paths_of(graph, first, last, moves)
    begins = np.cumsum(onward) - onward
    numbers = begins[paths[:, :-1]] + paths[:, 1:] - graph.starts[graph.targets[paths[:, :-1]]]
    law = probability[paths[:, 0]] * pairs[numbers].prod(axis=1)
    names = [row.tobytes() for row in np.column_stack([np.full(len(paths), first), graph.targets[paths]])]
    ends = np.full(SAMPLE, first), np.full(SAMPLE, last), np.full(SAMPLE, moves)
    counts = counts_of(names, *walks_by_pairs(graph, probability, pairs, *ends, rng), range(SAMPLE))
    assert p_value(counts, law / law.sum()) > LEVEL
    assert p_value(counts, law_of(graph, probability, first, last, moves)[1]) < LEVEL
