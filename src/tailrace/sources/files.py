"""Read CSV and Parquet files.

A CSV cell is text; what it says is for the reader to find out.

A row of a CSV file is one line, whatever the lines around it hold: a quote that is not closed
spoils its own line and no other, so that no row's treatment depends on another row. (A quoted cell
cannot hold a line break.) A file without anything in it is a file without rows. The first line is
shape, and is refused where it cannot be read; the others are content.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from tailrace.errors import DataError

if TYPE_CHECKING:
    import polars as pl

KNOWN = (".csv", ".parquet")
_FIRST = 1 << 20  # bytes in which the first line must end
WRITTEN = 'must be utf-8, or have one byte a letter, for example "windows-1252" or "latin-1".'
_SEPARATORS = (",", ";", "\t")
# Which bytes are blanks, or the first ones of blanks beyond ASCII.
_BLANK = np.isin(np.arange(256), [*range(9, 14), *range(28, 33), 0xC2, 0xE1, 0xE2, 0xE3])
_CELL = {one: re.compile(rf'(?:"([^"]*(?:""[^"]*)*)"?)?([^{one}]*)({one}?)') for one in _SEPARATORS}


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A plain file to read from: a pipe might never answer, a device never end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise DataError(
                    f"{path.name} is no plain file: only files are read, not pipes, devices or "
                    f"folders."
                )
            if found.st_size > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
                raise _too_large(path)
            yield file
    except OSError:
        raise closed(path) from None
    except MemoryError:
        raise _too_large(path) from None


def is_encoding(name: str) -> bool:
    """Whether each byte is a letter by itself, of ASCII the same; or UTF-8.

    Then no row changes how another is read: a broken letter never swallows the end of its line.
    """
    # Every byte, and two beginnings of several that some codecs read as one letter.
    probe = bytes(range(256)) + rb"\u000a" + b"\x1b$B00"
    try:
        letters = probe.decode(name, errors="replace")
    except (LookupError, ValueError):
        return False
    return len(letters) == len(probe) and letters[:128] == probe[:128].decode("ascii")


def read(
    path: Path, data: bytes, columns: Sequence[str], *, encoding: str = "utf-8"
) -> pl.DataFrame:
    """The wanted columns of a file's content: of CSV as text, of Parquet as they are."""
    try:
        if form(path) == ".parquet":
            return _parquet(path, data, columns)
        return _csv(path, _in_utf8(data, encoding), columns)
    except MemoryError:
        raise _too_large(path) from None


def names_in(path: Path, *, encoding: str = "utf-8") -> list[str]:
    """The names of a file's columns; its rows are not looked at."""
    import polars as pl

    kind = form(path)
    with opened(path) as file:
        if kind == ".parquet":
            try:
                return list(pl.read_parquet_schema(file))
            except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
                raise DataError(
                    f"The columns of {path.name} cannot be read: see whether the file is whole."
                ) from None
        header = _header(path, _in_utf8(file.readline(_FIRST), encoding))
    return [
        name
        for name in max((_names(header, separator) for separator in _SEPARATORS), key=len)
        if name
    ]


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """Say of which file it is that its columns cannot be read."""
    import polars as pl

    try:
        yield
    except DataError as error:
        raise DataError(f"{path.name}: {error}") from None
    except MemoryError:
        raise _too_large(path) from None
    except pl.exceptions.PanicException:
        raise DataError(
            f"{path.name} cannot be read: Polars breaks down on it. Write it anew and run again."
        ) from None


def is_csv(path: Path) -> bool:
    """Whether a file is read line by line."""
    return form(path) == ".csv"


def line_starts(data: bytes, since: int) -> np.ndarray:
    """Where the lines of a CSV file begin, from the first row or from `since`.

    The last one is where a line may still go on: after the last line end.
    """
    ends = np.flatnonzero(np.frombuffer(data, np.uint8, offset=since) == ord("\n")) + since + 1
    # The first line names the columns.
    return ends if not since and len(ends) else np.concatenate([[since], ends])


def from_line(data: bytes, start: int) -> bytes:
    """The first line of a CSV file, and the lines from `start` on."""
    return data[: data.index(b"\n") + 1] + data[start:]


def form(path: Path) -> str:
    """The kind of a file, by its name."""
    found = path.suffix.lower()
    if found not in KNOWN:
        raise DataError(
            f"{path.name} is neither .csv nor .parquet: only files of these two kinds are read; "
            "save or unpack it as one."
        )
    return found


def _parquet(path: Path, data: bytes, columns: Sequence[str]) -> pl.DataFrame:
    import polars as pl

    try:
        names = list(pl.read_parquet_schema(io.BytesIO(data)))
        _all_there(path, columns, names)
        places = [names.index(column) for column in columns]
        return pl.read_parquet(io.BytesIO(data), columns=places)[list(columns)]
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise DataError(
            f"{path.name} cannot be read as Parquet: it is damaged, or still being written. Mend "
            f"it and run again."
        ) from None


