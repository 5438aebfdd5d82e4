"""A full disk, a read-only folder, a flipped bit, a cut file: detected, refused, named, and nothing
is lost.
"""

import os
import shutil
import textwrap

import numpy as np
import polars as pl
import pytest

from processes import python
from samples import ward
from tailrace import (
    Corrupt,
    Error,
    StateError,
    Stream,
    User,
)


def day(count=20):
    return pl.DataFrame({"id": list(range(count)), "sex": ["f"] * count})


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "ward.tail"
    with Stream.create(
        path, ward(unit=User(column="id", events=2), horizon=50), population="ward"
    ) as stream:
        for _ in range(3):
            stream.push(day())
    return path


def in_process(code, path):
    """Run `code` in a process of its own; what it printed."""
    script = (
        "from tailrace import *\nimport polars as pl, os, resource, sys\npath = sys.argv[1]\n"
        + textwrap.dedent(code)
    )
    done = python("-c", script, path)
    return done.stdout.strip() or done.stderr.strip()[-2000:]


ROOMS = (500, 8_000, 40_000, 90_000, 150_000)


@pytest.mark.slow
def test_a_full_disk_is_one_sentence_and_the_step_is_finished_later(path, tmp_path):
    """No file may grow beyond `room` bytes: the memory, the database, its log or a release is the
    first to meet the limit.
    """
    for room in ROOMS:
        shutil.copytree(path.parent, tmp_path.with_name(f"{tmp_path.name}-{room}"))
    said = in_process(
        f"""
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        many = pl.DataFrame({{"id": list(range(5000)), "sex": ["f"] * 5000}})
        for room in {ROOMS}:
            with Stream.open(f"{{path}}-{{room}}/ward.tail") as stream:
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))
                try:
                    stream.push(many)
                    print("pushed")
                except StateError as error:
                    print(error)
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        """,
        tmp_path,
    ).splitlines()
    assert len(said) == len(ROOMS) and "written" in said[0], said
    for room, line in zip(ROOMS, said, strict=True):
        assert line == "pushed" or "written" in line
        folder = tmp_path.with_name(f"{tmp_path.name}-{room}") / "ward.tail"
        with Stream.open(folder) as stream:
            assert stream.step in (3, 4)
            assert stream.push(day(), step=stream.step + 1).step == stream.step
            entries = sorted((folder / "releases" / "log").iterdir())
            assert [int(entry.stem) for entry in entries] == list(range(1, stream.step + 1))


def as_nobody(job):
    """What `job` is told when it has no rights: in a child, because rights are not given back."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.seteuid(65534)
        try:
            job()
            said = "done"
        except Error as error:
            said = str(error)
        except BaseException as error:
            said = f"Traceback {error!r}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as pipe:
        return pipe.read()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody without rights")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_read_only_folder_is_one_sentence(path, tmp_path):
    for folder in (path, path / "private", tmp_path, *list(tmp_path.parents)[:-2]):
        os.chmod(folder, 0o755)
    opened = as_nobody(lambda: Stream.open(path))
    assert opened.startswith("ward.tail/private belongs to another user: run as that user")
    made = as_nobody(
        lambda: Stream.create(
            tmp_path / "new.tail", ward(), population="ward", ledger=tmp_path / "new.ledger"
        )
    )
    assert "Traceback" not in made and made.endswith(".") and "new." in made
    assert not (tmp_path / "new.tail").exists()
    os.chmod(path / "private", 0o700)
    with Stream.open(path) as stream:
        assert stream.step == 3


def flips(file, count, seed=0):
    size = file.stat().st_size
    for bit in np.random.default_rng(seed).choice(8 * size, min(count, 8 * size), replace=False):
        data = bytearray(file.read_bytes())
        data[bit // 8] ^= 1 << bit % 8
        yield bytes(data)


def state_of(path):
    with Stream.open(path) as stream:
        tables = [stream.release(step).table.rows() for step in range(1, stream.step + 1)]
        return stream.step, tables, stream._standing.state.public.estimates.tolist()


@pytest.mark.parametrize("name", ["state.db", "key", "memory"])
def test_a_flipped_bit_is_noticed_or_changes_nothing(path, name):
    truth = state_of(path)
    private = path / "private"
    files = (
        [private / name]
        if name != "memory"
        else [f for f in (private / "memory").rglob("*") if f.is_file()]
    )
    noticed = 0
    for file in files:
        whole = file.read_bytes()
        for damaged in flips(file, 60 if name == "state.db" else 12):
            file.write_bytes(damaged)
            try:
                found = state_of(path)
                if name == "memory":
                    with Stream.open(path) as stream:
                        stream.push(day())
                    pytest.fail("a damaged memory was used")
            except StateError:
                noticed += 1
            else:
                assert found == truth, "a flip that is not noticed must not matter"
            for log in ("state.db-wal", "state.db-shm"):
                (private / log).unlink(missing_ok=True)
            file.write_bytes(whole)
    assert noticed >= (1 if name == "state.db" else 12)
    assert state_of(path) == truth


def test_a_file_cut_short_is_refused_and_named(path):
    for name in ("state.db", "key"):
        file = path / "private" / name
        whole = file.read_bytes()
        for length in (0, 10, len(whole) // 2, len(whole) - 1):
            file.write_bytes(whole[:length])
            with pytest.raises(Corrupt, match=f"private/{name}"):
                Stream.open(path)
            for log in ("state.db-wal", "state.db-shm"):
                (path / "private" / log).unlink(missing_ok=True)
            file.write_bytes(whole)
    assert state_of(path)[0] == 3


def test_another_format_is_refused(path):
    from tailrace import Mismatch
    from tailrace.storage.store import Store

    store = Store(path / "private")
    with store.transaction("test") as change:
        change.put("format", 99)
    store.close()
    with pytest.raises(Mismatch, match="another format"):
        Stream.open(path)
