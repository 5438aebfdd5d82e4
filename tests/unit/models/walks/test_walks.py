"""Walks where something is special: no path of the moves, no probability, no edge; and the lengths
of paths.
"""

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra, shortest_path

from tailrace.domain.geometry.graph import Graph
from tailrace.errors import DataError
from tailrace.models.walks.paths import hops, most_probable
from tailrace.models.walks.second_order import edge_graph, turning_walks
from tailrace.models.walks.walks import walks

LINE = Graph.of_pairs(np.array([[0, 1], [1, 2], [2, 3]]), 4)
TRIANGLE_WITH_TAIL = Graph.of_pairs(np.array([[0, 1], [1, 2], [0, 2], [2, 3], [3, 4]]), 5)


def directed(*edges):
    sources, targets = np.array(sorted(edges)).T
    return Graph(
        starts=np.searchsorted(sources, np.arange(max(max(e) for e in edges) + 2)), targets=targets
    )


def even(graph):
    return 1 / np.diff(graph.starts)[graph.sources]


def one(graph, first, last, moves, probability=None, seed=0):
    probability = even(graph) if probability is None else probability
    offsets, cells = walks(
        graph, probability, *np.array([[first], [last], [moves]]), np.random.default_rng(seed)
    )
    assert offsets.tolist() == [0, len(cells)]
    return cells.tolist()


def turning(graph, directions, asked, attraction, factors, seed=0):
    """Walks that turn, as lists of cells."""
    rng = np.random.default_rng(seed)
    offsets, cells = turning_walks(graph, directions, attraction, factors, *np.array(asked).T, rng)
    return [cells[a:b].tolist() for a, b in itertools.pairwise(offsets)]


@pytest.mark.parametrize(
    ("first", "last", "moves", "taken"),
    [
        (0, 3, 3, 3),  # the only path
        (0, 3, 0, 3),  # too few
        (0, 3, 4, 5),  # the wrong parity
        (0, 0, 0, 0),
        (0, 0, 1, 2),
        (1, 1, -5, 0),
        (2, 1, 6, 7),
    ],
)
def test_moves_that_no_path_has_are_raised_to_the_next_that_one_has(first, last, moves, taken):
    cells = one(LINE, first, last, moves)
    assert len(cells) == taken + 1 and cells[0] == first and cells[-1] == last


def test_an_odd_circle_far_away_serves_both_parities():
    assert len(one(TRIANGLE_WITH_TAIL, 4, 4, 1)) - 1 == 2
    assert (
        len(one(TRIANGLE_WITH_TAIL, 4, 4, 3)) - 1 == 4
    )  # 3 moves do not reach the triangle and back
    assert len(one(TRIANGLE_WITH_TAIL, 4, 4, 7)) - 1 == 7


def test_edges_of_one_direction_allow_only_what_their_circles_allow():
    circle = directed((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))
    assert len(one(circle, 0, 2, 3)) - 1 == 7  # once around
    assert len(one(circle, 0, 2, 12)) - 1 == 12
    beside = directed((0, 1), (1, 2), (2, 0), (2, 3), (3, 4))
    assert len(one(beside, 0, 4, 5)) - 1 == 7
    assert one(beside, 3, 4, 9) == [3, 4]  # nothing longer: the longest there is
    both = directed((0, 1), (1, 2), (0, 2))
    assert one(both, 0, 2, 9) == [0, 1, 2]


def test_an_edge_without_probability_is_used_only_where_there_is_no_other_way():
    detour = Graph.of_pairs(np.array([[0, 1], [1, 2], [0, 2], [2, 3]]), 4)
    probability = even(detour)
    probability[detour.edge(np.array([0, 2]), np.array([2, 3]))] = 0, 0
    assert one(detour, 0, 2, 1, probability) == [0, 1, 2]
    assert one(detour, 0, 3, 3, probability) == [0, 1, 2, 3]
    probability[:] = np.nan
    assert one(detour, 0, 3, 2, probability) == [0, 2, 3]


def test_a_graph_in_two_parts_has_no_walk_between_them():
    with pytest.raises(DataError, match="lead from every first cell"):
        one(Graph.of_pairs(np.array([[0, 1], [2, 3]]), 4), 0, 3, 2)


def test_arrays_of_different_lengths_are_refused():
    with pytest.raises(DataError, match="probability for each edge"):
        walks(LINE, np.ones(2), np.zeros(1), np.zeros(1), np.zeros(1), np.random.default_rng(0))
    with pytest.raises(DataError, match="moves for each walk"):
        walks(LINE, even(LINE), np.zeros(1), np.zeros(1), np.zeros(2), np.random.default_rng(0))
    with pytest.raises(DataError, match="as many last cells"):
        hops(LINE, np.zeros(1), np.zeros(2))
    for directions, factors, says in (
        (np.zeros(2), np.ones(8), "direction and an attraction"),
        (np.zeros(6), np.ones(7), "eight factors"),
        (np.full(6, 8), np.ones(8), "0 to 7"),
    ):
        with pytest.raises(DataError, match=says):
            turning(LINE, directions, [(0, 0, 0)], even(LINE), factors)


