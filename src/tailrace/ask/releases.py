"""A public folder of releases, read without any private part."""

from __future__ import annotations

import functools
import io
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from tailrace.ask import answers
from tailrace.ask.answers import Marginal
from tailrace.ask.place import Place, place_of
from tailrace.ask.question import Question, read_question
from tailrace.calendar import Calendar
from tailrace.calls import told
from tailrace.domain import Schema
from tailrace.errors import ConfigError, Corrupt, StateError
from tailrace.mechanisms.base import Estimate, Mechanism
from tailrace.privacy.guarantee import Guarantee
from tailrace.registry import Named
from tailrace.storage.codec import from_plain
from tailrace.stream.log import digest_of, files_of, states_of
from tailrace.stream.release import Changes, Kind, facts
from tailrace.stream.state import chained

if TYPE_CHECKING:
    import polars as pl

# The libraries that tables may be read into.
Frames = Literal["polars", "pandas", "pyarrow"]


@told
def open_releases(where: str | os.PathLike[str], *, frames: Frames = "polars") -> Releases:
    """Open a public folder, on disk or at an address.

    Parameters
        where: `releases/` of a stream, a copy of it, or an address such as
            "https://example.org/ward/". A stream's own folder will do.
        frames: the library whose tables come out.

    >>> open_releases("nowhere", frames="pandas")
    Traceback (most recent call last):
    tailrace.errors.StateError: nowhere holds no releases: name the folder where log/ is.
    """
    if frames not in get_args(Frames):
        raise ConfigError(f"frames must be one of {', '.join(get_args(Frames))}.")
    return Releases(place_of(where), frames)