def _csv(path: Path, data: bytes, columns: Sequence[str]) -> pl.DataFrame:
    """The wanted columns, each cell as text."""
    import polars as pl

    # Most have something in their first bytes.
    if not data[:4096].decode(errors="ignore").strip() and not _decoded(data).strip():
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    header = _header(path, data.partition(b"\n")[0])
    headers = {separator: _names(header, separator) for separator in _SEPARATORS}
    separator = max(_SEPARATORS, key=lambda one: sum(column in headers[one] for column in columns))
    names = headers[separator]
    _all_there(path, columns, names)
    cells = _at_once if _is_plain(data) else _by_line
    return cells(data, separator, names, columns)


def _is_plain(data: bytes) -> bool:
    """Whether Polars splits lines and cells as `_by_line` does: no quotes, no blank lines."""
    return (
        b'"' not in data
        and data.count(b"\r") == data.count(b"\r\n")
        and not _BLANK[_after_line_ends(data)].any()
    )


def _after_line_ends(data: bytes) -> np.ndarray:
    """The bytes with which lines begin."""
    letters = np.frombuffer(data, np.uint8)
    return letters[1:][letters[:-1] == ord("\n")]


def _at_once(
    data: bytes, separator: str, names: Sequence[str], columns: Sequence[str]
) -> pl.DataFrame:
    """The cells of lines without quotes."""
    import polars as pl

    body = data.partition(b"\n")[2].replace(b"\r\n", b"\n")
    body = body if body.isascii() else body.decode(errors="replace").encode()
    # Names of our own: others may be empty, or there twice.
    first = separator.join(map(str, range(len(names)))).encode()
    places = {str(names.index(column)): column for column in columns}
    found = pl.read_csv(
        first + b"\n" + body,
        columns=list(places),
        infer_schema=False,
        separator=separator,
        quote_char=None,
        truncate_ragged_lines=True,
    )
    return found.select(*places).rename(places)


def _by_line(
    data: bytes, separator: str, names: Sequence[str], columns: Sequence[str]
) -> pl.DataFrame:
    """The cells of any lines.

    They are split all at once; but one by one where a quoted cell holds a separator or a quote, or
    is not closed.
    """
    import polars as pl

    body = _decoded(data).partition("\n")[2]
    lines = pl.Series("line", body.split("\n"), pl.String).str.strip_chars_end("\r")
    lines = lines.filter(
        (lines.str.strip_chars() != "") | lines.str.contains(separator, literal=True)
    )
    cell = f'(?:[^"{separator}]*|"[^"{separator}]*")'
    rows = (~lines.str.contains(f"^{cell}(?:{separator}{cell})*$")).arg_true()
    bare = lines.str.replace_all('"', "", literal=True)
    plain = bare.str.split_exact(separator, len(names) - 1).struct.unnest()
    spelt = [_cells(line, separator) for line in lines.gather(rows)]
    found = {}
    for column in columns:
        place = names.index(column)
        cells = plain.to_series(place).scatter(
            rows, [row[place] if place < len(row) else None for row in spelt]
        )
        found[column] = cells.set(cells == "", None)
    return pl.DataFrame(found)


def _in_utf8(data: bytes, encoding: str) -> bytes:
    if codecs.lookup(encoding).name == "utf-8":
        return data
    return data.decode(encoding, errors="replace").encode()


def _decoded(data: bytes) -> str:
    return data.decode("utf-8-sig", errors="replace")


def _header(path: Path, line: bytes) -> str:
    """The first line, if it can name columns."""
    if line.startswith((b"PK\x03\x04", b"\x1f\x8b")):
        raise DataError(f"{path.name} is packed, or a workbook: unpack it, or save it as CSV.")
    try:
        header = line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise DataError(
            f"{path.name} is not UTF-8, by its first line: save it as UTF-8 (Excel calls it CSV "
            "UTF-8), or say how it is written: --encoding windows-1252 with init, encoding = "
            '"windows-1252" below [source].'
        ) from None
    if not header.strip():
        raise DataError(f"The first line of {path.name} is empty: it must name the columns.")
    if (
        len(header.replace("\0", "\n").splitlines()) > 1 or len(line) >= _FIRST
    ):  # ends of other systems: rows follow
        raise DataError(
            f"The first line of {path.name} does not end: save it with the line ends of Unix or "
            f"Windows."
        )
    return header


def closed(path: Path) -> DataError:
    """What is said of a file that cannot be opened."""
    return DataError(f"{path.name} cannot be opened: see whether it is there and may be read.")


def _too_large(path: Path) -> DataError:
    return DataError(
        f"{path.name} is too large for the memory of this machine: split it into smaller files."
    )


def _names(header: str, separator: str) -> list[str]:
    return [name.strip() for name in _cells(header, separator)]


def _cells(line: str, separator: str) -> list[str]:
    """The cells of one line; a quote that is not closed reaches to its end."""
    cells = []
    for quoted, rest, end in _CELL[separator].findall(line):
        cells.append(quoted.replace('""', '"') + rest)
        if not end:
            break
    return cells


def _all_there(path: Path, columns: Sequence[str], names: Sequence[str]) -> None:
    for column in columns:
        if column not in names:
            raise DataError(f"{path.name} has no column '{column}', which the configuration names.")
        if list(names).count(column) > 1:
            raise DataError(f"{path.name} has two columns '{column}': give each its own name.")
