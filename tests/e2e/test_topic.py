"""A topic by the command line: run, watched, and killed for good.

librdkafka's own cluster, in this process, stands for brokers.
"""

import json
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from processes import CALL, PATIENCE, python, variables
from tailrace import Stream
from tailrace.storage.store import peek
from tailrace.stream.verify import public_table

kafka = pytest.importorskip("confluent_kafka")

# A process that kills itself at the n-th durable point of its life.
KILLED = """
import os, signal, sys
from tailrace.storage import durable
left = [int(sys.argv.pop(1))]
def hook(_):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
durable.hook = hook
from tailrace.cli import app
app()
"""


@pytest.fixture(scope="module")
def cluster():
    return kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})


@pytest.fixture
def ward(cluster, configure, tmp_path, request):
    """Write a configuration of a topic, and return how to put rows into it."""
    broker, name = cluster.list_topics(timeout=30).brokers[1], request.node.name
    source = {"kind": "Topic", "servers": f"{broker.host}:{broker.port}", "topic": name}

    def write(**more):
        texts = {**source, "time": "day", **more.pop("source", {})}
        lines = "\n".join(f'{key} = "{text}"' for key, text in texts.items())
        configure(tmp_path, source=lines, **more)

    def put(*rows, partition=0):
        for day, sex in rows:
            value = json.dumps({"day": day, "sex": sex}).encode()
            cluster.produce(name, value, partition=partition)
        assert cluster.flush(30) == 0

    write()
    put.configure = write
    return put


def counts(folder, step):
    table = public_table(folder / "ward.tail/releases", step)
    return dict(table.group_by("sex").len().iter_rows())


def test_a_run_releases_what_a_topic_holds(ward, tailrace, tmp_path):
    ward(("2026-01-01", "f"), ("2026-01-03", "m"), ("not a day", "f"), ("2026-01-02", "f"))
    ward(("2026-01-01T23:59", "m"), ("2026-01-02", "secret"), partition=3)
    done = tailrace("run", "stream.toml", cwd=tmp_path)
    assert "Released steps 1 to 5" in done.stdout
    assert [counts(tmp_path, step) for step in (1, 2, 3, 5)] == [
        {"f": 1, "m": 1},
        {"f": 2, "m": 1},
        {"f": 2, "m": 2},
        {"f": 2, "m": 2},
    ]
    assert "Nothing to release" in tailrace("run", "stream.toml", cwd=tmp_path).stdout
    tailrace("verify", "ward.tail", cwd=tmp_path)
    refused = tailrace("report", "stream.toml", "--private", cwd=tmp_path, code=3)
    assert "whose source is a folder or a table" in refused.output.replace("\n", " ")


def test_what_cannot_be_read_makes_no_stream_and_charges_nothing(ward, tailrace, tmp_path):
    assert "have no topic" in tailrace("run", "stream.toml", cwd=tmp_path, code=4).output
    (tmp_path / "kafka.properties").write_text("sasl.password=hunter2\nunknown.name=hunter2\n")
    ward.configure(source={"client": "kafka.properties"})
    done = tailrace("run", "stream.toml", cwd=tmp_path, code=3)
    assert "refuses its settings" in done.output and "hunter2" not in done.output
    assert not (tmp_path / "ward.tail").exists()


@pytest.mark.slow
def test_watching_keeps_rows_of_the_open_step_as_they_come(ward, tmp_path):
    start = datetime.now(UTC).date() - timedelta(days=2)
    ward.configure(calendar=f'start = {start}\nperiod = "2 days"')
    ward((f"{start}", "f"), (f"{start + timedelta(days=2)}", "m"))
    watch = ["run", "stream.toml", "--watch", "--every", "0.2"]
    with subprocess.Popen(
        [sys.executable, "-c", CALL, *watch],
        cwd=tmp_path,
        env=variables(),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout.readline().startswith("Released step 1")
            ward((f"{start + timedelta(days=2)}", "f"), partition=1)
            end = time.monotonic() + PATIENCE
            while peek(tmp_path / "ward.tail/private", "note")[0] != {"0": 2, "1": 1}:
                assert process.poll() is None and time.monotonic() < end
                time.sleep(0.1)
        finally:
            process.kill()
    with Stream.open(tmp_path / "ward.tail") as stream:
        view = stream.publish().view
        assert [round(view.count(sex=sex).value) for sex in "fm"] == [2, 1]


@pytest.mark.slow
def test_processes_killed_again_and_again_count_every_row_once(ward, tmp_path):
    for day in (4, 1, 5, 2, 3):
        for partition in range(4):
            ward(*[(f"2026-01-{day:02d}", sex) for sex in "ffm"], partition=partition)
    # Where a life ends among its points; the first of these make the stream.
    lives = [
        python("-c", KILLED, str(at), "run", "stream.toml", cwd=tmp_path) for at in range(3, 40, 3)
    ]
    assert sum(life.returncode == -signal.SIGKILL for life in lives) >= 5
    done = python("-c", CALL, "run", "stream.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [counts(tmp_path, step) for step in range(1, 6)] == [
        {"f": 8 * step, "m": 4 * step} for step in range(1, 6)
    ]
