"""What became of the files of a folder: for `tailrace status --private`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tailrace.cli.check import examined
from tailrace.config.models import Config
from tailrace.config.opening import shelf, used
from tailrace.errors import ConfigError, DataError


def files_now(config: Config | None) -> dict[str, dict[str, Any]]:
    """Each file with the step since which it is used, whether it was changed after that, and its
    rows as they are now.
    """
    if config is None:
        raise ConfigError(
            "--private looks at the files of the source: name the stream.toml, not the stream's "
            "folder."
        )
    if config.source.kind != "Folder":
        return {}
    known = used(config).files
    found = {file.name: file.path for file in shelf(config.source).found()}
    shown = {}
    for name in sorted({*known, *found}):
        use, path = known.get(name), found.get(name)
        if path is None:
            state = "gone"
        elif use is None:
            state = "not used yet"
        else:
            what = "closed steps keep what they had" if use.times is not None else "ignored"
            state = f"changed after use: {what}" if use.differs(path) else "used"
        shown[name] = {"since": use.since if use else None, "state": state, **_rows(config, path)}
    return shown


def _rows(config: Config, path: Path | None) -> dict[str, Any]:
    nothing: dict[str, Any] = {"rows": None, "dropped": None, "problem": None}
    if path is None:
        return nothing
    try:
        found = examined(config, path)
    except DataError as error:
        return {**nothing, "problem": str(error)}
    return {**nothing, "rows": found.rows, "dropped": found.dropped}
