"""A stream in one file: put back where the ledger accepts it, and nowhere else."""

import io
import shutil
import stat
import tarfile

import polars as pl
import pytest

from processes import call
from samples import ward
from tailrace import BehindLedger, ConfigError, Corrupt, StateError, Stream, User
from tailrace.stream.backup import back_up, restore
from tailrace.stream.verify import verify_stream

DAY = pl.DataFrame({"id": [1, 2, 3], "sex": ["f", "m", "f"], "age": [1, 2, 3]})


@pytest.fixture
def made(tmp_path):
    with Stream.create(tmp_path / "w.tail", ward(), population="w") as stream:
        for _ in range(2):
            stream.push(DAY)
        stream.add(DAY, key="morning")
    return tmp_path


def test_a_lost_stream_is_put_back_and_goes_on(made):
    with Stream.open(made / "w.tail") as stream:
        before = [stream.release(step).table.rows() for step in (1, 2)]
    assert back_up(made / "w.tail", made / "b.tar") == 2
    for name in ("b.tar", "b.tar.ledger"):
        assert stat.S_IMODE((made / name).stat().st_mode) == 0o600, "they are private"
    shutil.rmtree(made / "w.tail")
    assert restore(made / "b.tar", made / "w.tail") == 2
    assert verify_stream(made / "w.tail").steps == 2
    with Stream.open(made / "w.tail") as stream:
        assert [stream.release(step).table.rows() for step in (1, 2)] == before
        assert not stream.add(DAY, key="morning"), "rows that were added are there"
        assert stream.push(DAY).step == 3


def test_a_backup_that_is_too_old_is_refused_and_leaves_nothing(made):
    back_up(made / "w.tail", made / "b.tar")
    with Stream.open(made / "w.tail") as stream:
        stream.push(DAY)
    shutil.rmtree(made / "w.tail")
    there = sorted(path.name for path in made.iterdir())
    with pytest.raises(BehindLedger, match="it is a copy or an old backup"):
        restore(made / "b.tar", made / "w.tail")
    assert sorted(path.name for path in made.iterdir()) == there


def test_two_that_were_put_back_cannot_both_go_on(made):
    back_up(made / "w.tail", made / "b.tar")
    restore(made / "b.tar", made / "other.tail")
    with Stream.open(made / "other.tail") as stream:
        stream.push(DAY)
    with pytest.raises(BehindLedger):
        Stream.open(made / "w.tail")


def test_the_ledger_beside_a_backup_is_whole(made):
    back_up(made / "w.tail", made / "b.tar")
    for name in ("w.tail", "tailrace.ledger"):
        path = made / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(BehindLedger, match="has no ledger"):
        restore(made / "b.tar", made / "w.tail")
    shutil.copy(made / "b.tar.ledger", made / "tailrace.ledger")
    assert restore(made / "b.tar", made / "w.tail") == 2


def test_nothing_is_overwritten_and_a_stream_in_use_is_not_copied(made):
    back_up(made / "w.tail", made / "b.tar")
    with pytest.raises(ConfigError, match=r"b\.tar is there already"):
        back_up(made / "w.tail", made / "b.tar")
    with pytest.raises(ConfigError, match=r"w\.tail is there already"):
        restore(made / "b.tar", made / "w.tail")
    with Stream.open(made / "w.tail"), pytest.raises(StateError, match="open in another process"):
        back_up(made / "w.tail", made / "c.tar")
    assert not list(made.glob("*c.tar*")) and not list(made.glob(".*"))
    with pytest.raises(StateError, match="cannot be written"):
        back_up(made / "w.tail", made / "nowhere" / "c.tar")


def crafted(path, name, kind=tarfile.REGTYPE, link=""):
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname, member.size = kind, link, 3 if kind == tarfile.REGTYPE else 0
        archive.addfile(member, io.BytesIO(b"abc"))


@pytest.mark.parametrize(
    ("name", "kind", "link"),
    [
        ("stream/../../out", tarfile.REGTYPE, ""),
        ("/stream/out", tarfile.REGTYPE, ""),
        ("other/out", tarfile.REGTYPE, ""),
        ("stream/out", tarfile.SYMTYPE, "/etc/passwd"),
        ("stream/out", tarfile.LNKTYPE, "../tailrace.ledger"),
        ("stream/out", tarfile.LNKTYPE, "stream/../../tailrace.ledger"),
        ("stream/out", tarfile.FIFOTYPE, ""),
        ("stream/out", tarfile.REGTYPE, ""),
    ],
)
def test_a_crafted_backup_is_refused_and_leads_nowhere(made, name, kind, link):
    crafted(made / "evil.tar", name, kind, link)
    there = sorted(path.name for path in made.iterdir())
    with pytest.raises(StateError):
        restore(made / "evil.tar", made / "new.tail")
    assert sorted(path.name for path in made.iterdir()) == there
    (made / "evil.tar").write_bytes(b"no archive")
    with pytest.raises(Corrupt, match="is no backup of a stream"):
        restore(made / "evil.tar", made / "new.tail")


def test_the_commands_back_up_and_put_back(made, monkeypatch):
    monkeypatch.chdir(made)
    assert "at step 2" in call("backup", "w.tail", "--to", "b.tar").output
    shutil.rmtree(made / "w.tail")
    assert "Restored w.tail at step 2" in call("restore", "b.tar", "w.tail").output
    assert "is there already" in call("restore", "b.tar", "w.tail", code=3).output


def test_the_memory_of_people_is_in_a_backup(tmp_path):
    person = User(column="id", events=1)
    with Stream.create(tmp_path / "w.tail", ward(unit=person), population="w") as stream:
        stream.push(DAY)
    back_up(tmp_path / "w.tail", tmp_path / "b.tar")
    restore(tmp_path / "b.tar", tmp_path / "again.tail")
    memory = tmp_path / "again.tail" / "private" / "memory"
    assert any(file.is_file() for file in memory.rglob("*"))
