"""One way to SQL databases, for sources and sinks.

SQLite is built in; PostgreSQL is reached through psycopg.

A url is "sqlite:///beside.db", "sqlite:////in/full.db" or "postgresql://user@host/name". A password
is better kept out of it: PostgreSQL finds one in PGPASSWORD or ~/.pgpass. What a driver says may
quote data, so every error becomes a sentence of ours.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Protocol

import narwhals as nw

from tailrace.errors import ConfigError, StateError

Span = tuple[str, datetime, datetime]  # a column of times, from an instant up to another
Rows = list[tuple[Any, ...]]
Holds = Literal["times", "numbers", "anything"]

_CHUNK = 20_000  # rows fetched at once
_DAY = "-".join(("[0-9]" * 4, "[0-9]" * 2, "[0-9]" * 2))
# seconds to wait for another program that holds a lock, or for a server to take the call
_LOCKED = 30.0
_ANSWER = 600.0  # seconds to wait for the next rows, or for a statement to be done
_PAUSE = 0.05  # seconds between two tries to get a lock
_TICK = 100_000  # instructions of SQLite between two looks at the clock
_LIMITS = """
SELECT set_config(name, value, true)
FROM (VALUES ('lock_timeout', %s), ('statement_timeout', %s)) AS limits (name, value)
WHERE current_setting(name) = '0'
"""  # what a user or database has set stays
_WHOLE = "run again: a step is read whole, and written whole and once."
_LOST = f"The connection to the database was lost; {_WHOLE}"
_BUSY = f"The database was busy with another program, or out of time; {_WHOLE}"
_FULL = f"The database has no room left, or its disk refuses; mend it and {_WHOLE}"
_FORBIDDEN = (
    "The database does not allow it: the user must be able to read the table of a source, and to "
    "create and write those of a sink."
)
_REFUSED = (
    "The database refused a statement: a name, type or value does not fit the table, or one of its "
    "views or triggers fails."
)
_UNREACHABLE = (
    "The database cannot be reached, or refuses the user: check the url, the password (PGPASSWORD "
    "or ~/.pgpass) and that "
    "the server runs."
)
_NO_FILE = (
    "The SQLite file of the url cannot be opened: check that it, or for a sink its folder, is "
    "there and allowed."
)
_NO_DATABASE = "The SQLite file of the url is damaged, or is not a SQLite database."


class Database(Protocol):
    """An open database, inside one transaction that ends with `commit` or leaves no trace."""

    def columns(self, table: str) -> dict[str, Holds]:
        """The columns of a table, with what their types say that they hold; none where there is no
        such table.
        """
        ...

    def create(self, table: str, columns: Mapping[str, Any], key: str | None = None) -> None:
        """A new table with columns of the types that domains have; `key` tells its rows apart."""
        ...

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Add rows to a table."""
        ...

    def read(
        self, table: str, columns: Sequence[str], spans: Sequence[Span] = ()
    ) -> Iterator[Rows]:
        """The rows of a table, chunk by chunk, in values that no content is too odd for
        (PostgreSQL's are texts).

        Rows that lie two days or more outside all of the spans may be left out, where the database
        can tell.
        """
        ...

    def find(self, table: str, column: str, key: str, value: int) -> Any:
        """The cell in `column` of the row whose `key` is the value; None where there is no such
        row.
        """
        ...

    def commit(self) -> None:
        """Make all of it durable."""
        ...


@contextlib.contextmanager
def connect(url: str, *, write: bool) -> Iterator[Database]:
    """The database at `url` for one transaction; its errors are StateErrors."""
    check(url)
    opened: Callable[..., Any] = _sqlite if url.startswith("sqlite:") else _postgres
    with opened(url, write) as database:
        yield database


def check(url: str, table: str = "any") -> None:
    """Refuse what cannot be a url or the name of a table.

    >>> check("mysql://somewhere")
    Traceback (most recent call last):
    tailrace.errors.ConfigError: url must begin with "sqlite:///" or "postgresql://", for example "sqlite:///releases.db".
    """
    if not isinstance(url, str) or not url.startswith(
        ("sqlite:///", "postgresql://", "postgres://")
    ):
        raise ConfigError(
            'url must begin with "sqlite:///" or "postgresql://", for example '
            '"sqlite:///releases.db".'
        )
    if url == "sqlite:///":
        raise ConfigError('url must name a file, for example "sqlite:///releases.db".')
    if not isinstance(table, str):
        raise ConfigError("table must be the name of a table, as a text.")
    _quoted(table)


