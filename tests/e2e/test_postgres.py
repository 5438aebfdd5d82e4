"""PostgreSQL in and out, against a real server; and with the connection cut in the middle."""

import contextlib
import itertools
import random
import socket
import threading
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import polars as pl
import pytest

from tailrace import (
    Categorical,
    ConfigError,
    DataError,
    Event,
    HistogramStream,
    Integer,
    Noise,
    PureDP,
    Real,
    Schema,
    StateError,
    Stream,
)
from tailrace.calendar import Calendar
from tailrace.sinks import SqlTable as Sink
from tailrace.sources import database as databases
from tailrace.sources.reading import Reader
from tailrace.sources.sql import SqlTable as Source
from tailrace.storage import durable
from tailrace.stream.release import Kind

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

START = datetime(2026, 3, 27, tzinfo=UTC)
DAYS = Calendar(start="2026-03-27", period="1 day", grace="6 hours")
CLINIC = Schema(
    **{'select "a", %s': Categorical(["f", "m", "x\ty\\N"], outside="other")},
    age=Integer(0, 9, outside="other"),
    size=Real(edges=[0, 0.1, 1], outside="other"),
    well=Categorical([True, False]),
)
COLUMN = '"select ""a"", %s"'
NUMBERS = itertools.count()
BUSY = "The database was busy with another program, or out of time"


@pytest.fixture
def server(postgres):
    with psycopg.connect(postgres, autocommit=True) as connection:
        yield connection


@pytest.fixture
def visits(server):
    """A table of 400 visits over ten days, some late, some deletions, some odd."""
    table = f"Visits {next(NUMBERS)}"
    server.execute(
        f'CREATE TABLE "{table}" ({COLUMN} text, age int, size float8, well bool, seen '
        f"timestamptz, came timestamptz, op text)"
    )
    choose = random.Random(3)
    rows = []
    for _ in range(400):
        seen = START + timedelta(hours=choose.uniform(-48, 240))
        came = seen + timedelta(hours=choose.choice([0, 5, 30, 100]))
        cells = (
            choose.choice(["f", "m", "x\ty\\N", "?", None]),
            choose.choice([*range(-1, 12), None]),
        )
        size = choose.choice([0.05, 1 / 3, 5.0, float("nan"), None])
        rows.append(
            (
                *cells,
                size,
                choose.random() < 0.5,
                seen,
                came,
                choose.choice(["insert"] * 4 + ["delete"]),
            )
        )
    with server.cursor() as cursor:
        places = ", ".join(["%s"] * 7)
        cursor.executemany(f'INSERT INTO "{table}" VALUES ({places})', rows)
    return table


def source(
    url, table, *, domain=CLINIC, late="next", calendar=DAYS, op: str | None = "op", **columns
):
    reader = Reader(domain=domain, **{"time": "seen", "op": op, "arrived": "came", **columns})
    return Source(url, table, reader=reader, calendar=calendar, late=late)


def rows(frame):
    return sorted(map(repr, frame.rows()))


def read(found):
    """The rows inserted and deleted, in order."""
    return rows(found.adds), None if found.deletes is None else rows(found.deletes)


def mechanism():
    return HistogramStream(domain=CLINIC, privacy=PureDP(epsilon=1), unit=Event(), horizon=20)


def released(seed=1, steps=1):
    stream = Stream(mechanism(), noise=Noise.insecure(seed))
    frame = pl.DataFrame(
        {'select "a", %s': ["f", None] * 300, "age": 3, "size": 0.5, "well": [True, False] * 300}
    )
    return [stream.push(frame) for _ in range(steps)]


def held(server, table, release):
    """Whether the table holds the release exactly, and nothing else of its step."""
    found = server.execute(
        f'SELECT {COLUMN}, age, size, well FROM "{table}" WHERE step = {release.step}'
    ).fetchall()
    wanted = Kind().frame(release.rows, release.types).fill_nan(None)
    return sorted(map(repr, found)) == rows(wanted)


@pytest.fixture
def quiet(caplog, capfd):
    """Nothing is logged or printed, by us or by the driver."""
    yield
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


