"""Databases that do not answer: every wait has an end, and Ctrl-C ends it at once."""

import contextlib
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from processes import PATIENCE
from tailrace import Categorical, Schema, StateError
from tailrace.calendar import Calendar
from tailrace.sources import Reader, SqlTable
from tailrace.sources import database as databases

BUSY = "busy with another program, or out of time"
ENDLESS = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    "SELECT 'f' AS sex, i AS day FROM n WHERE i < 0"
)


@pytest.fixture
def hurry(monkeypatch):
    """Limits of a fraction of what they are; a second is the least that PostgreSQL is told, two for
    a call.
    """
    monkeypatch.setattr(databases, "_LOCKED", 1.0)
    monkeypatch.setattr(databases, "_ANSWER", 1.0)


def source(url, table="visits"):
    reader = Reader(domain=Schema(sex=Categorical(["f", "m"])), time="day")
    return SqlTable(
        url,
        table,
        reader=reader,
        calendar=Calendar(start="2026-01-01", period="1 day"),
        late="drop",
    )


@contextlib.contextmanager
def locked(path):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("CREATE TABLE visits (sex TEXT, day TEXT)")
        other.execute("BEGIN EXCLUSIVE")
        yield other


def slow(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE VIEW visits AS {ENDLESS}")
    return f"sqlite:///{path}"


def test_a_locked_sqlite_file_is_waited_for_and_then_told(tmp_path, hurry):
    with locked(tmp_path / "ward.db"), pytest.raises(StateError, match=BUSY):
        source(f"sqlite:///{tmp_path}/ward.db").batch(1)


def test_a_lock_that_is_let_go_in_time_is_no_error(tmp_path):
    with locked(tmp_path / "ward.db") as other:
        tries = []

        def released(seconds):
            tries.append(seconds)
            if other.in_transaction:
                other.execute("COMMIT")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(databases.time, "sleep", released)
            assert source(f"sqlite:///{tmp_path}/ward.db").batch(1).adds.height == 0
        assert tries


def test_a_sqlite_view_that_never_ends_is_given_up(tmp_path, hurry):
    with pytest.raises(StateError, match=BUSY):
        source(slow(tmp_path / "ward.db")).batch(1)


WAITING = """
import sys
from tailrace.sources import database as databases
with databases.connect(sys.argv[1], write=False) as database:
    print("waiting", flush=True)
    for rows in database.read("visits", ["sex"]):
        pass
"""


def interrupted(url):
    """Start to read, press Ctrl-C, and wait for the process to end."""
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "waiting\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)
    assert "KeyboardInterrupt" in said, said


def test_ctrl_c_ends_a_sqlite_view_that_never_ends(tmp_path):
    interrupted(slow(tmp_path / "ward.db"))


def test_ctrl_c_ends_the_wait_for_a_sqlite_lock(tmp_path):
    with locked(tmp_path / "ward.db"):
        interrupted(f"sqlite:///{tmp_path}/ward.db")


@contextlib.contextmanager
def silent():
    """A server that takes the call and says nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def test_a_server_that_never_answers_is_given_up(hurry):
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with silent() as port, pytest.raises(StateError, match="cannot be reached"):
        source(f"postgresql://me:secret@127.0.0.1:{port}/ward").batch(1)


def test_a_locked_table_of_postgresql_is_waited_for_and_then_told(postgres, hurry):
    import psycopg

    with psycopg.connect(postgres) as other:
        other.execute("CREATE TABLE locked_visits (sex TEXT, day DATE)")
        other.commit()
        other.execute("LOCK TABLE locked_visits IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StateError, match=BUSY):
            source(postgres, "locked_visits").batch(1)
        other.rollback()
        other.execute("DROP TABLE locked_visits")


def test_a_server_that_falls_silent_is_given_up(postgres, hurry):
    """The line stays open: a relay stops passing on what the server says."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as other:
        other.execute("CREATE TABLE silent_visits (sex TEXT, day DATE)")
    mute = threading.Event()
    port = int(postgres.rsplit(":", 1)[1].split("/")[0])
    with silent_relay(port, mute) as relay, contextlib.ExitStack() as open_ones:
        url = postgres.replace(f":{port}/", f":{relay}/")
        database = open_ones.enter_context(databases.connect(url, write=False))
        assert list(database.read("silent_visits", ["sex"])) == []
        mute.set()
        with pytest.raises(psycopg.errors.QueryCanceled, match="out of time"):
            database.columns("silent_visits")


@contextlib.contextmanager
def silent_relay(port, mute):
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def serve():
            near, _ = listening.accept()
            with near, socket.create_connection(("127.0.0.1", port)) as far:
                threading.Thread(
                    target=passed, args=(near, far, threading.Event()), daemon=True
                ).start()
                passed(far, near, mute)

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]


def passed(one, other, mute):
    with contextlib.suppress(OSError):
        while data := one.recv(65536):
            if not mute.is_set():
                other.sendall(data)


def test_a_limit_that_the_user_has_set_stays(postgres):
    own = f"{postgres}?options=-c%20statement_timeout%3D77s"
    with databases.connect(own, write=False) as database:
        found = database._connection.execute(
            "SELECT current_setting('statement_timeout'), current_setting('lock_timeout')"
        )
        assert found.fetchone() == ("77s", "30s")


def test_the_password_of_a_url_is_never_in_an_error(postgres):
    wrong = postgres.replace("open-sesame", "open-barley")
    unusable = (
        "postgresql://me:open-barley@127.0.0.1:1/ward",
        "postgresql://me:open-barley@[/ward",
        "mysql://me:open-barley@w",
    )
    for url in (wrong, *unusable):
        with pytest.raises((databases.ConfigError, StateError)) as caught:
            source(url).batch(1)
        assert (
            "open-barley"
            not in f"{caught.value}{caught.value!r}{caught.value.__cause__}{source(wrong)!r}"
        )
