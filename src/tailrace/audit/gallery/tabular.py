"""Tabular methods as published, where they lose more than claimed.

Streaming MWEM and Kumar's tabular stream; plain functions for audits: no Stream accepts them.
Findings: docs/explanation/corrections.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def published_exponential_mechanism(
    utilities: np.ndarray, *, epsilon: float, sensitivity: float
) -> np.ndarray:
    """Definition 3.8, as printed: log-probabilities of the choice.

    exp(-epsilon u / (2 Delta)), for a utility that should be large: private, but it picks the
    worst.
    """
    return _normalised(-epsilon * utilities / (2 * sensitivity))


def published_mwem_selection(errors: np.ndarray, *, epsilon: float, rounds: int) -> np.ndarray:
    """Algorithm 2, line 10, as printed: log-probabilities of the choice.

    exp(epsilon / (2 k) e), for errors e of sensitivity 1: epsilon / k for each of k selections,
    twice the amount that the measurements leave; 1.5 epsilon in all.
    """
    return _normalised(epsilon / (2 * rounds) * errors)


def published_workload_selection(
    residuals: Sequence[np.ndarray], *, epsilon: float, rounds: int
) -> np.ndarray:
    """Algorithm 3, section 7.2, as printed: log-probabilities of workloads.

    The score is the mean error less the number of cells, and its sensitivity is taken to be 1/4. It
    is 1 / |q|: 1/2 for a pair with one attribute of a single value, 1 for two. And the number of
    cells is subtracted from a mean: a 2 x 2 workload that fits perfectly (score -4) beats a 50 x 41
    one with an error of 100,000 (score -2,001).
    """
    scores = np.array(
        [np.abs(residual).sum() / residual.size - residual.size for residual in residuals]
    )
    return _normalised(epsilon / (2 * rounds) / (2 * 0.25) * scores)


def published_mwem_step(
    model: np.ndarray, cell: int, measured: float, batch: np.ndarray
) -> np.ndarray:
    """Algorithm 2, line 17, as printed: model after a measurement.

    It is scaled to the batch's true number of rows: the total is released exactly, and an empty
    batch divides by zero.
    """
    rows = batch.sum()
    weights = model.astype(float)
    weights[cell] *= np.exp((measured - weights[cell]) / (2 * rows))
    return rows * weights / weights.sum()


def _normalised(exponents: np.ndarray) -> np.ndarray:
    """Log-probabilities proportional to the exponents' exponentials."""
    top = exponents.max()
    return exponents - top - np.log(np.exp(exponents - top).sum())
