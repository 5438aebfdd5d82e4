"""Where a public folder lies: on disk, or at an address."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from tailrace.errors import ConfigError, StateError, without_password
from tailrace.storage.durable import where as in_full
from tailrace.stream.published import pieces

# Seconds that a server is waited for.
_PATIENCE = 60


class Place(Protocol):
    """A folder of published files."""

    @property
    def name(self) -> str:
        """How it is called in messages."""
        ...

    def find(self, name: str) -> bytes | None:
        """A file's content; None where it is not there."""
        ...

    def last(self) -> int:
        """The last step that is published."""
        ...


class Folder:
    """A public folder on disk."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.name

    def find(self, name: str) -> bytes | None:
        folder, _, file = name.rpartition("/")
        return b"".join(pieces(self.path / folder, file)) or None

    def last(self) -> int:
        try:
            return sum(name.endswith(".json") for name in os.listdir(self.path / "log"))
        except OSError:
            return 0


class Address:
    """A public folder that a server gives out."""

    def __init__(self, url: str) -> None:
        self.url, self.name = url.rstrip("/"), without_password(url)

    def find(self, name: str) -> bytes | None:
        request = Request(f"{self.url}/{quote(name)}", headers={"User-Agent": "tailrace"})
        try:
            with urlopen(request, timeout=_PATIENCE) as answer:
                return answer.read()
        except HTTPError as error:
            if error.code in (403, 404, 410):
                return None
            raise self._away() from None
        except (URLError, OSError, ValueError):
            raise self._away() from None

    def last(self) -> int:
        """Found by halving: a server need not list a folder."""

        def there(step: int) -> bool:
            return self.find(f"log/{step:06d}.json") is not None

        beyond = 1
        while there(beyond):
            beyond *= 2
        known = beyond // 2
        while beyond - known > 1:
            middle = (known + beyond) // 2
            known, beyond = (middle, beyond) if there(middle) else (known, middle)
        return known

    def _away(self) -> StateError:
        return StateError(
            f"{self.name} does not answer: see whether the address is right and the server is up."
        )


def place_of(where: str | os.PathLike[str]) -> Place:
    """The public folder that a path or an address names; a stream's own has it inside."""
    if isinstance(where, str) and where.startswith(("https://", "http://")):
        return Address(where)
    if isinstance(where, str) and "://" in where:
        raise ConfigError("where must name a folder, or begin with https:// or http://.")
    path = in_full(where, "where")
    inside = path / "releases"
    return Folder(inside if (inside / "log").is_dir() else path)