def test_in_and_out(postgres, server, visits):
    """The releases of a stream between two tables are those of the same stream fed by hand."""
    table = f"out{next(NUMBERS)}"
    stream, by_hand = (Stream(mechanism(), noise=Noise.insecure(1)) for _ in range(2))
    everything = server.execute(
        f'SELECT {COLUMN}, age, size, well, seen, came, op FROM "{visits}"'
    ).fetchall()
    for step in range(1, 16):
        batch = source(postgres, visits).batch(step)
        release = stream.push(batch.adds, deletes=batch.deletes)
        Sink(postgres, table).put(release)
        chosen = [
            row
            for row in everything
            if row[4] >= START and max(_step(row[4]), _opened(row[5])) == step
        ]
        names = [*CLINIC.columns]
        types = dict(zip(names, (pl.String, pl.Float64, pl.Float64, pl.Boolean), strict=True))
        frames = [
            pl.DataFrame([row[:4] for row in chosen if row[6] == op], types, orient="row")
            for op in ("insert", "delete")
        ]
        same = by_hand.push(frames[0], deletes=frames[1])
        assert rows(same.table) == rows(release.table)
        assert held(server, table, release)
    assert Sink(postgres, table).holds() == set(range(1, 16))
    assert server.execute(f"SELECT count(*) FROM {table}_releases").fetchone() == (15,)


def _step(instant):
    return (instant - START).days + 1


def _opened(instant):
    return max(1, _step(instant - timedelta(hours=6)))


@pytest.mark.parametrize("kind", ["timestamptz", "timestamptz(0)", "timestamp", "date"])
@pytest.mark.parametrize("late", ["next", "drop"])
def test_what_the_server_leaves_out_belongs_to_no_step(postgres, server, visits, kind, late):
    """Columns of times are cut by the server first; as texts they are not, and the batches are the
    same.
    """
    typed, texts = f"typed{next(NUMBERS)}", f"texts{next(NUMBERS)}"
    kept = f"{COLUMN}, age, size, well, op"
    server.execute("SET TimeZone TO 'Asia/Kathmandu'")
    server.execute(
        f'CREATE TABLE {typed} AS SELECT {kept}, seen::{kind}, came::{kind} FROM "{visits}"'
    )
    for odd in ("infinity", "-infinity", "12026-03-28", "0044-03-15 BC", None):
        for seen, came in ((odd, "2026-03-28"), ("2026-03-28", odd)):
            server.execute(
                f"INSERT INTO {typed} (age, well, op, seen, came) VALUES (7, true, 'insert', %s, "
                f"%s)",
                (seen, came),
            )
    server.execute(f"CREATE TABLE {texts} AS SELECT {kept}, seen::text, came::text FROM {typed}")
    local = Calendar(
        start="2026-03-27", period="1 day", timezone="Pacific/Kiritimati", grace="6 hours"
    )
    total = 0
    for step in (*range(1, 17), 300):
        asked = {"late": late, "calendar": local, "timezone": local.timezone}
        batch, same = (
            source(postgres, typed, **asked).batch(step),
            source(postgres, texts, **asked).batch(step),
        )
        assert read(batch) == read(same)
        total += len(batch.adds)
    assert total > 100
    with databases.connect(postgres, write=False) as database:
        spans = [("seen", local.begin(3), local.end(3))]
        near = sum(map(len, database.read(typed, ["age"], spans)))
        everything = sum(map(len, database.read(typed, ["age"])))
    assert 0 < near < everything * 2 / 3


def test_a_format_is_for_texts(postgres, server):
    table = f"formats{next(NUMBERS)}"
    server.execute(f"CREATE TABLE {table} (age int, seen text, came timestamptz)")
    server.execute(
        f"INSERT INTO {table} VALUES (1, '27.03.2026', '2026-03-27 12:00+00'), (2, '27.03.2026', "
        f"'2026-03-29 12:00Z')"
    )
    domain = Schema(age=Integer(0, 9))
    asked = {"domain": domain, "op": None, "format": "%d.%m.%Y"}
    assert [source(postgres, table, **asked).batch(step).adds.rows() for step in (1, 2, 3)] == [
        [(1.0,)],
        [],
        [(2.0,)],
    ]


