"""Every sink keeps its promises, and a broken one is caught by name."""

import pytest

from tailrace import StateError, sinks
from tailrace.checks import check_sink


@pytest.mark.parametrize("kind", ["CsvFolder", "ParquetFolder"])
def test_folders_keep_every_promise(tmp_path, kind):
    check_sink(lambda: getattr(sinks, kind)(tmp_path / "out"))


def test_a_table_of_a_database_keeps_every_promise(tmp_path):
    check_sink(lambda: sinks.SqlTable(f"sqlite:///{tmp_path}/out.db", "ward"))


def test_a_memory_keeps_every_promise():
    memory = sinks.Memory()
    check_sink(lambda: memory)


class Half(sinks.Memory):
    """Holds a step before its rows are read."""

    def put(self, release):
        self.releases.setdefault(release.step, release)
        super().put(release)


class Replacing(sinks.Memory):
    """Takes another release of a step."""

    def put(self, release):
        self.releases.pop(release.step, None)
        super().put(release)


class Once(sinks.Memory):
    """Refuses a release that it has."""

    def put(self, release):
        if release.step in self.releases:
            raise StateError("This step is here.")
        super().put(release)


class Filled(sinks.Memory):
    """Says that it holds every step up to the last."""

    def holds(self):
        return set(range(1, max(self.releases, default=0) + 1))


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (Half, "whole, or not at all"),
        (Replacing, "another release of a step that is held is refused"),
        (Filled, "the steps that it has, and no others"),
    ],
)
def test_a_broken_sink_is_caught(made, sentence):
    sink = made()
    with pytest.raises(AssertionError, match=sentence):
        check_sink(lambda: sink)


def test_a_sink_that_refuses_a_release_it_has_is_caught():
    sink = Once()
    with pytest.raises(StateError):
        check_sink(lambda: sink)


def test_a_sink_that_forgets_is_caught():
    with pytest.raises(AssertionError, match="for a new process too"):
        check_sink(sinks.Memory)
