"""`tailrace verify`: check what was published, and what is kept."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from tailrace.cli import say
from tailrace.cli.status import Place
from tailrace.stream.verify import verify_public, verify_stream


def verify_path(path: Path, *, json: bool) -> None:
    """Check a stream, or a folder with its releases alone."""
    public = path.is_dir() and not (path / "private").is_dir() and (path / "log").is_dir()
    found = verify_public(path) if public else verify_stream(Place.of(path).folder)
    if json:
        return say.as_json(asdict(found))
    say.tell(
        f"All is as it was published: {found.steps} steps, {found.files} files, {found.rows} rows "
        f"at the last step."
        + ("" if found.values is None else f" All {found.values} values in private are whole.")
    )
    return say.tell(f"The last entry of the log is {found.entry}.") if found.entry else None
