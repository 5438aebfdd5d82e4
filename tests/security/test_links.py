"""A stream's folder from someone else: no link in it is followed, and what was loosened is refused
with the fix.
"""

import os
import shutil

import pytest
from typer.testing import CliRunner

from samples import DAY, ward
from tailrace import StateError, Stream, User
from tailrace.cli import app
from tailrace.sinks import CsvFolder
from tailrace.stream.verify import verify_stream


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A stream of one step and its ledger, made once."""
    folder = tmp_path_factory.mktemp("made")
    people = ward(unit=User(column="id", events=2))
    with Stream.create(folder / "ward.tail", people, population="ward") as stream:
        stream.push(DAY)
    return folder


@pytest.fixture
def path(made, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "ward.tail"


@pytest.fixture
def others(tmp_path):
    """Folders and files that are none of the stream's."""
    for name in ("thesis", "photos"):
        (tmp_path / "others" / name).mkdir(parents=True)
        (tmp_path / "others" / name / "header").write_text("mine")
    return tmp_path / "others"


def intact(others):
    files = sorted(file for file in others.rglob("*") if file.is_file())
    names = [str(file.relative_to(others)) for file in files]
    return names == ["photos/header", "thesis/header"] and all(
        file.read_text() == "mine" for file in files
    )


def swap(path, target):
    """Put a link in the place of a file or folder."""
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize("command", ["status", "report", "open", "fork"])
def test_a_linked_memory_deletes_no_folder_of_others(path, others, tmp_path, command):
    swap(path / "private" / "memory", others)
    if command in ("open", "fork"):
        with pytest.raises(
            StateError, match=r"^ward\.tail/private/memory is a link or a device.*remove it"
        ):
            Stream.open(path) if command == "open" else Stream.fork(path, tmp_path / "to.tail")
    else:
        more = [] if command == "status" else ["--to", str(tmp_path / "r.html")]
        done = CliRunner().invoke(app, [command, str(path), *more])
        assert (
            done.exit_code == 5
            and "is a link or a device" in done.output
            and "Traceback" not in done.output
        )
    assert intact(others)


@pytest.mark.parametrize(
    "name",
    [
        "private",
        "private/state.db",
        "private/key",
        "private/lock",
        "private/memory/x",
        "private/files.json",
        "releases",
    ],
)
def test_no_link_below_a_stream_is_followed(path, others, name):
    swap(path / name, others / "thesis")
    with pytest.raises(StateError, match=r"is a link or a device"):
        Stream.open(path)
    assert intact(others)


@pytest.mark.parametrize("name", ["private/pipe", "private/memory/pipe", "private/state.db-wal"])
def test_a_pipe_in_the_private_folder_is_refused_and_not_waited_for(path, name):
    (path / name).unlink(missing_ok=True)
    os.mkfifo(path / name, 0o600)
    with pytest.raises(StateError, match="is a link or a device"):
        Stream.open(path)


def test_a_link_that_appears_while_a_stream_is_open_is_not_cleaned_through(path, others):
    with Stream.open(path) as stream:
        swap(path / "private" / "memory", others)
        with pytest.raises(StateError):
            stream.push(DAY)
    assert intact(others)


def test_erasing_removes_a_link_and_not_what_it_leads_to(path, others):
    stream = Stream.open(path)
    (path / "private" / "album").symlink_to(others)
    swap(path / "private" / "memory", others)
    stream.close(erase=True)
    assert intact(others) and not (path / "private").exists()


def test_a_release_that_is_a_link_is_a_different_file(path, others):
    swap(path / "releases/log/000001.json", others / "thesis" / "header")
    with pytest.raises(StateError, match="is another file"):
        verify_stream(path)
    (path / "releases/log/000001.json").unlink()
    Stream.open(path).close()
    swap(path / "releases/added", others / "thesis")
    with pytest.raises(StateError, match="releases/added is a link or a file"):
        Stream.open(path)
    assert intact(others)


def test_a_file_of_the_stream_that_is_a_link_is_neither_read_nor_published(path, others):
    for file in (path / "private/files").iterdir():
        swap(file, others / "thesis" / "header")
    shutil.rmtree(path / "releases")
    with pytest.raises(StateError):
        Stream.open(path)
    assert intact(others) and not list((path / "releases").glob("log/*"))


