"""Pack streams of a version into a file that later ones must open."""

import tarfile
from pathlib import Path


def keep(folder: Path, name: str) -> None:
    """Write all that a folder holds into `name`, beside this script, without owners."""
    made = Path(__file__).with_name(name)
    with tarfile.open(made, "w:gz") as archive:
        for one in sorted(folder.iterdir()):
            archive.add(one, one.name, filter=_nobody)
    print(f"{made.name}: {made.stat().st_size:,} bytes")


def _nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
