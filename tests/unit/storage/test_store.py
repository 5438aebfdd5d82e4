"""Values of a store: small ones in the database, large and published ones in files."""

import contextlib
import os

import pytest

from tailrace.errors import Corrupt
from tailrace.storage import durable
from tailrace.storage import store as store_module
from tailrace.storage.store import Store, keyed

LARGE = bytes(range(256)) * 40


@pytest.fixture
def folder(tmp_path):
    stream = tmp_path / "a.tail"
    stream.mkdir()
    with Store.create(stream / "private", keyed(bytes(32))) as change:
        change.put("small", {"a": 1})
        change.put("large", LARGE)
        change.keep("kept", b"public")
    return stream / "private"


def files(folder):
    return sorted(os.listdir(folder / "files"))


class Cut(BaseException):
    pass


def test_a_value_is_where_it_belongs_and_comes_back(folder):
    store = Store(folder)
    assert store.json("small") == {"a": 1} and store.bytes("large") == LARGE
    assert store.file("kept").read_bytes() == b"public" and len(files(folder)) == 2
    assert oct(store.file("kept").stat().st_mode)[-3:] == "444"
    assert oct(store.file("large").stat().st_mode)[-3:] == "600"
    assert store.names("none") == [] and store.has("small") and not store.has("other")
    assert store.check() == 4
    store.close()


def test_what_is_replaced_or_erased_is_overwritten_and_removed(folder, monkeypatch):
    store = Store(folder)
    held = os.open(store.file("large"), os.O_RDONLY)
    with store.transaction("change") as change:
        change.put("large", LARGE[::-1])
        change.put("open/1", LARGE)
        change.put("open/2", b"x")
    assert set(os.pread(held, len(LARGE), 0)) == {0}, "who still holds the file finds zeros"
    os.close(held)
    assert store.bytes("large") == LARGE[::-1] and len(files(folder)) == 3
    with store.transaction("change") as change:
        change.erase("open")
        change.put("large", LARGE[::-1])
    assert not store.names("open") and store.bytes("large") == LARGE[::-1]
    assert len(files(folder)) == 2, "set to what it is, it stays"
    store.close()


def test_a_published_file_is_never_overwritten(folder, tmp_path):
    store = Store(folder)
    durable.link(store.file("kept"), tmp_path / "public")
    with store.transaction("change") as change:
        change.erase("kept")
    assert (tmp_path / "public").read_bytes() == b"public" and len(files(folder)) == 1
    store.close()


@pytest.mark.parametrize("name", ["file, after", "change, before"])
def test_files_of_a_transaction_that_was_cut_off_are_removed(folder, monkeypatch, name):
    def stop(point):
        if point == name:
            raise Cut

    store, before = Store(folder), files(folder)
    monkeypatch.setattr(durable, "hook", stop)
    with pytest.raises(Cut), store.transaction("change") as change:
        change.put("more", LARGE)
    monkeypatch.setattr(durable, "hook", None)
    store.close()
    assert len(files(folder)) == 3
    store = Store(folder)
    assert files(folder) == before and store.bytes("large") == LARGE
    store.close()


def test_a_file_that_is_missing_or_changed_is_told(folder):
    store = Store(folder)
    large = store.file("large")
    large.write_bytes(LARGE[:-1])
    with pytest.raises(Corrupt, match="'large' in private is damaged"):
        store.bytes("large")
    large.unlink()
    for ask in (store.bytes, store.file):
        with pytest.raises(Corrupt, match="private/files lacks a file"):
            ask("large")
    store.close()


def test_nothing_is_removed_on_the_word_of_a_damaged_table(folder):
    """A digest that was changed would make two files look unused."""
    store = Store(folder)
    store._clean = False
    kept = store.file("kept")
    kept.rename(kept.with_name("00" * 32))
    store.close()
    with pytest.raises(Corrupt, match="private/files lacks a file"):
        Store(folder)
    assert len(files(folder)) == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_what_was_not_wiped_is_wiped_at_the_next_opening(folder, monkeypatch, error):
    """Also where the process went on, and closed the store as it should."""
    store, wiped = Store(folder), store_module._wipe

    def stop(path):
        if error is KeyboardInterrupt:
            raise error

    monkeypatch.setattr(store_module, "_wipe", stop)
    large = store.file("large")
    with contextlib.suppress(KeyboardInterrupt), store.transaction("change") as change:
        change.erase("large")
    monkeypatch.setattr(store_module, "_wipe", wiped)
    with store.transaction("another") as change:
        change.put("small", 2)
    store.close()
    assert large.exists()
    Store(folder).close()
    assert not large.exists() and len(files(folder)) == 1


def test_a_value_set_twice_leaves_one_file(folder):
    store = Store(folder)
    with store.transaction("change") as change:
        change.put("large", LARGE[1:])
        change.put("large", LARGE[2:])
        change.erase("large")
        change.put("large", LARGE[1:])
    assert store.bytes("large") == LARGE[1:] and len(files(folder)) == 2
    store.close()
