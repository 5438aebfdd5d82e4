"""15,000 conditioned walks against the floor: unconditioned walks of the same lengths.

Cells are those of a tree that halves where the most mass is; a few moves from each cell are likely,
all others are not; lengths are exponential around those of the most probable paths. Order 2: the
next move depends on the last one, too, by the turn that it makes; cells are then those of an even
grid in a round city, as `Trajectories` has them.
"""

import heapq
import resource

import numpy as np
from numba import njit

from runner import best_of, main, measurement
from tailrace import Box
from tailrace.domain.geometry.graph import Graph, adjacency
from tailrace.domain.geometry.partition import Partition
from tailrace.models.walks.paths import most_probable
from tailrace.models.walks.second_order import turning_walks
from tailrace.models.walks.walks import walks

WALKS, LONGEST, SECONDS, MEGABYTES = 15_000, 150, 60, 2000
TURNS = np.array(
    [1, 0.2, 0.1, 0.03, 0.05, 0.03, 0.1, 0.2]
)  # what they multiply a chance by, from straight on
SPACE = Partition(Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=4096))
CASES = [  # trips, cells, how far trips lead, order
    ("anywhere", 1_000, np.inf, 1),
    ("near", 10_000, 0.1, 1),
    ("anywhere", 10_000, np.inf, 1),
    ("near", 4_000, 0.1, 2),
    ("near", 10_000, 0.1, 2),
    ("near", 100_000, 0.03, 1),
]


def halved(leaves: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The leaves that come of halving the node of most mass again and again; a half takes a random
    share of it.
    """
    nodes = [(-1.0, 0, 0)]
    while len(nodes) < leaves:
        mass, depth, index = heapq.heappop(nodes)
        if depth == SPACE.depth:  # a finest cell stays whole
            heapq.heappush(nodes, (0.0, depth, index))
            continue
        share = rng.beta(2, 2)
        heapq.heappush(nodes, (mass * share, depth + 1, 2 * index))
        heapq.heappush(nodes, (mass - mass * share, depth + 1, 2 * index + 1))
    nodes.sort(key=lambda node: node[2] << (SPACE.depth - node[1]))
    depth, index = np.array([node[1:] for node in nodes]).T
    return depth, index


def even(leaves: int) -> tuple[np.ndarray, np.ndarray]:
    """So many cells of the coarsest grid that has as many: those nearest to the middle."""
    halvings = 2 * int(np.ceil(np.log2(leaves) / 2))
    index = np.arange(1 << halvings)
    low, high = SPACE.box(np.full(len(index), halvings), index)
    inside = np.sort(np.argsort(np.hypot(*((low + high) / 2 - 0.5).T), kind="stable")[:leaves])
    return np.full(leaves, halvings), index[inside]


def directions_of(graph: Graph, centres: np.ndarray) -> np.ndarray:
    across, up = (centres[graph.targets] - centres[graph.sources]).T
    return np.rint(np.arctan2(up, across) * 4 / np.pi).astype(np.int64) & 7


def trips(
    centres: np.ndarray, reach: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """First cells, and last cells that are the less likely the farther they are."""
    first = rng.integers(0, len(centres), WALKS)
    among = rng.integers(0, len(centres), (WALKS, 50))
    far = np.hypot(*np.moveaxis(centres[among] - centres[first][:, None], 2, 0))
    keys = -far / reach + rng.gumbel(size=far.shape)
    return first, among[np.arange(WALKS), keys.argmax(axis=1)]


@njit(cache=True)
def unconditioned(starts, targets, cumulated, first, offsets, uniforms):
    """The floor: the same chain, with no end to meet."""
    cells = np.empty(offsets[-1], np.int64)
    for walk in range(len(first)):
        cell = first[walk]
        cells[offsets[walk]] = cell
        for at in range(offsets[walk] + 1, offsets[walk + 1]):
            edge = starts[cell]
            while uniforms[at] >= cumulated[edge] and edge < starts[cell + 1] - 1:
                edge += 1
            cell = targets[edge]
            cells[at] = cell
    return cells


def floor(
    graph: Graph,
    chance: np.ndarray,
    first: np.ndarray,
    offsets: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    before = np.append(0, np.cumsum(chance))[graph.starts[:-1]]
    cumulated = np.cumsum(chance) - before[graph.sources]
    return unconditioned(
        graph.starts, graph.targets, cumulated, first, offsets, rng.random(offsets[-1])
    )


def peaked(sources: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Chances that sum to 1 for each source, most of it at a few."""
    weights = rng.gamma(0.3, size=len(sources)) + 1e-3
    return weights / np.bincount(sources, weights)[sources]


def measured(name: str, cells: int, reach: float, order: int, rng: np.random.Generator):
    depth, index = halved(cells, rng) if order == 1 else even(cells)
    low, high = SPACE.box(depth, index)
    build, graph = best_of(1, lambda _: adjacency(SPACE, depth, index))
    chance, ends = peaked(graph.sources, rng), trips((low + high) / 2, reach, rng)
    directions = directions_of(graph, (low + high) / 2)
    measure, usual = best_of(1, lambda _: most_probable(graph, chance, *ends))
    moves = np.minimum(np.ceil(rng.exponential(usual / np.log(2))), LONGEST)
    if order == 1:
        walk, (offsets, _) = best_of(1, lambda _: walks(graph, chance, *ends, moves, rng))
    else:
        walk, (offsets, _) = best_of(
            1, lambda _: turning_walks(graph, directions, chance, TURNS, *ends, moves, rng)
        )
    wander, _ = best_of(1, lambda _: floor(graph, chance, ends[0], offsets, rng))
    seconds = build.seconds + measure.seconds + walk.seconds
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    lengths = np.diff(offsets) - 1
    shape = [len(graph.targets), len(np.unique(ends[1])), lengths.mean(), lengths.max()]
    times = [build.seconds, measure.seconds, walk.seconds, walk.processor, wander.seconds]
    met = seconds < SECONDS and megabytes < MEGABYTES if cells <= 10_000 else None
    return [name, cells, order, *shape, *times, walk.seconds / wander.seconds, megabytes, met]


@measurement(
    "walks",
    keys="trips | cells | order",
    columns="edges | ends | mean moves .1f | most moves | graph s .2f | lengths s .2f | walks s .2f"
    " | processor s .2f | floor s .2f | ratio .0f | peak MB .0f | goal met ?",
    goal="graph, lengths and walks over 10,000 cells in 60 s and 2 GB on two cores",
)
def sizes():
    rng = np.random.default_rng(0)
    for order in (1, 2):
        measured("to compile", 100, np.inf, order, rng)
    for case in CASES:
        yield measured(*case, rng)


if __name__ == "__main__":
    main(__doc__)
