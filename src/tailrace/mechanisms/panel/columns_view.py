"""The view of a panel of several columns."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.panel.coupling import coupled
from tailrace.mechanisms.panel.view import OpenView, PanelView

if TYPE_CHECKING:
    import polars as pl

# Further columns draw as if at later steps, which no panel reaches.
_LATER = 1 << 40


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ColumnsView(PanelView):
    """Answers about each column's windows, and combinations at a step.

    `view["poor"]` is the panel of one column and answers its questions.
    """

    columns: tuple[Any, ...]  # the views of single columns
    together: np.ndarray  # (releases, combinations) noisy counts, unbiased
    variance: float  # of each

    def __getitem__(self, column: str) -> OpenView:
        if column not in self.domain.columns:
            names = ", ".join(map(repr, self.domain.columns))
            raise ConfigError(f"The panel has no such column: ask for one of {names}.")
        return self.columns[self.domain.columns.index(column)]

    def combinations(self, *, step: int | None = None) -> pl.DataFrame:
        """How many people have each combination of values at a step.

        A row each: the values, the count and its standard error.
        """
        import polars as pl

        window = self.columns[0].window
        counts = self.together[self._at(step, window) - window]
        codes = np.unravel_index(np.arange(self.domain.size), self.domain.shape)
        values = {
            name: pl.Series(view.values).gather(code)
            for name, view, code in zip(self.domain.columns, self.columns, codes, strict=True)
        }
        errors = np.full(len(counts), self.variance**0.5)
        return pl.DataFrame({**values, "people": counts, "error": errors})

    def count(self, *, step: int | None = None, **values: Any) -> Estimate:
        """Count the people who have all these values at a step."""
        import polars as pl

        table = self.combinations(step=step)
        for name, value in values.items():
            self[name]
            table = table.filter(pl.col(name).eq_missing(pl.lit(value)))
        error = float((table["error"] ** 2).sum()) ** 0.5
        return Estimate(float(table["people"].sum()), error)

    @property
    def alive(self) -> np.ndarray:
        return self.columns[0].alive

    @property
    def panel(self) -> pl.DataFrame:
        """The people, a row each, with a column per attribute and step.

        The columns are the id, poor_t1, ill_t1, poor_t2, ...; null where a person is absent.
        """
        import polars as pl

        parts, found = self._parts, {}
        for step in range(self.step):
            for name, view, codes in zip(self.domain.columns, self.columns, parts, strict=True):
                found[f"{name}_t{step + 1}"] = pl.Series(view.values).gather(codes[step])
        people = parts[0].shape[1]
        return pl.DataFrame({self.id: np.arange(1, people + 1), **found})

    @functools.cached_property
    def codes(self) -> np.ndarray:
        """(steps, people): the combinations of the people's values so far."""
        shape, absent = self.domain.shape, self._parts[0] == self.domain.shape[0]
        inside = [np.where(absent, 0, part).astype(np.int64) for part in self._parts]
        return np.where(absent, self.domain.size, np.ravel_multi_index(inside, shape))

    @functools.cached_property
    def _parts(self) -> list[np.ndarray]:
        """(steps, people) the codes of each column; the first says who is there."""
        found = [self.columns[0].codes]
        for number in range(1, len(self.columns)):
            found.append(self._beside(found, number))
        return found

    def _beside(self, before: list[np.ndarray], number: int) -> np.ndarray:
        """The next column's codes, beside those before."""
        view, shape = self.columns[number], self.domain.shape
        size, window, absent = shape[number] + 1, view.window, before[0] == shape[0]
        codes = np.full(before[0].shape, size - 1, np.uint8)
        mates = np.ravel_multi_index(
            [np.where(absent, 0, part).astype(np.int64) for part in before], shape[:number]
        )
        pairs = self.together.reshape(len(self.together), -1, *shape[number:])
        beside = pairs.sum(axis=tuple(range(3, pairs.ndim)))
        # The first release: whole windows by pattern of presence.
        patterns, last = view.presence.patterns, np.arange(size**window) % size
        some = np.where(patterns == np.arange(2**window)[:, None], view.estimates[0], -np.inf)
        some[-1] = np.where(np.arange(size**window) == size**window - 1, 1.0, -np.inf)
        pattern = functools.reduce(lambda bits, row: 2 * bits + row, absent[:window].astype(int))
        chosen = coupled(
            pattern,
            mates[window - 1],
            some,
            beside[0],
            np.where(last < size - 1, last, -1),
            seed=self.seed,
            step=_LATER * number + window,
        )
        for place in range(window):
            codes[place] = chosen // size ** (window - 1 - place) % size
        for step in range(window, self.step):
            here, release = np.flatnonzero(~absent[step]), step - window + 1
            prefix = np.zeros(len(here), np.int64)
            for row in codes[step - window + 1 : step]:
                prefix = prefix * size + row[here]
            codes[step, here] = coupled(
                prefix,
                mates[step][here],
                view.estimates[release].reshape(-1, size)[:, :-1],
                beside[release],
                np.arange(size - 1),
                seed=self.seed,
                step=_LATER * number + step + 1,
            )
        return codes
