"""One step's inserts or deletes, given back in sorted slices.

A batch may be larger than the memory of the machine. Its rows come in pieces. Each is hashed and
laid out by the first bits of the hash in a file without a name (in memory while it is small), so
that a step holds a piece or a slice of it and never the whole.

    batch = Batch(folder)
    batch.read(rows, key)       # rows: (ids, cells), or any number of such pieces; any often
    batch.append(units, cells)  # rows hashed before (`hash_units`)
    bits = slice_bits(batch.kept)
    for s in range(1 << bits):
        hi, lo, cell = batch.slice(s, bits)
    batch.close()
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tailrace.counting.memory.hashing import UNITS, hash_units, recognised
from tailrace.errors import DataError

# Ids as `hash_units` takes them, and cells (-1: outside the domain), one per row.
Piece = tuple[Any, np.ndarray]
Rows = Piece | Iterable[Piece]
Known = Callable[[np.ndarray], np.ndarray]
# hi, lo, cell
Columns = tuple[np.ndarray, np.ndarray, np.ndarray]

_ROW = np.dtype([*((name, UNITS[name]) for name in UNITS.names or ()), ("cell", "<i8")])
# Rows hashed at a time: 12 MB of them.
_PIECE = 1 << 19
# Bytes kept in memory.
SMALL = 1 << 25
# A slice holds some 2^19 rows.
_SLICE_BITS = 19
# The first bits of a hash by which rows are laid out; slices are no finer.
FINEST = 12


def slice_bits(rows: int) -> int:
    """How many bits of the hash tell slices of so many rows apart."""
    return min(max(0, rows.bit_length() - _SLICE_BITS), FINEST)


class Batch:
    """Rows with an id and a cell; others are dropped."""

    def __init__(self, folder: Path) -> None:
        # Closed by `close`.
        self._file = tempfile.SpooledTemporaryFile(SMALL, dir=str(folder))  # noqa: SIM115
        # Of each piece, where its buckets begin and end.
        self._starts: list[np.ndarray] = []
        self.kept = 0

    def read(
        self, rows: Rows | None, key: bytes, *, known: Known | None = None, second: bool = False
    ) -> None:
        """Hash the ids of rows, and take them in.

        `known` are the units of an earlier version's memory. `second`: as rows of a second unit of
        the same person.
        """
        pieces = () if rows is None else [rows] if isinstance(rows, tuple) else rows
        for ids, cells in pieces:
            codes = np.asarray(cells, np.int64)
            if codes.ndim != 1 or len(ids) != len(codes):
                raise DataError(
                    "Each row has one id and one cell: the two columns must be of equal length."
                )
            # Also for no rows: a wrong type is refused whatever the content.
            for at in range(0, max(1, len(codes)), _PIECE):
                some = ids[at : at + _PIECE]
                units = hash_units(some, key) if known is None else recognised(some, key, known)
                self.append(_second(units) if second else units, codes[at : at + _PIECE])

    def append(self, units: np.ndarray, cells: np.ndarray) -> None:
        """Take in rows that are hashed."""
        from tailrace.counting.memory import kernel

        # Copies of one kind: for another kind of array the loop is compiled again.
        hi, lo, cells = (np.array(one) for one in (units["hi"], units["lo"], cells))
        order = np.empty(len(cells), np.int64)
        ends = kernel.partition(hi, lo, cells, 0, FINEST, order)
        if not ends[-1]:
            return
        order = order[: ends[-1]]
        piece = np.empty(len(order), _ROW)
        piece["hi"], piece["lo"], piece["cell"] = hi[order], lo[order], cells[order]
        self._file.seek(self.kept * _ROW.itemsize)
        self._file.write(piece.tobytes())
        self._starts.append(self.kept + ends)
        self.kept += len(order)

    def slice(self, s: int, bits: int) -> Columns:
        """The rows of one of 2^bits slices, sorted by unit and cell."""
        from tailrace.counting.memory import kernel

        parts, buckets = [], 1 << (FINEST - bits)
        for starts in self._starts:
            start, end = int(starts[s * buckets]), int(starts[(s + 1) * buckets])
            self._file.seek(start * _ROW.itemsize)
            parts.append(self._file.read((end - start) * _ROW.itemsize))
        rows = np.frombuffer(b"".join(parts), _ROW)
        hi, lo, cells = (np.array(rows[name]) for name in ("hi", "lo", "cell"))
        order = np.empty(len(rows), np.int64)
        kernel.partition(hi, lo, cells, bits, max(0, len(rows).bit_length() - 3), order)
        return in_order(hi[order], lo[order], cells[order])

    def close(self) -> None:
        self._file.close()


def _second(units: np.ndarray) -> np.ndarray:
    """Other hashes for the same people; nobody stays nobody.

    As with any two hashes of 128 bits, one is another person's with no probability worth naming.
    """
    someone = (units["hi"] != 0) | (units["lo"] != 0)
    others = units.copy()
    others["lo"][someone] ^= np.uint64(1)
    return others


def in_order(hi: np.ndarray, lo: np.ndarray, cells: np.ndarray) -> Columns:
    """Sort rows that are nearly in order, in place."""
    from tailrace.counting.memory import kernel

    if kernel.settle(hi, lo, cells):
        return hi, lo, cells
    # Some unit has very many rows: slower, but never quadratic.
    order = np.lexsort((cells, lo, hi))
    return hi[order], lo[order], cells[order]