def _quoted(name: str) -> str:
    """A name as it stands in a statement."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ConfigError("The name of a table or column must be valid Unicode text.") from None
    if not name or "\0" in name:
        raise ConfigError(
            "The name of a table or column must be a text of at least one letter, without zero "
            "letters."
        )
    return '"' + name.replace('"', '""') + '"'


@contextlib.contextmanager
def _sqlite(url: str, write: bool) -> Iterator[Database]:
    sentences = {
        **dict.fromkeys(
            (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT), _BUSY
        ),
        **dict.fromkeys((sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR), _FULL),
        **dict.fromkeys(
            (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH), _FORBIDDEN
        ),
        **dict.fromkeys((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB), _NO_DATABASE),
        sqlite3.SQLITE_CANTOPEN: _NO_FILE,
    }
    try:
        place = Path(url.removeprefix("sqlite:///")).resolve().as_uri() + (
            "?mode=rwc" if write else "?mode=ro"
        )
    except (ValueError, OSError):
        raise StateError(_NO_FILE) from None
    try:
        with contextlib.closing(
            sqlite3.connect(place, uri=True, isolation_level=None, timeout=0)
        ) as connection:
            connection.text_factory = _decoded
            connection.execute(
                "PRAGMA cache_spill = OFF"
            )  # so that a lock is waited for at the ends only
            database = _Sqlite(connection)
            database.run("BEGIN IMMEDIATE" if write else "BEGIN")
            yield database
    except sqlite3.Error as error:
        raise StateError(sentences.get(_code(error), _REFUSED)) from None


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


class _Sqlite:
    """SQLite; names of tables and columns in upper and lower case are the same to it.

    SQLite's own waits do not hear Ctrl-C. So locks are waited for here, and a statement that takes
    its time is asked by the clock whether to go on; Python's signals are heard there.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection, self._end = connection, 0.0
        connection.set_progress_handler(lambda: time.monotonic() > self._end, _TICK)

    def run(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute a statement; where another program holds a lock, try again for a while."""
        patience = time.monotonic() + _LOCKED
        while True:
            try:
                with self._limited():
                    return self._connection.execute(statement, values)
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > patience:
                    raise
            time.sleep(_PAUSE)

    @contextlib.contextmanager
    def _limited(self) -> Iterator[None]:
        """Give up what takes too long; what was cut short before that was stopped by the user."""
        self._end = time.monotonic() + _ANSWER
        try:
            yield
        except sqlite3.OperationalError as error:
            if _code(error) == sqlite3.SQLITE_INTERRUPT and time.monotonic() <= self._end:
                raise KeyboardInterrupt from None  # SQLite drops what the clock's question raises
            raise

    def columns(self, table: str) -> dict[str, Holds]:
        # always asked before they are read: SQLite takes the name of a column that is not there for
        # a text
        found = self.run("SELECT name, upper(type) FROM pragma_table_xinfo(?)", (table,))
        numbers = ("INT", "REAL", "FLOA", "DOUB")  # SQLite's own rule
        return {
            name: "numbers" if any(part in kind for part in numbers) else "anything"
            for name, kind in found
        }

    def create(self, table: str, columns: Mapping[str, Any], key: str | None = None) -> None:
        if len({column.lower() for column in columns}) < len(columns):
            raise ConfigError(
                "SQLite cannot tell upper from lower case in the names of columns: rename one of "
                "them."
            )
        types = {nw.String: "TEXT", nw.Int64: "INTEGER", nw.Float64: "REAL", nw.Boolean: "BOOLEAN"}
        self.run(f"CREATE TABLE {_quoted(table)} ({_declared(columns, types, key)})")

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        into = f"{_quoted(table)} ({', '.join(map(_quoted, columns))})"
        statement = f"INSERT INTO {into} VALUES ({', '.join('?' * len(columns))})"
        with self._limited():
            self._connection.executemany(statement, rows)

    def read(
        self,
        table: str,
        columns: Sequence[str],
        spans: Sequence[Span] = (),
    ) -> Iterator[Rows]:
        wanted = ", ".join(map(_quoted, columns))
        # A time has no type here. Texts that begin as in ISO 8601 sort by their day; all others are
        # read, whatever the spans.
        parts = [
            f"typeof({name}) <> 'text' OR {name} NOT GLOB '{_DAY}*' "
            f"OR ({name} COLLATE BINARY >= ? AND {name} COLLATE BINARY < ?)"
            for name in (_quoted(column) for column, _, _ in spans)
        ]
        days = [
            _day(instant, ahead)
            for _, *between in spans
            for instant, ahead in zip(between, (-2, 3), strict=True)
        ]
        where = f" WHERE {' OR '.join(parts)}" if parts else ""
        cursor = self.run(f"SELECT {wanted} FROM {_quoted(table)}{where}", days)
        while rows := self._fetched(cursor):
            yield rows

    def _fetched(self, cursor: sqlite3.Cursor) -> Rows:
        with self._limited():
            return cursor.fetchmany(_CHUNK)

    def find(self, table: str, column: str, key: str, value: int) -> Any:
        statement = f"SELECT {_quoted(column)} FROM {_quoted(table)} WHERE {_quoted(key)} = ?"
        return (self.run(statement, (value,)).fetchone() or (None,))[0]

    def commit(self) -> None:
        self.run("COMMIT")


def _day(instant: datetime, ahead: int) -> str:
    """The day of an instant, or some days later."""
    try:
        return (instant + timedelta(days=ahead)).date().isoformat()
    except OverflowError:
        # Before or after all days.
        return "" if ahead < 0 else ":"


@contextlib.contextmanager
def _postgres(url: str, write: bool) -> Iterator[Database]:
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        raise ConfigError("PostgreSQL needs psycopg: pip install 'tailrace[postgres]'.") from None
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        raise ConfigError(
            'url cannot be read: write it as "postgresql://user@host:5432/name".'
        ) from None
    try:
        limit = {} if "connect_timeout" in given else {"connect_timeout": int(_LOCKED)}
        connection = _limited(psycopg.Connection).connect(url, client_encoding="utf8", **limit)
    except (psycopg.Error, ValueError):
        raise StateError(_UNREACHABLE) from None
    try:
        with contextlib.closing(
            connection
        ):  # psycopg's own block would log what a lost server said
            connection.read_only = not write
            connection.execute(_LIMITS, (f"{_LOCKED:.0f}s", f"{_ANSWER:.0f}s"))
            yield _Postgres(connection)
    except psycopg.Error as error:
        raise StateError(_said(error)) from None


def _limited(base: type[Any]) -> type[Any]:
    """Connections that give up when no answer comes: a server may fall silent and keep the line
    open.
    """

    class Limited(base):
        def wait(self, gen: Generator[Any, Any, Any], *interval: Any, **more: Any) -> Any:
            return super().wait(_answered(gen), *interval, **more)

    return Limited


def _answered(asked: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """The exchange with a server, for a time; psycopg looks up ten times a second."""
    from psycopg.errors import QueryCanceled

    end = time.monotonic() + _ANSWER
    try:
        wanted = next(asked)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > end:
                raise QueryCanceled("out of time")
            wanted = asked.send(ready)
    except StopIteration as stop:
        return stop.value


def _said(error: Any) -> str:
    """The sentence for an error of PostgreSQL, by its public code (SQLSTATE)."""
    from psycopg import InterfaceError, OperationalError

    gone = isinstance(
        error, OperationalError | InterfaceError
    )  # where the server could not even say so
    state = error.sqlstate or ("08" if gone else "")
    sentences = {
        **dict.fromkeys(("57014", "42710", "42P07", "23505", "25", "40", "55"), _BUSY),
        **dict.fromkeys(("42501", "25006", "3F"), _FORBIDDEN),
        **dict.fromkeys(("53", "58"), _FULL),
        **dict.fromkeys(("08", "57"), _LOST),
    }
    return sentences.get(state) or sentences.get(state[:2], _REFUSED)


class _Postgres:
    """PostgreSQL; a dot in the name of a table stands between its schema and itself."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def columns(self, table: str) -> dict[str, Holds]:
        found = self._connection.execute(
            "SELECT attname, CASE WHEN atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype, "
            "'date'::regtype) THEN 'times' "
            "WHEN typcategory = 'N' THEN 'numbers' ELSE 'anything' END "
            "FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            (self._table(table),),
        )
        return dict(found.fetchall())

    def create(self, table: str, columns: Mapping[str, Any], key: str | None = None) -> None:
        types = {
            nw.String: "TEXT",
            nw.Int64: "BIGINT",
            nw.Float64: "DOUBLE PRECISION",
            nw.Boolean: "BOOLEAN",
        }
        for name in (*table.split(".", 1), *columns):
            if len(name.encode()) > 63:
                raise ConfigError(f"PostgreSQL takes names of up to 63 bytes; '{name}' is longer.")
        self._connection.execute(
            f"CREATE TABLE {self._table(table)} ({_declared(columns, types, key)})"
        )

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        into = f"{self._table(table)} ({', '.join(map(_quoted, columns))})"
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {into} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)

    def read(
        self, table: str, columns: Sequence[str], spans: Sequence[Span] = ()
    ) -> Iterator[Rows]:
        # as texts, all written in one way: psycopg would raise at the year 10000 and at an infinite
        # time
        self._connection.execute("SET LOCAL timezone TO 'UTC'")
        self._connection.execute("SET LOCAL datestyle TO 'ISO'")
        self._connection.execute("SET LOCAL extra_float_digits TO 3")
        unchecked = (
            self._connection.info.parameter_status("server_encoding") == "SQL_ASCII"
        )  # need not be UTF-8
        text = "convert_to({}::text, 'SQL_ASCII')" if unchecked else "{}::text"
        wanted = ", ".join(text.format(_quoted(column)) for column in columns)
        condition, values = self._within(table, spans)
        with contextlib.closing(
            self._connection.cursor(name="tailrace")
        ) as cursor:  # rows wait on the server
            cursor.execute(
                f"SELECT {wanted} FROM {self._table(table)}".replace("%", "%%") + condition, values
            )
            while rows := cursor.fetchmany(_CHUNK):
                yield [tuple(map(_decoded, row)) for row in rows] if unchecked else rows

    def _within(self, table: str, spans: Sequence[Span]) -> tuple[str, list[datetime]]:
        """The condition that a time lies in a span, with days to spare for time zones; none if a
        column is not of times.
        """
        found = self.columns(table) if spans else {}
        if not spans or any(found[column] != "times" for column, _, _ in spans):
            return "", []
        names = [_quoted(column).replace("%", "%%") for column, _, _ in spans]
        parts = [
            f"({name} >= %s - interval '2 days' AND {name} < %s + interval '2 days')"
            for name in names
        ]
        return " WHERE " + " OR ".join(parts), [
            instant for _, *between in spans for instant in between
        ]

    def find(self, table: str, column: str, key: str, value: int) -> Any:
        statement = (
            f"SELECT {_quoted(column)} FROM {self._table(table)} WHERE {_quoted(key)} = ".replace(
                "%", "%%"
            )
            + "%s"
        )
        return (self._connection.execute(statement, (value,)).fetchone() or (None,))[0]

    def commit(self) -> None:
        self._connection.commit()

    def _table(self, name: str) -> str:
        return ".".join(map(_quoted, name.split(".", 1)))


def _declared(columns: Mapping[str, Any], types: Mapping[Any, str], key: str | None) -> str:
    """The columns of a new table."""
    one = (
        f"{_quoted(name)} {types[type(kind)]}{' PRIMARY KEY' if name == key else ''}"
        for name, kind in columns.items()
    )
    return ", ".join(one)


def _decoded(cell: bytes | None) -> str | None:
    return None if cell is None else cell.decode("utf-8", "replace")
