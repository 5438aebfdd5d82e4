"""What tests share: every counter (every shape, both kinds of noise, horizons with every kind of
end), a Spark session, a PostgreSQL server, and the command line with something to configure."""

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

from processes import call
from tailrace import ZCDP, ApproxDP, PureDP
from tailrace.counters import (
    BinaryTree,
    Block,
    Hybrid,
    KaryTree,
    Simple,
    SqrtEven,
    SqrtToeplitz,
    Unbounded,
    UnboundedBlock,
)

# No example is too slow on a busy machine; CI tries the same examples every time, so that it never
# flickers. `make slow` tries every property again, seven times as often.
SAME = {"deadline": None, "derandomize": bool(os.environ.get("CI"))}
settings.register_profile("quick", max_examples=15, **SAME)
settings.register_profile("slow", max_examples=100, **SAME)
settings.load_profile("quick")


def pytest_configure(config):
    if config.option.markexpr == "slow":
        settings.load_profile("slow")


def pytest_itemcollected(item):
    """A property is also a slow test, with more examples."""
    if item.config.option.markexpr == "slow" and is_hypothesis_test(getattr(item, "obj", None)):
        item.add_marker("slow")


collect_ignore = ["vectors"]  # its script runs in an environment of its own

PURE, ZERO, APPROX = PureDP(epsilon=0.5), ZCDP(rho=0.1), ApproxDP(epsilon=0.5, delta=1e-6)


def every_counter(horizon):
    """One of each counter and noise; those without end take the horizon as a limit."""
    for privacy in (PURE, ZERO, APPROX):
        yield Simple(privacy=privacy, horizon=horizon)
        yield Block(size=8, privacy=privacy, horizon=horizon)
        yield Block(privacy=privacy, horizon=horizon)
        yield BinaryTree(privacy=privacy, horizon=horizon)
        yield KaryTree(subtract=False, privacy=privacy, horizon=horizon)
        yield UnboundedBlock(privacy=privacy, horizon=horizon)
        yield UnboundedBlock(squares=True, privacy=privacy, horizon=horizon)
        yield Hybrid(privacy=privacy, horizon=horizon)
        yield Unbounded(counter=Block(), first=3, privacy=privacy, horizon=horizon)
    for levels in (1, 2, 3, 4):
        yield KaryTree(levels=levels, privacy=PURE, horizon=horizon)
    yield KaryTree(arity=3, privacy=PURE, horizon=horizon)
    yield Unbounded(counter=KaryTree(), privacy=PURE, horizon=horizon)
    for privacy in (ZERO, APPROX):
        yield SqrtToeplitz(privacy=privacy, horizon=horizon)
        yield SqrtEven(privacy=privacy, horizon=horizon)
        yield Unbounded(counter=SqrtToeplitz(), first=4, privacy=privacy, horizon=horizon)


def name(counter):
    parts = [
        getattr(counter, part, None) for part in ("size", "arity", "levels", "subtract", "squares")
    ]
    options = "-".join(str(part) for part in parts if part is not None)
    return f"{type(counter).__name__}-{type(counter.privacy).__name__}-{counter.horizon}-{options}"


def pytest_generate_tests(metafunc):
    """A test that takes `counter` runs over every counter; its module's HORIZONS say for which
    horizons (None: without end).
    """
    if "counter" in metafunc.fixturenames and hasattr(metafunc.module, "HORIZONS"):
        counters = [
            counter
            for horizon in metafunc.module.HORIZONS
            for counter in every_counter_for(horizon)
        ]
        metafunc.parametrize("counter", counters, ids=name)


def every_counter_for(horizon):
    if horizon is not None:
        return list(every_counter(horizon))
    endless = (UnboundedBlock, Hybrid, Unbounded, Simple)
    return [
        type(c)(**{**vars(c), "horizon": None}) for c in every_counter(9) if isinstance(c, endless)
    ]


@pytest.fixture(scope="session")
def spark():
    """Starts one local Spark session, when it is first asked for."""
    sessions = []

    def session():
        if not sessions:
            sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed")
            if shutil.which("java") is None:
                pytest.skip("PySpark needs java")
            options = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
            options |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
            sessions.append(
                sql.SparkSession.builder.master("local[1]").config(map=options).getOrCreate()
            )
        return sessions[0]

    yield session
    for one in sessions:
        one.stop()


@pytest.fixture(scope="session")
def postgres():
    """The url of a private PostgreSQL server, which starts when it is first asked for."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    places = (
        [Path(found).parent]
        if (found := shutil.which("pg_ctl"))
        else Path("/usr/lib/postgresql").glob("*/bin")
    )
    places = sorted(place for place in places if (place / "initdb").exists())
    if not places:
        pytest.skip("PostgreSQL is not installed")
    user = {}
    with tempfile.TemporaryDirectory(prefix="tailrace-postgres-") as name:
        folder = Path(name)
        if os.geteuid() == 0:  # the server refuses root
            try:
                shutil.chown(folder, "postgres")
            except LookupError:
                pytest.skip("PostgreSQL refuses root, and there is no user postgres")
            user = {"user": "postgres", "group": "postgres", "extra_groups": []}

        def call(program, *arguments):
            command = [places[-1] / program, "-D", folder / "data", *arguments]
            subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, **user)

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        (folder / "password").write_text("open-sesame")
        login = ("-U", "tailrace", "-A", "scram-sha-256", "--pwfile", folder / "password")
        call("initdb", *login, "-E", "UTF8", "--no-locale", "--no-sync")
        place = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories=''"
        options = f"{place} -c fsync=off"
        call("pg_ctl", "-w", "-l", folder / "log", "-o", options, "start")
        try:
            yield f"postgresql://tailrace:open-sesame@127.0.0.1:{port}/postgres"
        finally:
            call("pg_ctl", "-m", "immediate", "stop")


@pytest.fixture(scope="session")
def tailrace():
    """Call a command in this process; it must end with `code`."""
    return call


TABLES = {
    "stream": 'path = "ward.tail"\npopulation = "ward"',
    "mechanism": 'kind = "HistogramStream"\nhorizon = 5\n'
    'privacy = { kind = "PureDP", epsilon = 500 }\nunit = { kind = "Event" }',
    "schema": 'sex = { kind = "Categorical", values = ["f", "m"] }',
    "calendar": 'start = 2026-01-01\nperiod = "1 day"',
    "source": 'kind = "Folder"\npath = "incoming"\nfiles = "*.csv"\ntime = "day"',
}


@pytest.fixture(scope="session")
def configure():
    """Write a stream.toml; tables by name, None for none of it, sinks as a list. At this epsilon
    noise is nearly always 0.
    """

    def write(folder, *, name="stream.toml", sinks=(), **tables):
        texts = {table: text for table, text in {**TABLES, **tables}.items() if text is not None}
        parts = [f"[{table}]\n{text}\n" for table, text in texts.items()] + [
            f"[[sink]]\n{sink}\n" for sink in sinks
        ]
        (folder / name).write_text("\n".join(parts))
        (folder / "incoming").mkdir(exist_ok=True)

    return write
