"""Keep releases in memory, for programs and tests."""

from __future__ import annotations

from tailrace.calls import told
from tailrace.sinks.base import check_same, digest
from tailrace.stream.release import Release


@told
class Memory:
    """Keeps the releases themselves, by step, in `releases`.

    >>> Memory().holds()
    set()
    """

    def __init__(self) -> None:
        self.releases: dict[int, Release] = {}

    def holds(self) -> set[int]:
        return set(self.releases)

    def put(self, release: Release) -> None:
        # Reads all of it before any is held.
        name = digest(release)
        if release.step in self.releases:
            check_same(self.releases[release.step], name, "This memory")
        else:
            self.releases[release.step] = release
