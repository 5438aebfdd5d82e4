"""Synthetic rows brought nearer to measured marginals than any model of bounded size: one value of one row at a time.

A change of a value moves one count of every marginal that holds its column down and another one up. It is made where that lowers
the squared distances to the wanted counts, weighed by how well each is known; sweeps go on until hardly anything changes. Rows
that need no change stay as they are, so that a table that is polished again after small news changes little.
"""

from __future__ import annotations

import functools

import numpy as np

from tailrace.marginals import Marginals

_SETTLED = 1e-3  # a sweep that changes fewer of all values is the last


def polished(
    digits: np.ndarray,
    marginals: Marginals,
    wanted: np.ndarray,
    weights: np.ndarray,
    rng: np.random.Generator,
    *,
    sweeps: int,
) -> np.ndarray:
    """The rows after at most so many sweeps; `wanted` are flat counts, `weights` one number for each marginal, 0 where nothing is known.

    >>> table = np.zeros((6, 2), np.int32)
    >>> pair = Marginals(shape=(2, 2), cliques=((0, 1),))
    >>> wanted = np.array([3.0, 0.0, 1.0, 2.0])
    >>> pair.tally(polished(table, pair, wanted, np.ones(1), np.random.default_rng(1), sweeps=50))
    array([3, 0, 1, 2])
    """
    from tailrace.fit.polish_kernel import sweep

    table = np.array(digits, np.int32, order="C")
    if not table.size or not weights.any():
        return table
    known = np.flatnonzero(weights)
    shape, cliques, holding = _layout(marginals, tuple(known.tolist()))
    residual = (marginals.tally(table) - wanted).astype(float)
    scaled = weights / weights.max()
    for _ in range(sweeps):
        if sweep(table, residual, scaled, shape, cliques, holding, table.size, rng) < _SETTLED * table.size:
            break
    return table


@functools.lru_cache(maxsize=8)
def _layout(marginals: Marginals, known: tuple[int, ...]) -> tuple:
    """The shape, and where cliques' and attributes' cells lie, as the kernel takes them; only the cliques that are known."""
    starts, attributes, strides, wanted = [0], [], [], set(known)
    held: list[list[tuple[int, int]]] = [[] for _ in marginals.shape]
    for q, clique in enumerate(marginals.cliques):
        sizes = [marginals.shape[a] for a in clique]
        own = [int(np.prod(sizes[i + 1 :])) for i in range(len(clique))]
        attributes += clique
        strides += own
        starts.append(len(attributes))
        if q in wanted:
            for attribute, stride in zip(clique, own, strict=True):
                held[attribute].append((q, stride))
    flat = [one for each in held for one in each]
    first = np.concatenate([[0], np.cumsum([len(each) for each in held])])
    which, stride = (np.array([one[part] for one in flat], np.int64) for part in (0, 1))
    cliques = (np.array(starts), np.array(attributes), np.array(strides), marginals.offsets)
    return np.array(marginals.shape), cliques, (first, which, stride)
