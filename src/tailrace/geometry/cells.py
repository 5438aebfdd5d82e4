"""Which box a geometry is counted on, and in which of its cells a point of any cell is counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from tailrace.domain import Box
from tailrace.domain.attributes import reals
from tailrace.errors import ConfigError, DataError
from tailrace.geometry import shapes
from tailrace.geometry.areas import Areas
from tailrace.geometry.lengths import Lengths
from tailrace.loss import whole

Measured = TypeVar("Measured", Areas, Lengths)
_MOST = 4096  # cells per side: every cell has an entry in a table


def box_of(
    shape: Any,
    name: str,
    *,
    columns: Sequence[str],
    cells: int,
    beyond: Literal["drop", "clip"],
    box: Sequence[float] | None,
    margin: float = 0.0,
) -> Box:
    """The declared box, or the bounding box with a margin; `beyond` says what happens to a point outside it."""
    if isinstance(columns, str) or not isinstance(columns, Sequence) or len(columns) != 2:
        raise ConfigError(f"columns of {name} must be two names, of x and of y, for example columns=('lon', 'lat').")
    if whole("cells", cells) > _MOST:
        raise ConfigError(f"cells of {name} must be at most {_MOST:,} per side.")
    if box is None:
        west, south, east, north = shape.bounds
        bounds = (west - margin, south - margin, east + margin, north + margin)
        if not (bounds[0] < bounds[2] and bounds[1] < bounds[3]):
            raise ConfigError(f"The bounding box of {name} has no width or no height; declare a wider one with box=.")
    else:
        bounds = reals(box, f"box of {name}")
        if len(bounds) != 4 or not (bounds[0] < bounds[2] and bounds[1] < bounds[3]):
            raise ConfigError(f"box of {name} must be four numbers: lowest x, lowest y, highest x, highest y.")
        if shapes.within(shape, bounds).is_empty:
            raise ConfigError(f"box of {name} must hold a part of the geometry.")
    place = Box(low=bounds[:2], high=bounds[2:], columns=columns, cells=cells, outside=beyond)
    if not np.isfinite(place.side / np.subtract(place.high, place.low)).all():
        raise ConfigError(f"The cells of {name} are too narrow for floating-point numbers; declare a wider box=.")
    return place


def held(found: Measured, name: str) -> Measured:
    """What a grid holds of a geometry, if it is anything at all."""
    if not found.measure.any():
        raise ConfigError(f"The geometry of {name} is too small or too thin for its grid; declare a smaller box=.")
    return found


def homes(found: Measured, *, reach: float) -> np.ndarray:
    """For every cell the one that its points count in: itself if it holds something, else the nearest in reach; or -1."""
    from tailrace.geometry import kernel

    width, height = found.grid.width.tolist()
    return kernel.nearest(found.measure > 0, width, height, reach)


def drawable(cells: np.ndarray, measure: np.ndarray) -> np.ndarray:
    """The cells as numbers, if each of them holds something."""
    numbers = np.asarray(cells, np.int64)
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= measure.size or not measure.reshape(-1)[numbers].all()):
        raise DataError("Only a cell that holds a part of the geometry has points; see measure_of_cells().")
    return numbers