def test_cells_of_every_type_are_read_by_the_schema(postgres, server):
    table = f"types{next(NUMBERS)}"
    domain = Schema(
        number=Real(edges=[0, 1]),
        sex=Categorical(["f", "true"], outside="other"),
        well=Categorical([True]),
    )
    server.execute("ALTER DATABASE postgres SET extra_float_digits TO -15")
    server.execute("ALTER DATABASE postgres SET datestyle TO 'German'")
    server.execute(
        "ALTER DATABASE postgres SET timezone TO 'Africa/Monrovia'"
    )  # 44 minutes and 30 seconds behind, then
    early = Calendar(start="1970-01-01", period="1 day")
    kinds = {
        "float8": "0.1234567890123456",
        "float4": "0.5",
        "numeric(40, 20)": "0.25",
        "text": "' 0.125 '",
        "smallint": "1",
        "int[]": "'{1}'",
        "json": "'[1]'",
        "bytea": "'\\x31'",
        "interval": "'1 day'",
    }
    try:
        found = []
        for kind, value in kinds.items():
            server.execute(
                f"CREATE TABLE {table} (number {kind}, sex char(9), well text, seen timestamptz)"
            )
            server.execute(f"INSERT INTO {table} VALUES ({value}, 'f', 'T', '1970-01-02 00:10Z')")
            asked = source(
                postgres, table, domain=domain, calendar=early, op=None, late="drop", arrived=None
            )
            found += asked.batch(2).adds.rows()
            server.execute(f"DROP TABLE {table}")
    finally:
        server.execute("ALTER DATABASE postgres RESET ALL")
    numbers = [0.1234567890123456, 0.5, 0.25, 0.125, 1.0, None, None, None, None]
    assert found == [(number, "f", True) for number in numbers]


def test_a_server_that_does_not_mind_its_letters(postgres, server):
    name = f"ascii{next(NUMBERS)}"
    server.execute(
        f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE "
        f"'C'"
    )
    url = postgres.removesuffix("postgres") + name
    with psycopg.connect(url, client_encoding="utf8") as connection:
        connection.execute('CREATE TABLE visits ("sexé" text, seen text)')
        connection.execute(
            "INSERT INTO visits VALUES (E'\\xff', '2026-03-27'), ('f', E'2026-03-27\\xfe'), ('f', "
            "'2026-03-27'), ('', '2026-03-27')"
        )
    domain = Schema(sexé=Categorical(["f"]))
    found = source(url, "visits", domain=domain, op=None, late="drop", arrived=None).batch(1).adds
    assert found.rows() == [("\ufffd",), ("f",), ("",)]


def test_schemas_views_and_names(postgres, server):
    domain = Schema(**dict.fromkeys(("user", 'a"b', "%(x)s", "Ünï"), Integer(0, 9)))
    server.execute('CREATE SCHEMA "My schema"')
    server.execute(
        'CREATE TABLE "My schema"."order" ("user" int, "a""b" int, "%(x)s" int, "Ünï" int, seen '
        'date, "came" date, gone int)'
    )
    server.execute('ALTER TABLE "My schema"."order" DROP COLUMN gone')
    server.execute(
        "INSERT INTO \"My schema\".\"order\" VALUES (1, 2, 3, 4, '2026-03-27', '2026-03-27')"
    )
    server.execute('CREATE MATERIALIZED VIEW made AS SELECT * FROM "My schema"."order"')
    for table in ("My schema.order", "made"):
        batch = source(postgres, table, domain=domain, op=None).batch(1)
        assert batch.adds.rows() == [(1.0, 2.0, 3.0, 4.0)] and batch.deletes is None
    with pytest.raises(DataError, match="no column 'gone'"):
        source(postgres, "My schema.order", domain=domain, op="gone").batch(1)
    with pytest.raises(DataError, match=r"no table 'My schema.Order'"):
        source(postgres, "My schema.Order", domain=domain).batch(1)
    stream = Stream(
        HistogramStream(domain=domain, privacy=PureDP(epsilon=1), unit=Event(), horizon=2)
    )
    Sink(postgres, "My schema.out").put(stream.push(None))
    assert server.execute('SELECT step FROM "My schema"."out_releases"').fetchall() == [(1,)]
    with pytest.raises(StateError, match=r"does not allow"):
        Sink(postgres, "nowhere.out").put(stream.release(1))