@pytest.mark.parametrize(("first", "last"), [(-1, 0), (0, 4), (4, 0), (0, -1)])
def test_cells_that_the_graph_does_not_have_are_refused(first, last):
    ends = np.array([first]), np.array([last])
    with pytest.raises(DataError, match="numbers of the graph's cells"):
        one(LINE, first, last, 2)
    with pytest.raises(DataError, match="numbers of the graph's cells"):
        hops(LINE, *ends)
    with pytest.raises(DataError, match="numbers of the graph's cells"):
        most_probable(LINE, even(LINE), *ends)
    with pytest.raises(DataError, match="numbers of the graph's cells"):
        turning(LINE, np.zeros(6), [(first, last, 2)], even(LINE), np.ones(8))


def test_one_cell_and_no_walks():
    alone = Graph(starts=np.zeros(2, int), targets=np.zeros(0, int))
    assert one(alone, 0, 0, 4) == [0]
    nothing = np.zeros(0, int)
    offsets, cells = walks(LINE, even(LINE), nothing, nothing, nothing, np.random.default_rng(0))
    assert offsets.tolist() == [0] and not len(cells)
    assert not len(hops(LINE, nothing, nothing)) and not len(
        most_probable(LINE, even(LINE), nothing, nothing)
    )


@pytest.mark.parametrize("rare", [1e-10, 1e-300])
def test_a_long_walk_of_tiny_probability_arrives(rare):
    """Some 10^-4000 or 10^-120000: far below the smallest double."""
    far = Graph.of_pairs(np.column_stack([np.arange(400), np.arange(1, 401)]), 401)
    probability = np.where(far.targets > far.sources, rare, 1 - rare)
    cells = one(far, 0, 400, 410, probability)
    assert len(cells) == 411 and cells[-1] == 400 and (abs(np.diff(cells)) == 1).all()


def test_a_part_that_doubles_lose_beside_one_that_they_hold_is_not_lost():
    """Over 1 the smallest double, over 2 half of it, which is 0; the other walk, over 3, keeps
    messages from being scaled.
    """
    two_ways = directed((0, 1), (0, 2), (1, 4), (2, 4), (3, 4), (4, 3))
    probability = np.array([2.0**-537, 2.0**-538, 2.0**-537, 2.0**-537, 1.0, 1.0])
    ends = np.tile([0, 3], 300), np.full(600, 4), np.tile([2, 3], 300)
    offsets, cells = walks(two_ways, probability, *ends, np.random.default_rng(0))
    over = np.bincount(cells[offsets[:-1:2] + 1], minlength=3)
    assert over[1] + over[2] == 300 and 60 < over[2] < 140


def test_the_same_seed_gives_the_same_walks_in_any_company():
    rng = np.random.default_rng(1)
    asked = rng.integers(0, 5, 200), rng.integers(0, 5, 200), rng.integers(0, 12, 200)
    chance = even(TRIANGLE_WITH_TAIL)
    again = [walks(TRIANGLE_WITH_TAIL, chance, *asked, np.random.default_rng(2)) for _ in range(2)]
    assert all((a == b).all() for a, b in zip(*again, strict=True))
    other = walks(TRIANGLE_WITH_TAIL, chance, *asked, np.random.default_rng(3))
    assert (other[0] == again[0][0]).all() and (other[1] != again[0][1]).any()


def random_graph(seed, cells=60):
    rng = np.random.default_rng(seed)
    dense = rng.random((cells, cells)) < 0.05
    np.fill_diagonal(dense, False)
    sources, targets = np.nonzero(dense)
    return Graph(starts=np.searchsorted(sources, np.arange(cells + 1)), targets=targets), rng


@pytest.mark.parametrize("seed", range(5))
def test_hops_are_those_of_a_shortest_path(seed):
    graph, _ = random_graph(seed)
    dense = csr_array((np.ones(len(graph.targets)), graph.targets, graph.starts), shape=(60, 60))
    expected = shortest_path(dense, unweighted=True)
    first, last = (part.reshape(-1) for part in np.indices((60, 60)))
    expected = np.where(np.isinf(expected), -1, expected)[first, last]
    assert (expected < 0).any() and (hops(graph, first, last) == expected).all()


@pytest.mark.parametrize("seed", range(5))
def test_most_probable_paths_have_as_many_moves_as_those_of_dijkstra(seed):
    graph, rng = random_graph(seed)
    probability = rng.gamma(0.3, size=len(graph.targets)) + 1e-3
    probability /= probability.max() * 2
    costs = csr_array((-np.log(probability), graph.targets, graph.starts), shape=(60, 60))
    _, before = dijkstra(costs, return_predecessors=True)
    first, last = (part.reshape(-1) for part in np.indices((60, 60)))
    found = most_probable(graph, probability, first, last)
    for a, b, moves in zip(first, last, found, strict=True):
        path = [b]
        while path[-1] != a and before[a, path[-1]] >= 0:
            path.append(before[a, path[-1]])
        assert moves == (len(path) - 1 if path[-1] == a else -1)


