"""The protocols of fitting: noisy counts of some marginals in, a model of the whole table out. All of it is public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tailrace.calls import told
from tailrace.errors import ConfigError, DataError


@told
@dataclass(frozen=True)
class Measured:
    """Noisy counts of one marginal: an array of the clique's shape, which may be negative, and their variance."""

    clique: tuple[int, ...]
    counts: np.ndarray
    variance: float | np.ndarray


def checked(shape: tuple[int, ...], measured: Sequence[Measured], start: Model | None) -> None:
    """Refuses measurements that are not of this shape."""
    if start is not None and tuple(start.shape) != tuple(shape):
        raise ConfigError("The model to start from has attributes of other sizes: start from one of the same schema.")
    for one in measured:
        if len(set(one.clique)) != len(one.clique) or not all(0 <= attribute < len(shape) for attribute in one.clique):
            raise ConfigError(f"A clique names each of its attributes once, by numbers from 0 to {len(shape) - 1}.")
        if np.shape(one.counts) != tuple(shape[attribute] for attribute in one.clique):
            raise DataError("Measured counts are an array with an axis for each attribute of their clique.")
        if not np.all(np.asarray(one.variance) > 0) or not np.all(np.isfinite(one.variance)):
            raise ConfigError("The variance of measured counts is a positive number, or one for each cell.")


@told
@dataclass(frozen=True)
class Conditional:
    """How one column is drawn, given columns drawn before it: a row of probabilities for each cell of `given`."""

    attribute: int
    given: tuple[int, ...]
    table: np.ndarray


class Model(Protocol):
    """A distribution over the table's cells, scaled to a total."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def total(self) -> float: ...

    def marginals(self, cliques: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
        """The expected counts of each of these marginals: none negative, each sums to the total."""
        ...

    def conditionals(self) -> list[Conditional]:
        """Every attribute once, in an order in which rows can be drawn."""
        ...

    def pack(self) -> tuple[np.ndarray, np.ndarray]:
        """(structure, values): integers and floats, enough to build the model again."""
        ...


class Fit(Protocol):
    """A way to make a model of a table from measured marginals."""

    @property
    def limit(self) -> int:
        """The most cells a model may hold; more are refused."""
        ...

    def cells(self, shape: tuple[int, ...], cliques: Sequence[tuple[int, ...]]) -> int:
        """How many cells a model of these cliques has to hold."""
        ...

    def fit(
        self,
        shape: tuple[int, ...],
        measured: Sequence[Measured],
        *,
        total: float,
        start: Model | None = None,
        keep: bool = False,
    ) -> Model:
        """The model of this total nearest to what was measured; a good `start` saves time.

        With `keep` the model moves on from `start`: what is not measured now stays as far as it can.
        """
        ...

    def unpack(self, shape: tuple[int, ...], structure: np.ndarray, values: np.ndarray, total: float) -> Model:
        """The model that `pack` took apart."""
        ...
