"""Drawing among the parts of cells: each cell holds some parts of public sizes, and a part is drawn in proportion to its size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LEAST = 1e-9  # of a cell's area or side: what a cell holds less of is rounding, and counts as nothing


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of some cells, sorted by cell."""

    cells: np.ndarray  # (cells,) int64, increasing
    offsets: np.ndarray  # (cells + 1,) the parts from offsets[i] to offsets[i + 1] lie in cells[i]
    cumulated: np.ndarray  # (parts,) sizes added up within each cell
    largest: np.ndarray  # (cells,) the largest part of each

    def draw(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A part of each of these cells, which must all have some."""
        from tailrace.geometry import kernel

        place = np.searchsorted(self.cells, cells)
        return kernel.choose(self.offsets, self.cumulated, place, rng.random(len(cells)))

    def largest_of(self, cells: np.ndarray) -> np.ndarray:
        """The largest part of each of these cells."""
        return self.largest[np.searchsorted(self.cells, cells)]


def gathered(cells: np.ndarray, sizes: np.ndarray) -> Parts:
    """Parts of positive sizes with the cell of each, sorted by cell."""
    from tailrace.geometry import kernel

    known, first = np.unique(cells, return_index=True)
    offsets = np.append(first, len(cells))
    by_size = np.lexsort((sizes, cells))
    return Parts(known, offsets, kernel.cumulate(offsets, sizes), by_size[offsets[1:] - 1])
