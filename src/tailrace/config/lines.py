"""Find the line of each key of a TOML text.

`tomllib` reads the values and forgets the lines. The text is one that `tomllib` accepts, so nothing
is checked here; every path that can be followed in the parsed values (keys, and places in lists)
has its line.
"""

from __future__ import annotations

import bisect
import re
import tomllib

Path = tuple[str | int, ...]

_BLANK = re.compile(r"[ \t]*")
_BETWEEN = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")  # between statements, and inside arrays
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:\\.|[^"\\])*"|'[^']*'""")
_TEXT = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}(?!")|\'\'\'.*?'{3,5}(?!')|"(?:\\.|[^"\\])*"|'[^']*\'''', re.DOTALL
)  # a long text may end with up to two quotes of its own
_OTHER = re.compile(r"[^,\]}#\r\n]*")  # numbers, dates, booleans


def locate(text: str) -> dict[Path, int]:
    """The line, from 1, of every key, table and list item of a valid TOML text.

    >>> locate('[a]\\nb = { c = 1 }')
    {('a',): 1, ('a', 'b'): 2, ('a', 'b', 'c'): 2}
    """
    return _Scan(text).lines


class _Scan:
    """One pass over the text; `place` is what is read next."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0
        self.breaks = [found.start() for found in re.finditer("\n", text)]
        self.lines: dict[Path, int] = {}
        self.repeated: dict[Path, int] = {}  # [[tables]], and how many there are so far
        table: Path = ()
        self._skip(_BETWEEN)
        while self.place < len(text):
            if text[self.place] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BETWEEN)

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.place)
        assert found is not None, "the text is not TOML"
        self.place = found.end()
        return found.group()

    def _take(self, mark: str) -> bool:
        """Step over `mark` if it comes next."""
        here = self.text.startswith(mark, self.place)
        self.place += len(mark) if here else 0
        return here

    def _header(self) -> Path:
        line, array = self._line(), self.text.startswith("[[", self.place)
        self.place += 2 if array else 1
        *above, last = self._keys()
        self.place += 2 if array else 1
        path = (*self._note((), above, line), last)
        if not array:
            self.lines[path] = line  # also where a table inside it came first
            return path
        self.lines.setdefault(path, line)
        number = self.repeated.get(path, 0)
        self.repeated[path] = number + 1
        self.lines[*path, number] = line
        return (*path, number)

    def _pair(self, table: Path) -> None:
        line = self._line()
        path = self._note(table, self._keys(), line)
        self.place += 1  # the equals sign
        self._skip(_BLANK)
        self._value(path)

    def _value(self, path: Path) -> None:
        if self._take("["):
            self._array(path)
        elif self._take("{"):
            self._inline(path)
        else:
            self._skip(_TEXT if self.text[self.place] in "\"'" else _OTHER)

    def _array(self, path: Path) -> None:
        number = 0
        self._skip(_BETWEEN)
        while not self._take("]"):
            self.lines[*path, number] = self._line()
            self._value((*path, number))
            number += 1
            self._comma()

    def _inline(self, path: Path) -> None:
        self._skip(_BETWEEN)
        while not self._take("}"):
            self._pair(path)
            self._comma()

    def _comma(self) -> None:
        self._skip(_BETWEEN)
        self._take(",")
        self._skip(_BETWEEN)

    def _keys(self) -> list[str]:
        """A dotted key, its parts without their quotes."""
        keys: list[str] = []
        while not keys or self._take("."):
            self._skip(_BLANK)
            key = self._skip(_KEY)
            keys.append(tomllib.loads(f"key = {key}")["key"] if key[0] in "\"'" else key)
            self._skip(_BLANK)
        return keys

    def _note(self, path: Path, keys: list[str], line: int) -> Path:
        """The path of a dotted key below `path`, whose new parts stand on `line`."""
        for key in keys:
            path = (*path, key)
            self.lines.setdefault(path, line)
            # A table below [[tables]] belongs to the last of them.
            if path in self.repeated:
                path = (*path, self.repeated[path] - 1)
        return path

    def _line(self) -> int:
        return bisect.bisect_left(self.breaks, self.place) + 1
