"""Every walk steps along edges, from its first cell to its last, in the number of moves that it was
given or the next there is.
"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tailrace.domain.geometry.graph import Graph
from tailrace.models.walks.paths import hops, most_probable
from tailrace.models.walks.second_order import edge_graph, turning_walks
from tailrace.models.walks.walks import walks


@st.composite
def questions(draw):
    """A small graph with probabilities, some of them 0 or tiny, and walks to draw over it."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    cells = draw(st.integers(1, 9))
    dense = rng.random((cells, cells)) < draw(st.sampled_from([0.1, 0.3, 0.8]))
    if draw(st.booleans()):
        dense |= dense.T
    dense |= np.roll(
        np.eye(cells, dtype=bool), 1, axis=1
    )  # so that every cell leads to every other
    np.fill_diagonal(dense, False)
    sources, targets = np.nonzero(dense)
    graph = Graph(starts=np.searchsorted(sources, np.arange(cells + 1)), targets=targets)
    probability = rng.gamma(0.3, size=len(targets)) * 2.0 ** rng.choice(
        [0, draw(st.sampled_from([0, -30, -600]))], len(targets)
    )
    probability[rng.random(len(targets)) < draw(st.sampled_from([0, 0.3, 1]))] = 0
    many = draw(st.integers(0, 12))
    return (
        graph,
        probability,
        rng.integers(0, cells, many),
        rng.integers(0, cells, many),
        rng.integers(-1, 25, many),
    )


def reachable(graph, allowed, moves):
    """For each number of moves up to the last, whether it leads from each cell to each other."""
    step = np.zeros((graph.cells, graph.cells), bool)
    step[graph.sources[allowed], graph.targets[allowed]] = True
    powers = [np.eye(graph.cells, dtype=bool)]
    for _ in range(moves):
        powers.append((powers[-1].astype(int) @ step) > 0)
    return np.array(powers)


@given(question=questions(), seed=st.integers(0, 2**32))
def test_walks_step_along_edges_between_their_ends_in_their_moves(question, seed):
    graph, probability, first, last, moves = question
    offsets, cells = walks(graph, probability, first, last, moves, np.random.default_rng(seed))
    assert len(offsets) == len(first) + 1 and offsets[-1] == len(cells)
    likely = reachable(graph, probability > 0, 120)
    possible = reachable(graph, np.ones(len(probability), bool), 120)
    for i in range(len(first)):
        path = cells[offsets[i] : offsets[i + 1]]
        assert path[0] == first[i] and path[-1] == last[i]
        ways = likely[:, first[i], last[i]]
        edges = graph.edge(path[:-1], path[1:])
        assert (edges >= 0).all()
        if ways.any():
            assert (probability[edges] > 0).all()
        else:
            ways = possible[:, first[i], last[i]]
        numbers = np.flatnonzero(ways)
        above = numbers[numbers >= moves[i]]
        assert len(path) - 1 == (above[0] if len(above) else numbers[-1])


@given(
    question=questions(), seed=st.integers(0, 2**32), forbidden=st.sampled_from([0, 0.2, 0.7, 1])
)
def test_walks_that_turn_step_along_edges_and_turns_that_have_a_chance(question, seed, forbidden):
    """Whatever the directions of edges; numbers of moves by powers of the graph of edges."""
    graph, attraction, first, last, moves = question
    rng = np.random.default_rng(seed)
    directions, factors = (
        rng.integers(0, 8, len(attraction)),
        rng.gamma(0.5, size=8) * (rng.random(8) >= forbidden),
    )
    offsets, cells = turning_walks(graph, directions, attraction, factors, first, last, moves, rng)
    edges, over = len(attraction), edge_graph(graph)
    onward, before, after = over.targets < edges, over.sources, over.targets % max(edges, 1)
    turn = np.append(directions, np.zeros(2 * graph.cells, int))
    able = (before >= edges) | (factors[(turn[after] - turn[before]) % 8] > 0)
    likely = reachable(over, ~onward | (able & (attraction[after] > 0) if edges else able), 120)
    possible = reachable(over, np.ones(len(over.targets), bool), 120)
    for i in range(len(first)):
        path = cells[offsets[i] : offsets[i + 1]]
        assert path[0] == first[i] and path[-1] == last[i]
        taken = graph.edge(path[:-1], path[1:])
        assert (taken >= 0).all()
        ends = edges + first[i], edges + graph.cells + last[i]
        ways = likely[1:, *ends]
        if ways.any():
            assert (attraction[taken] > 0).all() and (
                factors[np.diff(directions[taken]) % 8] > 0
            ).all()
        else:
            ways = possible[1:, *ends]
        numbers = np.flatnonzero(ways)
        above = numbers[numbers >= moves[i]]
        assert len(path) - 1 == (above[0] if len(above) else numbers[-1])


@given(question=questions())
def test_hops_are_the_fewest_moves_and_no_most_probable_path_has_fewer(question):
    graph, probability, first, last, _ = question
    ways = reachable(graph, np.ones(len(probability), bool), 20)
    fewest = hops(graph, first, last)
    assert (fewest == ways[:, first, last].argmax(axis=0)).all()
    assert (most_probable(graph, probability, first, last) >= fewest).all()
