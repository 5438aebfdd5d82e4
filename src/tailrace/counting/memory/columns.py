"""The unit memory as earlier versions kept it: four columns.

It was written whole at each step. The first step of today reads all of it, and writes a segment.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from tailrace.counting.memory.segment import ROW, State, chosen, damaged, edges_of, failing

_BLOCK = 1 << 20


class Former:
    """Reads columns as a `Segment` reads blocks; both formats."""

    def __init__(self, folder: Path, header: dict[str, Any]) -> None:
        self._folder, self._digests = folder, header["columns"]
        self.name, self.rows = "", int(header["rows"])
        self.check()

    def check(self) -> None:
        """Refuse columns of another length or digest."""
        for name in ROW.names or ():
            with (self._folder / name).open("rb") as file:
                if os.fstat(file.fileno()).st_size != self.rows * ROW[name].itemsize:
                    raise damaged(self._folder)
                actual = hashlib.blake2b(digest_size=32)
                while block := file.read(_BLOCK):
                    actual.update(block)
            if actual.hexdigest() != self._digests[name]:
                raise damaged(self._folder)

    def slice(self, s: int, bits: int) -> State:
        """The rows of units whose hash begins with `bits` of `s`."""
        start, end = 0, self.rows
        if bits and self.rows:
            low, high = (np.uint64(edge) for edge in edges_of(s, bits))
            with failing(self._folder):
                hi = np.memmap(self._folder / "hi", ROW["hi"], "r")
                start = int(np.searchsorted(hi, low))
                end = int(np.searchsorted(hi, high, "right"))
        hi, lo, cell, count = (self._column(name, start, end) for name in ROW.names or ())
        return hi, lo, cell, count

    def find(self, hi: np.ndarray, lo: np.ndarray) -> tuple[State, np.ndarray]:
        """The rows of some units, sorted and each given once; and which are here."""
        from tailrace.counting.memory import levels_kernel as kernel

        rows = self.slice(0, 0)
        theirs, here = kernel.picked(rows[0], rows[1], hi, lo)
        return chosen(rows, theirs), here

    def close(self) -> None:
        pass

    def _column(self, name: str, start: int, end: int) -> np.ndarray:
        # Read and not mapped: mapped pages would stay in memory to the end.
        with failing(self._folder):
            return np.fromfile(
                self._folder / name, ROW[name], end - start, offset=start * ROW[name].itemsize
            )