class Releases:
    """Published releases, and answers from them.

    Each file is compared with its digest in the log when it is read. Estimates come with standard
    errors, from the noisy measurements themselves and not from the synthetic rows.
    """

    def __init__(self, place: Place, frames: Frames = "polars") -> None:
        self._place, self._frames = place, frames
        self._entries: dict[int, dict[str, Any]] = {}
        self.step = place.last()
        if not self.step:
            raise StateError(f"{place.name} holds no releases: name the folder where log/ is.")

    @functools.cached_property
    def guarantee(self) -> Guarantee:
        """What is promised."""
        plain = dict(self.said("guarantee"))
        plain.pop("sentence", None)
        return self._made(lambda: Guarantee.from_dict(plain))

    @functools.cached_property
    def domain(self) -> Any:
        """The columns, and the values that they can take."""
        return self._made(lambda: from_plain(self.said("codebook"), Named()))

    @functools.cached_property
    def calendar(self) -> Calendar | None:
        """The period that each step stands for, where that was said."""
        if self._place.find("calendar.json") is None:
            return None
        kinds = {"Calendar": Calendar}
        return self._made(lambda: from_plain(self.said("calendar"), kinds))

    @functools.cached_property
    def mechanism(self) -> Mechanism:
        """What made the releases, with all settings."""
        plain = {**self.said("mechanism"), "domain": self.said("codebook")}
        return self._made(lambda: from_plain(plain, Named()))

    @property
    def version(self) -> str:
        """The version of Tailrace that made the last release."""
        return str(self._entry(self.step).get("provenance", {}).get("tailrace", "unknown"))

    def said(
        self, name: Literal["guarantee", "codebook", "mechanism", "calendar"]
    ) -> dict[str, Any]:
        """What holds for all steps, in plain values; the log has its digest."""
        file = f"{name}.json"
        listed = file in self._entry(1)["files"]
        return self._json(file, self._file(1, file) if listed else None)

    def period(self, step: int | None = None) -> str | None:
        """The period of a step, in words; None without a calendar."""
        return None if self.calendar is None else self.calendar.label(self._at(step))

    def table(self, step: int | None = None) -> Any:
        """The synthetic table of a step, by default the last."""
        return self._given(self._rows(self._at(step)).drop("\0row"))

    def changes(self, since: int, step: int | None = None) -> Changes:
        """The rows that came and went from one step to another.

        `since` may be 0, before the first step.
        """
        at = self._at(step)
        if not 0 <= since <= at:
            raise ConfigError(f"since must be a step from 0 to {at}.")
        now = self._rows(at)
        before = self._rows(since) if since else now.clear()
        row = "\0row"
        added, removed = (
            one.join(other, on=row, how="anti", maintain_order="left").drop(row)
            for one, other in ((now, before), (before, now))
        )
        return Changes(added=self._given(added), removed=self._given(removed))

    def view(self, step: int | None = None) -> Any:
        """The view of a step, as `release.view`; None before anything was measured."""
        at = self._at(step)

        def find(k: int, end: int) -> bytes | None:
            name = states_of(k)[end]
            return self._file(k, name) if k and name in self._entry(k)["files"] else None

        if not any(name in self._entry(at)["files"] for name in states_of(at)):
            raise StateError(
                f"Step {at} was published by an earlier version, without its measurements: ask of "
                "a later step, or count rows of its table."
            )
        mechanism = self.mechanism
        return self._made(lambda: mechanism.view(chained(find, at, mechanism.init().public)))

    def count(self, step: int | None = None, /, **where: Any) -> Estimate:
        """Estimate how many records match.

        `count(district=3, age=(60, 79))`: a tuple is a range, both ends included; a list is any of
        its values. Of places, ranges of coordinates; of a panel, values at the step. The step may
        stand first.
        """
        return answers.count(*self._asked(step), where)

    def proportion(self, step: int | None = None, /, **where: Any) -> Estimate:
        """Estimate the share of records that match.

        Unless the view knows better, the error adds up that of the count and that of the total,
        which holds however the two depend on each other.
        """
        return answers.proportion(*self._asked(step), where)

    def total(self, column: str, step: int | None = None, /, **where: Any) -> Estimate:
        """Add up an amount over the records that match: `total("price", district=3)`.

        Conditions are those of `count`. The step may stand second.
        """
        return answers.with_amounts(self._measured(step)).total(column, **where)

    def mean(self, column: str, step: int | None = None, /, **where: Any) -> Estimate:
        """Estimate the mean of an amount, with conditions as in `total`.

        Its error holds where the count is large beside its own error.
        """
        return answers.with_amounts(self._measured(step)).mean(column, **where)

    def totals(self, column: str, step: int | None = None) -> Any:
        """The total and the mean of an amount in each group, as a table.

        The columns are those that make groups, `total`, `error`, `mean` and `mean_error`.
        """
        return self._given(answers.totals(self._measured(step), column))

    def marginal(self, *columns: str, step: int | None = None) -> Marginal:
        """Estimate the count of every combination of values: `marginal("sex", "age")`."""
        found = answers.marginal(*self._asked(step), columns)
        return replace(found, frames=self._given)

    def measurements(self, step: int | None = None) -> Any:
        """All noisy measurements of a step, as one tidy table.

        The columns are `what` was counted (names of columns), `cells` (a value of each, as text),
        `value` and `error`, a standard error.
        """
        return self._given(answers.measurements(*self._asked(step)))

    def grown(self, step: int | None = None) -> dict[str, int]:
        """Values of a growing list, with the step after which they count by themselves."""
        return dict(getattr(self._measured(step), "grown", {}))

    def ask(self, question: str | Question, step: int | None = None) -> Estimate:
        """Answer a question in words: `ask("count where age between 60 and 79")`."""
        asked = read_question(question, self.domain) if isinstance(question, str) else question
        if asked.of:
            find = self.total if asked.what == "total" else self.mean
            return find(asked.of, self._at(step), **asked.where)
        find = self.proportion if asked.share else self.count
        return find(self._at(step), **asked.where)

    def __repr__(self) -> str:
        last = self.period()
        return (
            f"<releases of {self.step} step(s)" + (f", the last {last}" if last else "") + ": "
            f"{', '.join(self.domain.columns)}; {self.guarantee.short}>"
        )

    def _repr_html_(self) -> str:
        return facts(
            {
                "steps": str(self.step) + (f" (last: {self.period()})" if self.calendar else ""),
                "columns": ", ".join(self.domain.columns),
                "promise": str(self.guarantee),
            }
        )

    def _asked(self, step: int | None) -> tuple[Any, Any]:
        """The view of a step, and the columns that it counts.

        Not amounts, and with the values taken up so far.
        """
        view = self._measured(step)
        told = getattr(view, "domain", None)
        return view, told if isinstance(told, Schema) else self.domain

    def _measured(self, step: int | None) -> Any:
        view = self.view(step)
        if view is None:
            raise StateError(
                f"Nothing is measured yet at step {self._at(step)}: ask of a later step."
            )
        return view

    def _at(self, step: int | None) -> int:
        if step is None:
            return self.step
        if isinstance(step, bool) or not isinstance(step, int) or not 1 <= step <= self.step:
            raise ConfigError(f"step must be a whole number from 1 to {self.step}.")
        return step

    def _entry(self, step: int) -> dict[str, Any]:
        if step not in self._entries:
            found = self._json(f"log/{step:06d}.json")
            files = found.get("files")
            sound = isinstance(files, Mapping) and all(
                isinstance(one, Mapping) for one in files.values()
            )
            base = found.get("from")
            if not sound or not (base is None or (type(base) is int and 1 <= base <= step)):
                raise _broken(f"log/{step:06d}.json")
            self._entries[step] = found
        return self._entries[step]

    def _file(self, step: int, name: str) -> bytes:
        """A file of a step, as its entry in the log says."""
        data, told_of = self._place.find(name), self._entry(step)["files"].get(name, {})
        if data is None or digest_of(data) != told_of.get("blake2b"):
            raise _broken(name)
        return data

    def _rows(self, step: int) -> pl.DataFrame:
        """The table of a step, with the numbers of rows in a column that no domain has."""
        import polars as pl

        base = self._entry(step)["from"] or 0
        parts = [self._parquet(base, files_of(base)[2])] if base else []
        gone = [np.zeros(0, np.int64)]
        for k in range(base + 1, step + 1):
            added, removed = (self._parquet(k, name) for name in files_of(k)[:2])
            parts.append(added.drop(added.columns[1]))
            gone.append(removed.to_series(0).to_numpy())
        try:
            rows = pl.concat(parts)
        except pl.exceptions.PolarsError:
            raise _broken(files_of(step)[0]) from None
        numbers = rows.to_series(0)
        living = rows.filter(~np.isin(numbers.to_numpy(), np.concatenate(gone)))
        return living.rename({living.columns[0]: "\0row"})

    def _parquet(self, step: int, name: str) -> pl.DataFrame:
        import polars as pl

        try:
            found = pl.read_parquet(io.BytesIO(self._file(step, name)))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            raise _broken(name) from None
        if found.width < 2 or found.dtypes[0] != pl.Int64:
            raise _broken(name)
        return found

    def _given(self, frame: pl.DataFrame) -> Any:
        """A table of the library that was asked for."""
        return Kind(self._frames).given(frame)

    def _json(self, name: str, data: bytes | None = None) -> dict[str, Any]:
        data = self._place.find(name) if data is None else data
        try:
            found = json.loads(data or b"")
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise _broken(name)
        return found

    def _made(self, make: Any) -> Any:
        """What plain values make, or one sentence."""
        try:
            return make()
        except Corrupt:
            raise
        except Exception:
            raise Corrupt(
                f"{self._place.name} was published by another version of Tailrace, or with a part "
                "that is not installed, or is damaged: its tables can still be read."
            ) from None


def _broken(name: str) -> Corrupt:
    return Corrupt(
        f"{name} is missing or is not the file that was published: take it from another copy of "
        "the releases."
    )
