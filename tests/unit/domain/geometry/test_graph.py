"""The graph of touching cells against brute force over their rectangles."""

import numpy as np
import pytest
from scipy.sparse import csgraph

from tailrace.domain import Box
from tailrace.domain.geometry.graph import Graph, adjacency
from tailrace.domain.geometry.partition import Partition
from tailrace.errors import DataError


def partition(dimensions, side=16, high=1.0):
    names = ("x", "y", "z")[:dimensions]
    return Partition(
        Box(
            low=(0,) * dimensions, high=(1,) * (dimensions - 1) + (high,), columns=names, cells=side
        )
    )


def halved(deepest, leaves, rng):
    """The leaves of random halvings, in the order of the places they cover: depths and indices."""
    nodes = [(0, 0)]
    while len(nodes) < leaves:
        shallow = [i for i, (depth, _) in enumerate(nodes) if depth < deepest]
        if not shallow:
            break
        depth, index = nodes.pop(shallow[rng.integers(len(shallow))])
        nodes += [(depth + 1, 2 * index), (depth + 1, 2 * index + 1)]
    depth, index = np.array(sorted(nodes, key=lambda node: node[1] << (deepest - node[0]))).T
    return depth, index


def touching(low, high):
    """Whether each pair of closed boxes shares a point, by comparing all pairs."""
    touch = ((low[:, None] <= high[None]) & (low[None] <= high[:, None])).all(axis=2)
    np.fill_diagonal(touch, False)
    return touch


def matrix(graph):
    dense = np.zeros((graph.cells, graph.cells), bool)
    dense[graph.sources, graph.targets] = True
    return dense


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_cells_of_random_halvings_are_neighbours_if_they_touch(dimensions, seed):
    rng = np.random.default_rng(seed)
    space = partition(dimensions)
    depth, index = halved(space.depth, int(rng.integers(1, 120)), rng)
    low, high = space.rectangles(depth, index)
    corners = space.box(depth, index)
    np.testing.assert_allclose(low / 16, corners[0])
    np.testing.assert_allclose(high / 16, corners[1])
    graph = adjacency(space, depth, index)
    assert (matrix(graph) == touching(low, high)).all()
    assert all(
        (np.diff(graph.targets[a:b]) > 0).all()
        for a, b in zip(graph.starts, graph.starts[1:], strict=False)
    )


@pytest.mark.parametrize("seed", range(8))
def test_parts_that_do_not_touch_are_linked_once_at_their_nearest_cells(seed):
    rng = np.random.default_rng(seed)
    space = partition(2, high=3.0)
    depth, index = halved(space.depth, 100, rng)
    kept = rng.random(len(depth)) < 0.3
    low, high = space.rectangles(depth[kept], index[kept])
    touch, found = touching(low, high), matrix(adjacency(space, depth[kept], index[kept]))
    parts, labels = csgraph.connected_components(touch)
    links = np.argwhere(found & ~touch)
    assert parts > 1  # else nothing is tested
    assert (
        (found | ~touch).all()
        and csgraph.connected_components(found)[0] == 1
        and len(links) == 2 * (parts - 1)
    )
    gap = np.maximum(np.maximum(low[:, None] - high[None], low[None] - high[:, None]), 0) * [1, 3]
    distance = np.hypot(gap[..., 0], gap[..., 1])
    nearest = np.array(
        [[distance[labels == a][:, labels == b].min() for b in range(parts)] for a in range(parts)]
    )
    shortest_tree = csgraph.minimum_spanning_tree(nearest).sum()
    assert distance[tuple(links.T)].sum() / 2 == pytest.approx(shortest_tree)


def test_cells_of_very_unequal_sizes_touch_as_they_should():
    rng = np.random.default_rng(0)
    space = partition(2, side=1024)
    depth, index = halved(space.depth, 2000, rng)
    low, high = space.rectangles(depth, index)
    graph = adjacency(space, depth, index)
    for cell in rng.integers(0, len(depth), 50):
        touch = ((low[cell] <= high) & (low <= high[cell])).all(axis=1)
        touch[cell] = False
        assert (
            graph.targets[graph.starts[cell] : graph.starts[cell + 1]].tolist()
            == np.flatnonzero(touch).tolist()
        )


def test_edges_are_found_by_their_cells():
    graph = Graph.of_pairs(np.array([[0, 1], [1, 2], [0, 3]]), 5)
    dense = matrix(graph)
    sources, targets = (part.reshape(-1) for part in np.indices((5, 5)))
    numbers = graph.edge(sources, targets)
    assert ((numbers >= 0) == dense[sources, targets]).all()
    assert sorted(numbers[numbers >= 0]) == list(range(6))
    assert (graph.sources[numbers[numbers >= 0]] == sources[numbers >= 0]).all()
    assert (graph.targets[numbers[numbers >= 0]] == targets[numbers >= 0]).all()


def test_one_cell_has_no_neighbour_and_no_cells_make_no_graph():
    graph = adjacency(partition(2), np.array([0]), np.array([0]))
    assert graph.cells == 1 and not len(graph.targets)
    assert graph.edge(np.array([0]), np.array([0])).tolist() == [-1]
    with pytest.raises(DataError, match="at least one cell"):
        adjacency(partition(2), np.zeros(0, int), np.zeros(0, int))
