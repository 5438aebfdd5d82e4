"""A crafted or damaged private/state.db is one sentence, and never a trace or a wait without
end.
"""

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3

import pytest
from typer.testing import CliRunner

from samples import DAY, ward
from tailrace import (
    Corrupt,
    StateError,
    Stream,
)
from tailrace.cli import app
from tailrace.storage import durable
from tailrace.storage.store import loses_commits
from tailrace.stream.verify import verify_public, verify_stream


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A stream of one step and its ledger, made once."""
    folder = tmp_path_factory.mktemp("made")
    with Stream.create(folder / "ward.tail", ward(), population="ward") as stream:
        stream.push(DAY)
    return folder


@pytest.fixture
def path(made, tmp_path):
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy" / "ward.tail"


@contextlib.contextmanager
def database(path):
    with contextlib.closing(sqlite3.connect(path / "private" / "state.db")) as file:
        yield file
        file.commit()


def put(path, name, data):
    """A value with a right digest, as whoever crafts the file would write it."""
    digest = hashlib.blake2b(name.encode() + b"\0" + data, digest_size=32).digest()
    with database(path) as file:
        file.execute("INSERT OR REPLACE INTO value VALUES (?, ?, ?)", (name, data, digest))


def one_sentence(path, kinds=Corrupt):
    """What opening, status and report say: a sentence each, of the stream's own errors, and no
    trace.
    """
    with pytest.raises(kinds) as refused:
        Stream.open(path)
    assert "\n" not in str(refused.value)
    for command in ("status", "report", "export"):
        more = [] if command == "status" else ["--to", str(path.parent / f"{command}.csv")]
        done = CliRunner().invoke(app, [command, str(path), *more])
        assert "Traceback" not in done.output and "fault of Tailrace" not in done.output, (
            command,
            done.output,
        )
    return str(refused.value)


SCHEMAS = {
    "a view for the table": [
        "ALTER TABLE value RENAME TO old",
        "CREATE VIEW value AS SELECT * FROM old",
    ],
    "a view without end": [
        "ALTER TABLE value RENAME TO old",
        "CREATE VIEW value AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT name, data, digest FROM old, n WHERE i < 0",
    ],
    "a view of itself": ["DROP TABLE value", "CREATE VIEW value AS SELECT * FROM value"],
    "a trigger": ["CREATE TRIGGER t AFTER INSERT ON value BEGIN DELETE FROM value; END"],
    "a table more": ["CREATE TABLE more (a)"],
    "an index over an expression": ["CREATE INDEX slow ON value (length(data))"],
    "another table": ["DROP TABLE value", "CREATE TABLE value (name, data, digest)"],
    "a generated column": [
        "ALTER TABLE value RENAME TO old",
        "CREATE TABLE value (name TEXT, data BLOB, digest BLOB, more AS (length(data)))",
    ],
    "nothing": ["DROP TABLE value"],
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_any_other_table_is_refused_before_it_is_run(path, name):
    with database(path) as file:
        for statement in SCHEMAS[name]:
            file.execute(statement)
    assert "does not hold what this version" in one_sentence(path)


@pytest.mark.parametrize("cell", ["a text", 7, 1.5, ""])
@pytest.mark.parametrize("column", ["data", "digest"])
def test_cells_of_another_type_are_damage(path, cell, column):
    with database(path) as file:
        file.execute(f"UPDATE value SET {column} = ? WHERE name = 'about'", (cell,))
    one_sentence(path)


DEEP = b"[" * 100_000 + b"]" * 100_000
JSONS = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"7",
    b'"x"',
    b"{}",
    DEEP,
    b'{"a":' * 900 + b"1" + b"}" * 900,
    b"\xff\xfe",
    b"NaN",
]


@pytest.mark.parametrize("data", JSONS, ids=range(len(JSONS)))
@pytest.mark.parametrize(
    "name", ["about", "standing", "intent", "format", "step/000001/log/000001.json"]
)
def test_wrong_json_is_one_sentence(path, name, data):
    put(path, name, data)
    one_sentence(path, StateError)


ABOUT = [
    *(
        {"mechanism": other}
        for other in (
            None,
            [],
            {},
            {"kind": "Stream"},
            {"kind": "PureDP"},
            {"kind": "PureDP", "a": 1},
        )
    ),
    {"mechanism": {"kind": "HistogramStream", "domain": 3}},
    {"mechanism": {"kind": "Schema", "plain": {"a": {}}}},
    {"mechanism": {"kind": "Event"}},
    *(
        {"calendar": other}
        for other in (3, [], {}, {"kind": "Calendar"}, {"kind": "Calendar", "start": 3})
    ),
    *({"units": other} for other in (None, 3)),
    *({"entry": other} for other in (None, 3, [])),
    *({"noise": other} for other in (None, 3)),
    {"fork": "yes"},
    {"population": None},
]


@pytest.mark.parametrize("change", ABOUT, ids=str)
def test_a_stream_that_says_something_else_about_itself_is_one_sentence(path, change):
    with database(path) as file:
        about = json.loads(
            file.execute("SELECT data FROM value WHERE name = 'about'").fetchone()[0]
        )
    put(path, "about", json.dumps({**about, **change}).encode())
    one_sentence(path)


STANDING = [
    *({"step": step} for step in (-1, True, "1", 1.0, 2, 10**9, 2**63, 10**400, None)),
    *({"segment": name} for name in (3, "../../..", "/etc", "000001-../..", "", "000001-0123456g")),
    {"tag": 3},
    *({name: other} for name in ("log", "public", "private") for other in (None, 3, {"step": 1})),
]


@pytest.mark.parametrize("change", STANDING, ids=str)
def test_a_stream_that_stands_nowhere_is_one_sentence(path, change):
    with database(path) as file:
        held = file.execute("SELECT data FROM value WHERE name = 'standing'").fetchone()[0]
    put(path, "standing", json.dumps({**json.loads(held), **change}).encode())
    one_sentence(path)


@pytest.mark.parametrize(
    "name",
    [
        "private/000000/whole",
        "step/000001/state/000001_whole.bin",
        "step/000001/added/000001.parquet",
        "intent/counts",
    ],
)
@pytest.mark.parametrize(
    "data",
    [b"", b"PK\x05\x06" + bytes(18), b"PAR1" + bytes(40) + b"PAR1", b"PAR1\xff\xff\xff\x7fPAR1"],
)
def test_crafted_states_and_tables_are_one_sentence(path, name, data):
    put(path, name, data)
    if name == "intent/counts":
        put(path, "intent", json.dumps({"step": 2, "nonce": "ab", "segment": None}).encode())
    with pytest.raises(StateError), Stream.open(path) as stream:
        stream.push(DAY)


def test_a_published_file_that_was_changed_at_equal_length_is_noticed(path):
    file = path / "releases/added/000001.parquet"
    before, stamp = file.read_bytes(), file.stat()
    changed = bytearray(before)
    changed[len(changed) // 2] ^= 1
    file.chmod(0o644)
    file.write_bytes(changed)
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with pytest.raises(Corrupt, match=r"^releases/added/000001\.parquet is missing or is not"):
        verify_public(path / "releases")
    with pytest.raises(StateError, match="is another file than the one that was published"):
        verify_stream(path)
    file.write_bytes(before)
    assert verify_stream(path).steps == 1


@pytest.mark.parametrize("name", ["erase, before", "erase, after", "erased"])
def test_an_erasure_that_was_cut_off_is_finished_at_the_next_opening(path, monkeypatch, name):
    class Cut(BaseException):
        pass

    def cut(passed):
        if passed == name:
            raise Cut

    stream = Stream.open(path)
    monkeypatch.setattr(durable, "hook", cut)
    with pytest.raises(Cut):
        stream.close(erase=True)
    monkeypatch.setattr(durable, "hook", None)
    if name == "erase, before":  # nothing was removed, so it is a whole stream still
        with Stream.open(path) as again:
            assert again.step == 1
            again.close(erase=True)
    with pytest.raises(StateError, match="it was erased, and only its releases are there"):
        Stream.open(path)
    assert (
        sorted(os.listdir(path)) == ["releases"] and (path / "releases/log/000001.json").is_file()
    )


def test_an_erasure_that_an_earlier_version_left_half_done_says_what_to_do(path):
    (path / "private" / "state.db").unlink()
    with pytest.raises(StateError, match=r"being erased, remove ward\.tail/private by hand"):
        Stream.open(path)


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        *(
            (v, True)
            for v in ((3, 40, 1), (3, 44, 5), (3, 45, 0), (3, 50, 4), (3, 50, 6), (3, 51, 2))
        ),
        *(
            (v, False)
            for v in ((3, 44, 6), (3, 50, 7), (3, 51, 3), (3, 52, 0), (3, 53, 1), (4, 0, 0))
        ),
    ],
)
def test_versions_of_sqlite_that_can_lose_a_commit_are_known(version, affected):
    assert loses_commits(version) is affected


def test_only_the_store_writes_the_database(path):
    """`status` looks while another process has the stream open, through a connection that can
    neither write nor cut.
    """
    with Stream.open(path) as stream:
        assert CliRunner().invoke(app, ["status", str(path)]).exit_code == 0
        stream.push(DAY)
        assert CliRunner().invoke(app, ["status", str(path)]).exit_code == 0
    names = sorted(file.name for file in (path / "private").iterdir())
    assert names == ["files", "key", "lock", "memory", "state.db"]


def named_file(path, name, data, digest=None):
    """A value in a file of its own."""
    right = hashlib.blake2b(name.encode() + b"\0" + data, digest_size=32).digest()
    (path / "private/files" / right.hex()).write_bytes(data)
    with database(path) as file:
        row = (name, None, right if digest is None else digest)
        file.execute("INSERT OR REPLACE INTO value VALUES (?, ?, ?)", row)


@pytest.mark.parametrize("name", ["../../planted", "/{}/planted", "planted", "log/000002.json"])
def test_a_crafted_name_is_not_published(path, name):
    named_file(path, "said/" + name.format(path.parent), b"planted")
    one_sentence(path)
    assert not list(path.parent.rglob("planted"))
    assert not (path / "releases/log/000002.json").exists()


@pytest.mark.parametrize("digest", ["text", 7, 1.5, b"", bytes(31), bytes(400)])
@pytest.mark.parametrize("killed", [False, True])
def test_crafted_digests_of_files_are_one_sentence(path, digest, killed):
    named_file(path, "said/guarantee.json", b"{}", digest)
    (path / "private/lock").write_bytes(b"in use" if killed else b"")
    one_sentence(path)


@pytest.mark.parametrize("name", ["open/x", "open/"])
def test_a_crafted_name_of_a_part_is_one_sentence(path, name):
    put(path, name, b"{}")
    one_sentence(path)


@pytest.mark.parametrize("data", [b"null", b'"x"', b"["])
def test_a_crafted_key_is_one_sentence_for_a_fork(path, data):
    put(path, "key/ab", data)
    put(path, "intent", json.dumps({"step": 2, "nonce": "ab", "segment": None}).encode())
    with pytest.raises(Corrupt):
        Stream.fork(path, path.parent / "fork")


def test_a_log_without_end_is_not_read(path):
    """An entry that reads from long before the first step, and a step far away."""
    file = json.loads((path / "releases/log/000001.json").read_bytes())
    entry = json.dumps({**file, "from": -(10**12)}).encode()
    put(path, "step/000001/log/000001.json", entry)
    with database(path) as values:
        held = values.execute("SELECT data FROM value WHERE name = 'standing'").fetchone()[0]
    standing = json.loads(held)
    standing["log"]["entry"] = hashlib.blake2b(entry, digest_size=32).hexdigest()
    put(path, "standing", json.dumps(standing).encode())
    with pytest.raises(StateError), Stream.open(path) as stream:
        stream.push(DAY)
    far = 10**15
    put(path, f"step/{far}/log/{far}.json", entry)
    standing["step"] = standing["log"]["step"] = far
    put(path, "standing", json.dumps(standing).encode())
    one_sentence(path)


@pytest.mark.parametrize("time", [{}, None, [1], {"time": 5}, {"time": "never"}])
def test_a_crafted_time_of_a_step_is_one_sentence(path, time):
    held = json.loads((path / "releases/log/000001.json").read_bytes())
    entry = json.dumps({**held, "provenance": time}).encode()
    put(path, "step/000001/log/000001.json", entry)
    with database(path) as values:
        held = values.execute("SELECT data FROM value WHERE name = 'standing'").fetchone()[0]
    standing = json.loads(held)
    standing["log"]["entry"] = hashlib.blake2b(entry, digest_size=32).hexdigest()
    put(path, "standing", json.dumps(standing).encode())
    (path / "releases/log/000001.json").unlink()
    one_sentence(path)
    with pytest.raises(Corrupt):
        verify_stream(path)
