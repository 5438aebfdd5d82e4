"""Arrow streams as frames: read once, a few batches at a time.

Whatever has `__arrow_c_stream__` is one: a RecordBatchReader, a result of ADBC, a nanoarrow stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import narwhals as nw

from tailrace.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

# Rows counted at a time, where batches are smaller.
_FEW = 1 << 17


def is_stream(frame: Any) -> bool:
    """Whether a frame is an Arrow stream, and of no engine."""
    if not hasattr(frame, "__arrow_c_stream__"):
        return False
    try:
        nw.from_native(frame)
    except TypeError:
        return True
    except Exception:
        return False
    return False


def readable(frame: Any) -> Any:
    """An Arrow stream as a RecordBatchReader, other frames as they are.

    Its columns can then be looked at before it is read. Without PyArrow it is read whole.
    """
    if not is_stream(frame):
        return frame
    try:
        try:
            import pyarrow as pa
        except ImportError:
            import polars as pl

            return pl.DataFrame(frame)
        return pa.RecordBatchReader.from_stream(frame)
    except Exception:
        raise DataError(
            "A batch must be a data frame, or an Arrow stream of record batches that was not read "
            "yet."
        ) from None


def tables(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """The rows of a stream in tables, the first without rows."""
    import pyarrow as pa

    yield reader.schema.empty_table()
    held: list[pa.RecordBatch] = []
    while (batch := _next(reader)) is not None:
        held.append(batch)
        if sum(map(len, held)) >= _FEW:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def whole(reader: pa.RecordBatchReader) -> pa.Table:
    """The rows of a stream in one table."""
    import pyarrow as pa

    return pa.concat_tables(tables(reader))


def _next(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None
    except Exception:
        raise DataError(
            "The Arrow stream broke off before its end; read it yourself to see why."
        ) from None
