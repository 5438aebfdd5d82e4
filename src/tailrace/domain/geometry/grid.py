"""The grid of a box, and lines cut along it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrace.domain import Box


@dataclass(frozen=True, eq=False)
class Grid:
    """A box of two dimensions in units of its cells.

    A point (x, y) lies at (x - low) * scale, exactly as a box counts it: cutting here and counting
    there put it on the same side of every edge.
    """

    low: np.ndarray  # (2,)
    scale: np.ndarray  # (2,) cells per unit of the coordinates
    # (2, side) doubles at the lower and the upper edge of each cell that are counted in it
    first: np.ndarray
    last: np.ndarray

    @property
    def side(self) -> int:
        return self.first.shape[1]

    @property
    def width(self) -> np.ndarray:
        """The sides of a cell, in units of the coordinates."""
        return 1 / self.scale

    @property
    def outline(self) -> tuple[float, float, float, float]:
        """Lowest x and y, highest x and y."""
        return (*self.first[:, 0].tolist(), *self.last[:, -1].tolist())

    def scaled(self, points: np.ndarray) -> np.ndarray:
        """Points (n, 2) of the coordinates in units of cells."""
        from tailrace.domain.geometry import kernel

        return kernel.scaled(points, self.low, self.scale, self.last[:, -1], self.side)

    def points(self, cells: np.ndarray, inside: np.ndarray) -> np.ndarray:
        """The points at given places of their cells.

        `inside` (n, 2) are places from 0 to 1; each point (n, 2) is counted in its cell.
        """
        from tailrace.domain.geometry import kernel

        return kernel.points(cells, inside, self.low, self.scale, self.first, self.last)


def of_box(box: Box) -> Grid:
    """The grid that a box counts on."""
    from tailrace.domain import kernel

    low, scale = np.array(box.low), box.side / np.subtract(box.high, box.low)
    first, last = np.empty((2, box.side)), np.empty((2, box.side))
    numbers = np.arange(box.side)
    for axis in range(2):
        limits = (box.low[axis], box.high[axis], float(scale[axis]), box.side, True)
        step = np.spacing(max(abs(box.low[axis]), abs(box.high[axis])))
        edges = low[axis] + numbers / scale[axis]
        first[axis], last[axis] = edges, np.append(edges[1:], box.high[axis])
        while (early := kernel.grid(first[axis], *limits) < numbers).any():
            first[axis, early] += step
        while (late := kernel.grid(last[axis], *limits) > numbers).any():
            last[axis, late] -= step
    return Grid(low, scale, first, last)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Parts of segments within one cell each, sorted by cell."""

    cells: np.ndarray  # (pieces,) int64
    start: np.ndarray  # (pieces, 2) inside the cell, from 0 to 1
    end: np.ndarray  # (pieces, 2)
    length: np.ndarray  # (pieces,) in units of the coordinates


def cut(segments: np.ndarray, grid: Grid) -> Pieces:
    """Cut segments (n, 4) at the lines of the grid."""
    owner, share, at = crossings(segments, grid)
    kept = (owner[:-1] == owner[1:]) & (share[:-1] < share[1:])
    length = np.diff(share)[kept] * lengths_of(segments)[owner[:-1][kept]]
    return _placed(at[:-1][kept], at[1:][kept], length, grid)


def crossings(segments: np.ndarray, grid: Grid) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ends of segments, and where lines of the grid cross them.

    They are in the order of their segments: the segment's number, the part of it that lies before
    (0 and 1 at its ends), and the place in units of cells.
    """
    start, end = grid.scaled(segments[:, :2]), grid.scaled(segments[:, 2:])
    many = len(segments)
    owners, shares = [np.arange(many)] * 2, [np.zeros(many), np.ones(many)]
    for axis in range(2):
        a, b = start[:, axis], end[:, axis]
        lines = [np.floor(np.minimum(a, b)) + 1, np.ceil(np.maximum(a, b))]
        lines = np.clip(lines, 0, grid.side + 1).astype(np.int64)
        crossed = np.maximum(lines[1] - lines[0], 0)
        owner = np.repeat(np.arange(many), crossed)
        before = np.repeat(np.cumsum(crossed) - crossed, crossed)
        line = np.arange(len(owner)) - before + lines[0][owner]
        owners.append(owner)
        shares.append(np.clip((line - a[owner]) / (b[owner] - a[owner]), 0, 1))
    owner, share = np.concatenate(owners), np.concatenate(shares)
    order = np.lexsort((share, owner))
    owner, share = owner[order], share[order]
    return owner, share, start[owner] + share[:, None] * (end - start)[owner]


def _placed(start: np.ndarray, end: np.ndarray, length: np.ndarray, grid: Grid) -> Pieces:
    middle = (start + end) / 2
    on = ((middle >= 0) & (middle <= grid.side)).all(axis=1)
    codes = np.minimum(np.floor(middle[on]), grid.side - 1)
    cells = (codes[:, 0] * grid.side + codes[:, 1]).astype(np.int64)
    order = np.argsort(cells, kind="stable")
    start, end = (np.clip(ends[on] - codes, 0, 1)[order] for ends in (start, end))
    return Pieces(cells[order], start, end, length[on][order])


def lengths_of(segments: np.ndarray) -> np.ndarray:
    """(n,) in units of the coordinates."""
    return np.hypot(segments[:, 2] - segments[:, 0], segments[:, 3] - segments[:, 1])
