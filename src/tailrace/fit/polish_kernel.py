"""Compiled loops that change single values of rows."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True)
def sweep(
    digits: np.ndarray,
    residual: np.ndarray,
    weights: np.ndarray,
    shape: np.ndarray,
    cliques: tuple,
    holding: tuple,
    proposals: int,
    rng: np.random.Generator,
) -> int:
    """Propose so many changes of one value, take those that make the weighted sum of squared residuals smaller; how many were taken.

    `cliques` are (starts, attributes, strides, offsets): those of clique q lie at starts[q]:starts[q + 1]. `holding` are (starts, cliques,
    strides): the cliques that hold an attribute, and its stride in each.
    """
    starts, attributes, strides, offsets = cliques
    held, which, own = holding
    rows, columns = digits.shape
    cells = np.empty(which.size, np.int64)
    taken = 0
    for _ in range(proposals):
        r, j = int(rng.random() * rows), int(rng.random() * columns)
        if held[j] == held[j + 1] or shape[j] == 1:
            continue
        old = digits[r, j]
        new = int(rng.random() * (shape[j] - 1))
        if new >= old:
            new += 1
        gain = 0.0
        for h in range(held[j], held[j + 1]):
            q = which[h]
            cell = offsets[q]
            for i in range(starts[q], starts[q + 1]):
                cell += strides[i] * digits[r, attributes[i]]
            cells[h] = cell
            gain += weights[q] * (residual[cell] - residual[cell + (new - old) * own[h]] - 1.0)
        if gain <= 0.0:
            continue
        taken += 1
        digits[r, j] = new
        for h in range(held[j], held[j + 1]):
            residual[cells[h]] -= 1.0
            residual[cells[h] + (new - old) * own[h]] += 1.0
    return taken
