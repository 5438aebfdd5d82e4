"""A public folder from someone else is checked in full, and never a trace, a wait or much memory.

Whoever crafts one writes right digests and a right chain.
"""

import contextlib
import hashlib
import json
import os
import shutil

import polars as pl
import pytest

from samples import DAY, ward
from tailrace import Corrupt, Noise, StateError, Stream
from tailrace.stream import verify
from tailrace.stream.verify import public_table, verify_public

EMPTY = hashlib.blake2b(digest_size=32).hexdigest()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "w"
    with Stream.create(
        folder, ward(), population="w", full="latest", noise=Noise.insecure(1)
    ) as stream:
        for _ in range(3):
            stream.push(DAY)
    return folder / "releases"


@pytest.fixture
def path(made, tmp_path):
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"


def edit(path, step, files=None, **changes):
    """Change an entry of the log."""
    file = path / f"log/{step:06d}.json"
    entry = {**json.loads(file.read_bytes()), **changes}
    entry["files"].update(files or {})
    file.chmod(0o644)
    file.write_text(json.dumps(entry))


def swap(path, name, change):
    """Change a table."""
    frame = change(pl.read_parquet(path / name))
    (path / name).unlink()
    frame.write_parquet(path / name)


def chain(path):
    """Make all digests right again."""
    before = ""
    for step, file in enumerate(sorted((path / "log").glob("0*.json")), 1):
        files = json.loads(file.read_bytes())["files"]
        there = {name: path / name for name in files if name.isprintable()}
        right = {
            name: {"blake2b": hashlib.blake2b(file.read_bytes(), digest_size=32).hexdigest()}
            for name, file in there.items()
            if file.is_file()
        }
        edit(path, step, right, before=before)
        before = hashlib.blake2b(file.read_bytes(), digest_size=32).hexdigest()


def replaced(path, make):
    path.unlink()
    make(path)


CRAFTED = {
    "more rows than memory": lambda path: edit(path, 1, born=10**12),
    "more rows than numbers": lambda path: edit(path, 1, born=10**40),
    "a checkpoint long ago": lambda path: edit(path, 3, **{"from": -(10**12)}),
    "a checkpoint in between": lambda path: edit(path, 3, **{"from": 1.0}),
    "a name that no file has": lambda path: edit(path, 3, {"a\0b.json": {"blake2b": EMPTY}}),
    "half a letter": lambda path: edit(path, 3, {"\ud800.json": {"blake2b": EMPTY}}),
    "a folder for a file": lambda path: edit(path, 3, {"added": {"blake2b": EMPTY}}),
    "a missing file": lambda path: edit(path, 3, {"more.json": {"blake2b": EMPTY}}),
    "no columns": lambda path: swap(path, "added/000002.parquet", lambda _: pl.DataFrame()),
    "one column": lambda path: swap(path, "added/000002.parquet", lambda rows: rows[:, :1]),
    "another step": lambda path: swap(
        path, "added/000002.parquet", lambda rows: rows.with_columns(pl.col("born") - 1)
    ),
    "numbers as texts": lambda path: swap(
        path, "removed/000002.parquet", lambda rows: rows.with_columns(pl.first().cast(pl.String))
    ),
    "a table in no entry": lambda path: shutil.copy(
        path / "added/000001.parquet", path / "added/zero.parquet"
    ),
    "an entry more": lambda path: (path / "log/more.json").write_text("{}"),
    "an entry less": lambda path: (path / "log/000003.json").unlink(),
    "an old latest table": lambda path: swap(path, "latest.parquet", lambda rows: rows[1:]),
    "a latest table that waits": lambda path: replaced(path / "latest.parquet", os.mkfifo),
    "a latest table elsewhere": lambda path: replaced(
        path / "latest.parquet", lambda link: link.symlink_to(path / "added/000001.parquet")
    ),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_folder_is_refused_in_one_sentence(path, name):
    CRAFTED[name](path)
    chain(path)
    with pytest.raises(Corrupt) as refused:
        verify_public(path)
    assert "\n" not in str(refused.value)
    for step in (1, 2, 3):
        with contextlib.suppress(StateError):
            public_table(path, step)


def test_the_same_folder_with_another_chain_is_whole(path):
    chain(path)
    assert verify_public(path).steps == 3


def test_a_row_is_not_removed_before_its_birth(tmp_path):
    noise = Noise.insecure(1)
    with Stream.create(tmp_path / "w", ward(), population="w", noise=noise) as stream:
        for _ in range(2):
            stream.push(DAY)
    path = tmp_path / "w/releases"
    entries = [json.loads((path / f"log/{step:06d}.json").read_bytes()) for step in (1, 2)]
    last = entries[1]["born"] - 1
    assert last >= entries[0]["born"], "a row was born at step 2"
    early = pl.DataFrame({"row": [last]}).with_columns(died=pl.lit(1, pl.Int32))
    swap(path, "removed/000001.parquet", lambda rows: rows.vstack(early))
    edit(path, 1, rows=entries[0]["rows"] - 1)
    edit(path, 2, rows=entries[1]["rows"] - 1)
    chain(path)
    with pytest.raises(Corrupt, match="not born yet"):
        verify_public(path)


def test_steps_that_are_published_meanwhile_are_no_damage(tmp_path, monkeypatch):
    with Stream.create(tmp_path / "w", ward(), population="w", full="latest") as stream:
        stream.push(DAY)
        look = verify._entry

        def meanwhile(folder, step):
            stream.push(DAY)
            return look(folder, step)

        monkeypatch.setattr(verify, "_entry", meanwhile)
        assert verify_public(tmp_path / "w/releases").steps == 1
