"""`tailrace query`: ask a public folder, in words."""

from __future__ import annotations

import os
from pathlib import Path

from tailrace.ask import Releases, open_releases
from tailrace.cli import say
from tailrace.cli.status import Place
from tailrace.mechanisms.base import Estimate


def answer(where: str, question: str, step: int | None, *, json: bool) -> None:
    """Answer a question with its standard error, from public files alone."""
    releases = opened(where)
    found, at = releases.ask(question, step), releases.step if step is None else step
    low, high = found.value - 1.96 * found.error, found.value + 1.96 * found.error
    if json:
        told = {"value": found.value, "error": found.error, "low": low, "high": high}
        return say.as_json({"step": at, "period": releases.period(at), **told})
    period = releases.period(at)
    when = f"step {at}" + (f" ({period})" if period else "")
    ends = (str(Estimate(end, found.error)).partition(" ")[0] for end in (low, high))
    say.tell(f"{found}", f"95 %: {' to '.join(ends)}, at {when}.")
    return None


def opened(where: str) -> Releases:
    """The releases of a stream.toml, a stream's folder, a public folder or an address."""
    if where.endswith(".toml") and os.path.isfile(where):
        return open_releases(Place.of(Path(where)).folder / "releases")
    return open_releases(where)
