"""Parts of cells, drawn in proportion to their sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Of a cell's area or side: a cell that holds less counts as empty. Chosen by reasoning: less is
# rounding.
LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of some cells, sorted by cell."""

    cells: np.ndarray  # (cells,) int64, increasing
    # (cells + 1,) the parts from offsets[i] to offsets[i + 1] lie in cells[i]
    offsets: np.ndarray
    cumulated: np.ndarray  # (parts,) sizes added up within each cell
    largest: np.ndarray  # (cells,) the largest part of each

    def draw(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a part of each cell; each must have one."""
        from tailrace.domain.geometry import kernel

        place = np.searchsorted(self.cells, cells)
        return kernel.choose(self.offsets, self.cumulated, place, rng.random(len(cells)))

    def largest_of(self, cells: np.ndarray) -> np.ndarray:
        """The largest part of each of these cells."""
        return self.largest[np.searchsorted(self.cells, cells)]


def gathered(cells: np.ndarray, sizes: np.ndarray) -> Parts:
    """Gather parts of positive sizes, sorted by their cells."""
    from tailrace.domain.geometry import kernel

    known, first = np.unique(cells, return_index=True)
    offsets = np.append(first, len(cells))
    by_size = np.lexsort((sizes, cells))
    return Parts(known, offsets, kernel.cumulate(offsets, sizes), by_size[offsets[1:] - 1])