def test_times_that_are_numbers_are_refused(postgres, server):
    table = f"numbers{next(NUMBERS)}"
    server.execute(f"CREATE TABLE {table} (age int, seen bigint)")
    with pytest.raises(DataError, match=r"'seen' of table .* holds numbers"):
        source(
            postgres, table, domain=Schema(age=Integer(0, 9)), op=None, late="drop", arrived=None
        ).batch(1)


def test_a_user_who_may_not(postgres, server, visits, monkeypatch):
    server.execute("CREATE ROLE guest LOGIN PASSWORD 'hush'")
    url = postgres.replace("tailrace:open-sesame", "guest")
    monkeypatch.setenv("PGPASSWORD", "hush")  # a url need not hold the password
    server.execute("REVOKE ALL ON SCHEMA public FROM public")
    server.execute("GRANT USAGE ON SCHEMA public TO guest")
    for call in (
        lambda: source(url, visits).batch(1),
        lambda: Sink(url, "forbidden").put(released()[0]),
    ):
        with pytest.raises(StateError, match="does not allow it"):
            call()
    assert Sink(url, "forbidden").holds() == set()


@pytest.mark.usefixtures("quiet")
def test_a_server_that_cannot_be_reached(postgres):
    where = urlsplit(postgres)
    for url in (
        postgres.replace("open-sesame", "guessed"),
        postgres.replace(str(where.port), "1"),
        postgres.replace("/postgres", "/nothing", 1) + "/nothing",
    ):
        for call in (Sink(url, "out").holds, lambda url=url: source(url, "visits").batch(1)):
            with pytest.raises(
                StateError, match="cannot be reached, or refuses the user"
            ) as caught:
                call()
            _says_nothing(caught.value)
    with pytest.raises(ConfigError, match="url cannot be read"):
        Sink("postgresql://me:guessed@x:port/?y", "out").holds()


def _says_nothing(error):
    text = str(error)
    assert text.count(". ") == 0
    assert not any(
        word in text
        for word in ("sesame", "guessed", "127.0.0.1", "FATAL", "tailrace", "server closed")
    )
    assert error.__suppress_context__ and error.__cause__ is None


