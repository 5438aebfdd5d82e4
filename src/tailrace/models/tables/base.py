"""The protocols of fitting marginals; all of it public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tailrace.calls import told
from tailrace.errors import ConfigError, DataError, Mismatch

Clique = tuple[int, ...]
Shape = tuple[int, ...]


@told
@dataclass(frozen=True)
class Measured:
    """Noisy counts of one marginal, and their variance.

    Parameters
    clique: the numbers of its attributes.
    counts: an array of the clique's shape, which may be negative.
    variance: of each count, or one number for all.
    """

    clique: Clique
    counts: np.ndarray
    variance: float | np.ndarray


def checked(shape: Shape, measured: Sequence[Measured], start: Model | None) -> None:
    """Refuse measurements that do not have this shape."""
    if start is not None and tuple(start.shape) != tuple(shape):
        raise ConfigError(
            "The model to start from has attributes of other sizes: start from one of the same "
            "schema."
        )
    for one in measured:
        if len(set(one.clique)) != len(one.clique) or not all(
            0 <= attribute < len(shape) for attribute in one.clique
        ):
            raise ConfigError(
                f"A clique names each of its attributes once, by numbers from 0 to "
                f"{len(shape) - 1}."
            )
        if np.shape(one.counts) != tuple(shape[attribute] for attribute in one.clique):
            raise DataError(
                "Measured counts are an array with an axis for each attribute of their clique."
            )
        if not np.all(np.asarray(one.variance) > 0) or not np.all(np.isfinite(one.variance)):
            raise ConfigError(
                "The variance of measured counts is a positive number, or one for each cell."
            )


def mismatch() -> Mismatch:
    """The error of unpacking a model of another schema."""
    return Mismatch(
        "The saved model does not fit the schema: open it with the one it was made with."
    )


@told
@dataclass(frozen=True)
class Conditional:
    """The distribution of one column given earlier columns.

    `table` has a row of probabilities for each cell of `given`.
    """

    attribute: int
    given: Clique
    table: np.ndarray


class HasMarginals(Protocol):
    """A table whose marginals can be asked for."""

    @property
    def shape(self) -> Shape: ...
    @property
    def total(self) -> float: ...

    def marginals(self, cliques: Sequence[Clique]) -> list[np.ndarray]:
        """Expected counts: nonnegative, each marginal sums to the total."""
        ...


class Model(HasMarginals, Protocol):
    """A distribution over the table's cells, scaled to a total."""

    @property
    def settled(self) -> bool:
        """Whether it is as near as its fit can make it."""
        ...

    def conditionals(self) -> list[Conditional]:
        """Every attribute once, in an order for drawing rows."""
        ...

    def pack(self) -> tuple[np.ndarray, np.ndarray]:
        """(structure, values): integers and floats that rebuild the model."""
        ...


class Fit(Protocol):
    """A way to fit a model to measured marginals."""

    @property
    def limit(self) -> int:
        """The most cells a model may hold; more are refused."""
        ...

    def cells(self, shape: Shape, cliques: Sequence[Clique]) -> int:
        """The number of cells in a model of these cliques."""
        ...

    def room(
        self,
        shape: Shape,
        held: Sequence[Clique],
        more: Sequence[Clique],
        *,
        together: bool = False,
    ) -> list[bool]:
        """Whether a model has room for each of `more` beside `held`.

        Each by itself, or with `together` beside those before it that have.
        """
        ...

    def fit(
        self,
        shape: Shape,
        measured: Sequence[Measured],
        *,
        total: float,
        start: Model | None = None,
        keep: bool = False,
        work: int | None = None,
    ) -> Model:
        """The nearest model of this total; `start` saves time.

        With `keep` the model moves on from `start`: unmeasured marginals stay as far as they can.
        `work` bounds the visits of cells; a model that is not `settled` then can be fitted further
        from itself.
        """
        ...

    def unpack(
        self, shape: Shape, structure: np.ndarray, values: np.ndarray, total: float
    ) -> Model:
        """The model that `pack` took apart."""
        ...