def test_the_graph_of_edges_leads_from_edge_to_edge():
    over = edge_graph(TRIANGLE_WITH_TAIL)
    edges, cells = len(TRIANGLE_WITH_TAIL.targets), TRIANGLE_WITH_TAIL.cells
    assert over.cells == edges + 2 * cells
    for source, target in zip(over.sources, over.targets, strict=True):
        at = TRIANGLE_WITH_TAIL.targets[source] if source < edges else source - edges
        leaves = TRIANGLE_WITH_TAIL.sources[target] if target < edges else target - edges - cells
        assert at == leaves
    assert (
        len(over.targets)
        == sum(np.diff(TRIANGLE_WITH_TAIL.starts)[TRIANGLE_WITH_TAIL.targets]) + 2 * edges + cells
    )


def board(side):
    """A square of cells that touch at sides and corners: the graph, and the directions of its
    edges.
    """
    x, y = np.divmod(np.arange(side * side), side)
    near = np.maximum(abs(x[:, None] - x), abs(y[:, None] - y)) == 1
    graph = directed(*np.argwhere(near).tolist())
    across, up = (place[graph.targets] - place[graph.sources] for place in (x, y))
    return graph, np.rint(np.arctan2(up, across) * 4 / np.pi).astype(int) & 7


def test_walks_that_turn_stay_still_turn_back_only_if_they_may_and_arrive():
    graph, directions = board(4)
    asked = [(0, 0, 0), (0, 15, 3), (0, 0, 3), (5, 5, 9), (3, 12, 6)]
    paths = turning(graph, directions, asked, even(graph), np.where(np.arange(8) == 4, 0.0, 1.0))
    assert paths[0] == [0] and paths[1] == [0, 5, 10, 15]
    assert all((p[0], p[-1], len(p) - 1) == kind for p, kind in zip(paths, asked, strict=True))
    assert not any(a == b for path in paths for a, b in zip(path, path[2:], strict=False))


def test_a_turn_without_a_factor_is_used_only_where_nothing_else_leads_on():
    graph, directions = board(4)
    straight = np.where(np.arange(8) == 0, 1.0, 0.0)
    asked = [(0, 3, 3), (0, 3, 1), (0, 3, 9), (0, 15, 2), (0, 6, 2), (0, 0, 3)]
    paths = turning(graph, directions, asked, even(graph), straight)
    assert paths[:3] == [[0, 1, 2, 3]] * 3, "straight on in 3 moves, or not at all"
    assert paths[3] == [0, 5, 10, 15]
    assert paths[4] in ([0, 1, 6], [0, 5, 6]), "one turn, since there must be one"
    assert paths[5] == [0], "nothing longer leads back"


def test_edges_without_attraction_are_used_as_little_as_can_be():
    """Two strips of a board with closed cells between them: a walk that has moves to spare spends
    them on the strips.
    """
    graph, directions = board(7)
    row = np.arange(49) // 7
    closed = (row == 2) | (row == 3) | (row == 4)
    attraction = np.where(closed[graph.targets] | closed[graph.sources], 0.0, 1.0)
    asked = [(0, 48, 20)] * 50 + [(0, 13, 12)] * 50
    paths = turning(graph, directions, asked, attraction, np.linspace(1, 0.1, 8))
    assert all(len(path) - 1 == kind[2] for path, kind in zip(paths, asked, strict=True))
    assert {closed[path].sum() for path in paths[:50]} == {3}
    assert {closed[path].sum() for path in paths[50:]} == {0}
    nothing = turning(graph, directions, asked, np.full(len(directions), np.nan), np.zeros(8))
    assert all(len(path) - 1 == kind[2] for path, kind in zip(nothing, asked, strict=True))


def test_a_long_walk_that_turns_of_tiny_probability_arrives():
    """Along a line every move on is 10^-300 times as attractive as one back."""
    far = Graph.of_pairs(np.column_stack([np.arange(400), np.arange(1, 401)]), 401)
    onward = far.targets > far.sources
    cells = turning(
        far, np.where(onward, 0, 4), [(0, 400, 410)], np.where(onward, 1e-300, 1.0), np.ones(8)
    )[0]
    assert len(cells) == 411 and cells[-1] == 400 and (abs(np.diff(cells)) == 1).all()


def test_no_walks_and_one_cell_do_not_turn():
    alone = Graph(starts=np.zeros(2, int), targets=np.zeros(0, int))
    assert turning(alone, np.zeros(0, int), [(0, 0, 4)], np.zeros(0), np.ones(8)) == [[0]]
    assert turning(*board(2), np.zeros((0, 3), int), np.ones(12), np.ones(8)) == []
    with pytest.raises(DataError, match="lead from every first cell"):
        turning(
            Graph.of_pairs(np.array([[0, 1], [2, 3]]), 4),
            np.zeros(4),
            [(0, 3, 2)],
            np.ones(4),
            np.ones(8),
        )