def _cut(postgres):
    """What an operator, or a crash of the server's process, does to our connections."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND "
            "application_name <> 'test'"
        )


@pytest.fixture
def watcher(postgres):
    """A connection that is not cut."""
    with psycopg.connect(postgres, autocommit=True, application_name="test") as connection:
        yield connection


@pytest.mark.usefixtures("quiet")
def test_a_sink_is_cut_before_it_commits(postgres, watcher, monkeypatch):
    table, release = f"cut{next(NUMBERS)}", released()[0]
    monkeypatch.setattr(
        durable, "hook", lambda name: _cut(postgres) if name == "sink, before" else None
    )
    with pytest.raises(
        StateError, match="connection to the database was lost; run again"
    ) as caught:
        Sink(postgres, table).put(release)
    _says_nothing(caught.value)
    assert watcher.execute("SELECT to_regclass(%s)", (table,)).fetchone() == (None,)
    monkeypatch.setattr(durable, "hook", None)
    assert Sink(postgres, table).holds() == set()
    Sink(postgres, table).put(release)
    assert held(watcher, table, release)


@pytest.mark.usefixtures("quiet")
def test_a_sink_is_cut_after_it_committed(postgres, watcher, monkeypatch):
    table, release = f"cut{next(NUMBERS)}", released()[0]
    monkeypatch.setattr(
        durable, "hook", lambda name: _cut(postgres) if name == "sink, after" else None
    )
    Sink(postgres, table).put(release)
    monkeypatch.setattr(durable, "hook", None)
    Sink(postgres, table).put(release)
    assert held(watcher, table, release)


@pytest.mark.usefixtures("quiet")
def test_a_source_is_cut_between_two_chunks(postgres, visits, monkeypatch):
    from tailrace.sources import sql

    whole = read(source(postgres, visits).batch(3))
    monkeypatch.setattr(databases, "_CHUNK", 20)
    calls, text_frame = itertools.count(), sql.text_frame

    def cutting(columns):
        if next(calls) == 2:
            _cut(postgres)
        return text_frame(columns)

    monkeypatch.setattr(sql, "text_frame", cutting)
    with pytest.raises(
        StateError, match="connection to the database was lost; run again"
    ) as caught:
        source(postgres, visits).batch(3)
    _says_nothing(caught.value)
    assert read(source(postgres, visits).batch(3)) == whole


class Proxy:
    """Carries the bytes of one connection after another, and hangs up when `limit` of them have
    passed.
    """

    def __init__(self, url):
        self.limit, self.passed = None, 0
        self._to = (urlsplit(url).hostname, urlsplit(url).port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = url.replace(f":{self._to[1]}/", f":{self._listening.getsockname()[1]}/")
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self.passed, lock = 0, threading.Lock()
            server = socket.create_connection(self._to)
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._carry, args=(*ends, lock), daemon=True).start()

    def _carry(self, come, go, lock):
        with contextlib.suppress(OSError):
            while data := come.recv(4096):
                with lock:
                    allowed = (
                        data if self.limit is None else data[: max(0, self.limit - self.passed)]
                    )
                    self.passed += len(data)
                    go.sendall(allowed)
                    if len(allowed) < len(data):
                        break
        for end in (come, go):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._listening.close()


@pytest.fixture
def proxy(postgres):
    proxy = Proxy(postgres)
    yield proxy
    proxy.close()


def _limits(total):
    """Everywhere, and closer together where the end is near: there the commit and its answer
    are.
    """
    return sorted({*range(0, total, max(1, total // 15)), *range(max(0, total - 120), total, 8)})


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
def test_a_sink_is_cut_after_any_number_of_bytes(watcher, proxy):
    releases = released(steps=2)
    first = f"bytes{next(NUMBERS)}"
    Sink(proxy.url, first).put(releases[0])
    total, outcomes = proxy.passed, []
    assert held(watcher, first, releases[0])
    for limit in _limits(total):
        table = f"bytes{next(NUMBERS)}"
        proxy.limit = limit
        try:
            Sink(proxy.url, table).put(releases[0])
            outcomes.append("told")
        except StateError as error:
            _says_nothing(error)
            outcomes.append("lost")
        proxy.limit = None
        steps = Sink(proxy.url, table).holds()
        if steps:
            assert steps == {1} and held(watcher, table, releases[0])
            outcomes[-1] += ", held"
        Sink(proxy.url, table).put(releases[0])
        Sink(proxy.url, table).put(releases[1])
        assert Sink(proxy.url, table).holds() == {1, 2}
        assert held(watcher, table, releases[0]) and held(watcher, table, releases[1])
    assert "told" not in outcomes  # what we were told is written, is written
    assert {"lost", "lost, held"} <= set(outcomes)


@pytest.mark.usefixtures("quiet")
def test_a_source_is_cut_after_any_number_of_bytes(proxy, visits):
    whole = read(source(proxy.url, visits).batch(3))
    lost = 0
    for limit in _limits(proxy.passed):
        proxy.limit = limit
        try:
            assert read(source(proxy.url, visits).batch(3)) == whole
        except StateError as error:
            _says_nothing(error)
            lost += 1
        proxy.limit = None
    assert lost > 15
    assert read(source(proxy.url, visits).batch(3)) == whole


def test_two_writers_of_one_step(postgres, watcher):
    table, release = f"two{next(NUMBERS)}", released()[0]
    start, refused = threading.Barrier(4), []

    def write():
        start.wait()
        try:
            Sink(postgres, table).put(release)
        except StateError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {sentence.split(";")[0] for sentence in refused} <= {BUSY} and len(refused) < 4
    Sink(postgres, table).put(release)
    assert held(watcher, table, release)
    assert watcher.execute(f"SELECT step FROM {table}_releases").fetchall() == [(1,)]


def test_a_lock_that_is_not_given(postgres, server, watcher):
    table, releases = f"locked{next(NUMBERS)}", released(steps=2)
    Sink(postgres, table).put(releases[0])
    with watcher.transaction():
        watcher.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StateError, match="busy with another program"):
            Sink(f"{postgres}?options=-c%20lock_timeout%3D50", table).put(releases[1])
    Sink(postgres, table).put(releases[1])
    assert held(server, table, releases[0]) and held(server, table, releases[1])