def test_a_link_of_ones_own_beside_the_releases_is_left_alone(path):
    (path / "releases" / "latest").symlink_to("log")
    Stream.open(path).close()
    assert (path / "releases" / "latest").is_symlink()


def test_what_is_announced_is_never_written_through_a_link(path, tmp_path):
    swap(path / "releases/README.md", tmp_path / "planted README.md")
    Stream.open(path).close()
    swap(path / "releases/guarantee.json", tmp_path / "planted guarantee.json")
    with pytest.raises(StateError, match="is another file"):
        Stream.open(path)
    assert not list(tmp_path.glob("planted*"))


def test_a_planted_partial_file_is_replaced_and_not_written_through(tmp_path, others):
    path = tmp_path / "latest.tail"
    with Stream.create(path, ward(), population="latest", full="latest") as stream:
        stream.push(DAY)
        (path / "releases/.latest.parquet.partial").symlink_to(others / "thesis" / "header")
        stream.push(DAY)
    assert intact(others) and not (path / "releases/latest.parquet").is_symlink()


def test_an_export_is_not_written_through_a_planted_link(path, others, tmp_path):
    victim = others / "thesis" / "header"
    (tmp_path / ".x.csv.partial").symlink_to(victim)
    done = CliRunner().invoke(app, ["export", str(path), "--to", str(tmp_path / "x.csv")])
    assert done.exit_code == 0, done.output
    assert (
        intact(others) and (tmp_path / "x.csv").is_file() and not (tmp_path / "x.csv").is_symlink()
    )


def test_a_report_is_not_written_through_a_planted_link(path, others, tmp_path):
    (tmp_path / ".r.html.partial").symlink_to(others / "photos" / "header")
    assert (
        CliRunner().invoke(app, ["report", str(path), "--to", str(tmp_path / "r.html")]).exit_code
        == 0
    )
    assert intact(others) and (tmp_path / "r.html").is_file()


def test_a_sink_is_not_written_through_planted_links(path, others, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / ".README.md.partial").symlink_to(others / "thesis" / "header")
    (out / ".000001.partial").symlink_to(others)
    with Stream.open(path) as stream:
        CsvFolder(out).put(stream.release(1))
        assert CsvFolder(out).holds() == {1} and intact(others)
        os.rename(out / "000001", out / "moved")
        (out / "000001").symlink_to(out / "moved")
        with pytest.raises(StateError, match="holds a different release"):
            CsvFolder(out).put(stream.release(1))


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("private", 0o750),
        ("private", 0o701),
        ("private/key", 0o640),
        ("private/state.db", 0o606),
        ("private/memory", 0o777),
    ],
)
def test_a_loosened_private_file_is_refused_with_the_fix(path, name, mode):
    os.chmod(path / name, mode)
    with pytest.raises(
        StateError,
        match=rf"ward\.tail/{name} may be used by other users.*chmod go= ward\.tail/private ward\.tail/private/\*",
    ):
        Stream.open(path)
    done = CliRunner().invoke(app, ["status", str(path)])
    assert done.exit_code == 5 and "chmod go= ward.tail/private ward.tail/private/*" in done.output
    # A published file has a second name in the private folder; the copy that we test has not.
    public, data = path / "releases/more", (path / "releases/added/000001.parquet").read_bytes()
    (kept,) = (file for file in (path / "private/files").iterdir() if file.read_bytes() == data)
    os.link(kept, public)
    os.system(f"cd {path.parent} && chmod go= ward.tail/private ward.tail/private/*")
    assert public.stat().st_mode & 0o077 == 0o044
    Stream.open(path).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
@pytest.mark.parametrize("name", ["private", "private/key", "private/memory"])
def test_a_private_file_of_another_user_is_refused(path, name):
    os.chown(path / name, 65534, -1)
    with pytest.raises(StateError, match=rf"ward\.tail/{name} belongs to another user.*chown"):
        Stream.open(path)


def test_a_file_of_ones_own_in_the_private_folder_is_closed_by_the_folder(path):
    (path / "private" / "notes.txt").write_text("for the curator")
    Stream.open(path).close()
