"""One step's inserts or deletes, given back in sorted slices.

A batch may be as large as the memory itself. It is hashed in pieces, and each piece is laid out by
slice in a file without a name (in memory while it is small), so that a step holds a piece or a
slice of it and never the whole.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tailrace.counting.memory.hashing import UNITS, hash_units, recognised
from tailrace.errors import DataError

# Ids as `hash_units` takes them, and cells (-1: outside the domain), one per row.
Rows = tuple[Any, np.ndarray]
Known = Callable[[np.ndarray], np.ndarray]
# hi, lo, cell
Columns = tuple[np.ndarray, np.ndarray, np.ndarray]

_ROW = np.dtype([*((name, UNITS[name]) for name in UNITS.names or ()), ("cell", "<i8")])
# Rows hashed at a time: 12 MB of them.
_PIECE = 1 << 19
# Bytes kept in memory.
_SMALL = 1 << 25


class Batch:
    """Rows with an id and a cell; others are dropped."""

    def __init__(self, rows: Rows | None, *, folder: Path) -> None:
        self._ids, cells = (
            rows if rows is not None else (np.empty(0, np.int64), np.empty(0, np.int64))
        )
        self._cells = np.asarray(cells, np.int64)
        if self._cells.ndim != 1 or len(self._ids) != len(self._cells):
            raise DataError(
                "Each row has one id and one cell: the two columns must be of equal length."
            )
        self._file = tempfile.SpooledTemporaryFile(_SMALL, dir=str(folder))  # noqa: SIM115 (closed by `close`)
        self.given, self.kept = len(self._cells), 0

    def read(self, key: bytes, bits: int, *, known: Known | None = None) -> None:
        """Hash every id and lay the rows out in slices.

        There are 2^bits slices; `known` are the units of an earlier version's memory.
        """
        from tailrace.counting.memory import kernel

        self._bits, starts = bits, []
        # Also for no rows: a wrong type is refused whatever the content.
        for at in range(0, max(1, self.given), _PIECE):
            ids, cells = self._ids[at : at + _PIECE], self._cells[at : at + _PIECE]
            units = hash_units(ids, key) if known is None else recognised(ids, key, known)
            order = np.empty(len(cells), np.int64)
            ends = kernel.partition(units["hi"], units["lo"], cells, 0, bits, order)
            order = order[: ends[-1]]
            piece = np.empty(len(order), _ROW)
            piece["hi"], piece["lo"], piece["cell"] = (
                units["hi"][order],
                units["lo"][order],
                cells[order],
            )
            self._file.write(piece.tobytes())
            starts.append(self.kept + ends)
            self.kept += len(order)
        # Shape (pieces, slices + 1).
        self._starts = np.array(starts)

    def slice(self, s: int) -> Columns:
        """The rows of one slice, sorted by unit and cell."""
        from tailrace.counting.memory import kernel

        parts = []
        for start, end in self._starts[:, s : s + 2].tolist():
            self._file.seek(start * _ROW.itemsize)
            parts.append(self._file.read((end - start) * _ROW.itemsize))
        rows = np.frombuffer(b"".join(parts), _ROW)
        hi, lo, cells = rows["hi"], rows["lo"], rows["cell"]
        order = np.empty(len(rows), np.int64)
        kernel.partition(hi, lo, cells, self._bits, max(0, len(rows).bit_length() - 3), order)
        return in_order(hi[order], lo[order], cells[order])

    def close(self) -> None:
        self._file.close()


def in_order(hi: np.ndarray, lo: np.ndarray, cells: np.ndarray) -> Columns:
    """Sort rows that are nearly in order, in place."""
    from tailrace.counting.memory import kernel

    if kernel.settle(hi, lo, cells):
        return hi, lo, cells
    # Some unit has very many rows: slower, but never quadratic.
    order = np.lexsort((cells, lo, hi))
    return hi[order], lo[order], cells[order]
