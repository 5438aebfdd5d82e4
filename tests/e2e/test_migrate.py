"""Streams of format 2, made by an earlier version, are brought over whole."""

import json
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tailrace import Mismatch, StateError, Stream
from tailrace.cli import app
from tailrace.ledger import Ledger
from tailrace.storage import durable
from tailrace.stream.migrate import migrate
from tailrace.stream.verify import verify_public, verify_stream

ARCHIVE = Path(__file__).parents[1] / "security" / "format2.tar.gz"
NAMES = {"ward": 5, "city": 5, "table": 4, "panel": 4, "census": 4}


def unpacked(folder):
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="tar")
    return folder


def digest(frame):
    import hashlib

    return hashlib.sha256(repr(frame.rows()).encode()).hexdigest()


def released(stream, steps):
    """Digests of table, rows added and rows removed, as `make_format2.py` took them."""
    found = {}
    for step in range(1, steps + 1):
        release = stream.release(step)
        parts = (release.table, release.changes.added, release.changes.removed)
        found[str(step)] = [digest(part) for part in parts]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_is_brought_over_with_its_releases_promise_and_charge(tmp_path, name):
    path = unpacked(tmp_path) / f"{name}.tail"
    entries, promise = Ledger(tmp_path / "tailrace.ledger").entries(name), path / "releases"
    said = (promise / "guarantee.json").read_bytes()
    with pytest.raises(Mismatch, match="bring it over with tailrace migrate"):
        Stream.open(path)
    done = CliRunner().invoke(app, ["migrate", str(path)])
    assert done.exit_code == 0, done.output
    assert f"{name}.tail is brought over with its 4 steps" in done.output
    expected = json.loads((tmp_path / f"{name}.json").read_text())
    with Stream.open(path) as stream:
        assert stream.step == NAMES[name], "a step cut off is finished"
        assert released(stream, 4) == expected
        stream.push(None)
    assert (path / "releases" / "guarantee.json").read_bytes() == said
    assert "added/*.parquet" in (path / "releases" / "README.md").read_text()
    (after,) = Ledger(tmp_path / "tailrace.ledger").entries(name)
    assert after.mark.step == NAMES[name] + 1
    assert [(one.id, one.guarantee) for one in entries] == [(after.id, after.guarantee)]
    assert verify_stream(path).steps == verify_public(path / "releases").steps == after.mark.step
    with pytest.raises(StateError, match="not a stream of format 2"):
        migrate(path)


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_cut_off_anywhere_it_is_finished_by_trying_again(tmp_path, monkeypatch, every):
    class Cut(BaseException):
        pass

    passed = []
    monkeypatch.setattr(durable, "hook", passed.append)
    migrate(unpacked(tmp_path / "whole") / "ward.tail")
    assert {"set aside, before", "set aside, after", "migrate, before", "migrated"} <= set(passed)
    renames = [number for number, name in enumerate(passed) if not name.startswith("file")]
    for number in sorted({*range(0, len(passed), every), *renames}):
        left = [number]

        def stop(_, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise Cut

        path = unpacked(tmp_path / str(number)) / "ward.tail"
        monkeypatch.setattr(durable, "hook", stop)
        with pytest.raises(Cut):
            migrate(path)
        monkeypatch.setattr(durable, "hook", None)
        try:  # also by opening, once the new folder was whole
            Stream.open(path).close()
        except Mismatch:
            migrate(path)
        with Stream.open(path) as stream:
            expected = json.loads((path.parent / "ward.json").read_text())
            assert released(stream, 4) == expected, passed[number]
        assert sorted(one.name for one in path.iterdir()) == ["private", "releases"]
