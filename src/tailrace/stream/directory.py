"""Make a stream's directory whole, and charge it once."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from tailrace.calendar import Calendar
from tailrace.counting.files import PREFIX
from tailrace.errors import BehindLedger, ConfigError, Error, StateError, Uncapped
from tailrace.ledger import Ledger, Mark, population_name
from tailrace.ledger.file import is_ledger
from tailrace.mechanisms.base import Mechanism
from tailrace.noise import Noise
from tailrace.privacy.guarantee import Guarantee
from tailrace.registry import GROUP, Named
from tailrace.storage.codec import from_plain, to_plain
from tailrace.storage.durable import alone, place, point, remove, sync_all, where, write_file
from tailrace.storage.store import Store, keyed, understood
from tailrace.stream import open as open_step
from tailrace.stream import published, state
from tailrace.stream.log import Full

PathLike = str | os.PathLike[str]
_SEEDED = "NO privacy: made with a known seed"
_UNCHARGED = "not charged to any ledger"


def configuration(mechanism: Mechanism) -> Any:
    """The mechanism in plain values, which make it again."""
    plain, known = to_plain(mechanism), Named()
    try:
        same = from_plain(plain, known) == mechanism
    except (ConfigError, TypeError):
        same = False
    if not same:
        raise ConfigError(
            f"{type(mechanism).__name__} cannot be kept: it does not come back from its "
            f"configuration. Name it and its parts in entry points of the group '{GROUP}' (see "
            "docs/how-to/write-a-mechanism.md), or use it in memory, with Stream(mechanism)."
        )
    return plain


def fingerprint(mechanism: Mechanism) -> str:
    """A short name for a configuration."""
    # The format of configurations, which is older than that of the store.
    plain = json.dumps({"format": 2, "mechanism": to_plain(mechanism)}, sort_keys=True)
    return hashlib.blake2b(plain.encode(), digest_size=16).hexdigest()


def ledger_of(folder: Path, ledger: PathLike | None, *, new: bool = False) -> Ledger:
    """The ledger given, or the one beside the stream.

    `new`: it may be made.
    """
    path = where(ledger, "ledger") if ledger is not None else folder.parent / "tailrace.ledger"
    # Looked for first: another process may make stream and ledger now.
    beside = _spent_beside(folder) if new else []
    if not new and not path.is_file():
        raise BehindLedger(
            f"{folder.name} has no ledger at {path.name}: say with ledger= where the one is that "
            "it was charged to."
        )
    if beside and not path.exists():
        raise BehindLedger(
            f"There is no ledger {path.name}, and {beside[0]} lies beside {folder.name}: a new "
            "ledger would not know what was spent. Name the one that does, or make a new one on "
            "purpose, with Ledger(path) or tailrace ledger cap."
        )
    return Ledger(path, point=point)


def _spent_beside(folder: Path) -> list[str]:
    """The ledgers and streams beside a stream's folder, by name."""

    def spent(path: Path) -> bool:
        marks = (path / "private" / "state.db", path / "releases" / "guarantee.json")
        return any(os.path.isfile(mark) for mark in marks) or (
            path.suffix != ".new" and is_ledger(path)
        )

    try:
        return sorted(
            path.name
            for path in folder.parent.iterdir()
            if not path.name.startswith(".") and spent(path)
        )
    except OSError:
        return []


def checked(mechanism: Any, noise: Noise | None) -> tuple[Mechanism, Noise]:
    """Check the parts of a new stream, and return them."""
    if isinstance(mechanism, type) or not all(
        hasattr(mechanism, part) for part in ("measure", "sample", "guarantee")
    ):
        raise ConfigError(
            "A stream is made of a mechanism, for example HistogramStream(domain=..., privacy=..., "
            "...)."
        )
    if noise is not None and type(noise) is not Noise:
        raise ConfigError("noise must be Noise.fresh(), or Noise.insecure(seed) in a test.")
    return mechanism, noise or Noise.fresh()


def checked_full(full: Full) -> Full:
    """Refuse what does not say when whole tables are published."""
    if full not in get_args(Full):
        raise ConfigError("full must be 'checkpoints', 'latest', 'every' or 'none'.")
    return full


def promise(mechanism: Mechanism, noise: Noise, *, charged: bool) -> Guarantee:
    """The mechanism's guarantee, with the notes it needs."""
    notes = ([] if noise.kind == "fresh" else [_SEEDED]) + ([] if charged else [_UNCHARGED])
    return replace(mechanism.guarantee, notes=tuple(notes))


@understood()
def mechanism_of(about: dict[str, Any]) -> Mechanism:
    """The mechanism that a stream was made with."""
    return from_plain(about["mechanism"], Named())


@understood()
def calendar_of(about: dict[str, Any]) -> Calendar | None:
    """The calendar that a stream was made with."""
    plain = about["calendar"]
    return None if plain is None else from_plain(plain, {"Calendar": Calendar})


def beside_ledger(name: str, step: int, stood: int) -> BehindLedger:
    """The error for a stream whose ledger stands elsewhere."""
    stands = f"{name} stands at step {step}, its ledger at step {stood}:"
    if stood < step:
        return BehindLedger(f"{stands} restore the newest ledger.")
    return BehindLedger(
        f"{stands} it is a copy or an old backup, and going on would release the same data twice. "
        "Use the directory that is up to date, or Stream.fork, which is a new charge."
    )


def unit_key(noise: Noise) -> str:
    """The key of a stream's unit memory, as text."""
    return noise.at("units").keyed_hash(b"units")[:16].hex()


def build(
    path: PathLike,
    mechanism: Mechanism,
    *,
    population: str,
    ledger: PathLike | None,
    noise: Noise,
    standing: state.Standing,
    calendar: Calendar | None = None,
    full: Full = "checkpoints",
    copied: Store | None = None,
    segments: Sequence[Path] = (),
    files: Path | None = None,
    fork_of: dict[str, Any] | None = None,
    after: str | None = None,
) -> None:
    """Make a directory at `standing`, and charge the ledger.

    The charge comes once all is on disk; then the directory is put in place.

    A fork (`fork_of`: the first stream's "about") keeps the key of its unit memory, its releases
    (of the store `copied`) and its source's memory of used files (`files`). After a crash in
    between, the entry of the same path and configuration has no step yet and is used again.
    """
    folder = where(path)
    if not isinstance(population, str) or not population.strip():
        raise ConfigError(
            "population must name whose data these are, for example population='city 2026'."
        )
    checked_full(full)
    population = population_name(population)
    if folder.exists():
        raise StateError(
            f"{folder.name} exists already: open it with Stream.open, or choose another path."
        )
    plain = configuration(mechanism)
    book = ledger_of(folder, ledger, new=fork_of is None)
    if fork_of is not None:
        # The ledger that the first stream is charged to, and no other.
        book.mark(fork_of["entry"])
    units = unit_key(noise) if fork_of is None else fork_of["units"]
    about = {
        "mechanism": plain,
        "population": population,
        "noise": noise.kind,
        "fork": fork_of is not None,
        "units": units,
        "calendar": None if calendar is None else to_plain(calendar),
        "full": full,
        "after": after if fork_of is None else fork_of.get("after"),
    }
    partial = folder.with_name(f".{folder.name}.partial")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with alone(folder.parent):
            remove(partial)
            partial.mkdir()
            with Store.create(partial / "private", keyed(noise.secret)) as change:
                if copied is None:
                    said = published.said(
                        promise(mechanism, noise, charged=True),
                        to_plain(mechanism.domain),
                        about["calendar"],
                        plain,
                    )
                    for name, data in said.items():
                        change.keep(f"said/{name}", data)
                else:
                    for prefix in ("said", "step"):
                        copied.copy(prefix, change)
                    if (cut := copied.find("cut")) is not None:
                        change.put("cut", cut)
                    open_step.copy(copied, change, standing.mark.step)
                state.begin_standing(change, standing)
            for segment in segments:
                shutil.copytree(
                    segment, partial / "private" / "memory" / segment.name, symlinks=True
                )
            if files is not None and files.is_file():
                write_file(partial / "private" / files.name, files.read_bytes(), private=True)
            sync_all(partial)
            try:
                entry = book.charge(
                    population=population,
                    path=str(folder),
                    fingerprint=fingerprint(mechanism),
                    guarantee=mechanism.guarantee,
                    fork_of=None if fork_of is None else fork_of["entry"],
                )
            except Error:
                remove(partial)
                raise
            Store.add(
                partial / "private", {"about": json.dumps({**about, "entry": entry.id}).encode()}
            )
            place(partial, folder, "create")
    except OSError:
        raise StateError(
            f"{folder.name} cannot be made here: the folder is missing, read-only or full."
        ) from None
    _warn_without_cap(book, population)


def _warn_without_cap(book: Ledger, population: str) -> None:
    """Say that charges add up, where nothing limits their sum."""
    charges = len(book.entries(population))
    if charges > 1 and all(cap.population != population for cap in book.caps()):
        warnings.warn(
            f"Population '{population}' is charged for {charges} streams now and has no cap: what "
            "they lose adds up. Set the most that it may lose with Ledger.cap or tailrace ledger "
            "cap.",
            Uncapped,
            stacklevel=4,
        )


def fork(path: PathLike, to: PathLike, ledger: PathLike | None) -> None:
    """Make the directory `to` from the stream in `path`."""
    source = where(path)
    if ledger is None and where(to).parent != source.parent:
        raise ConfigError(
            "A fork into another folder needs ledger=: the one that the first stream is charged to."
        )
    store = Store(source / "private")
    try:
        about = store.json("about")
        mechanism = mechanism_of(about)
        standing, noise = state.read_standing(store, mechanism), Noise.fresh()
        if about["noise"] != "fresh":
            noise = Noise.kept(
                Noise.kept(store.secret, "insecure").at("fork").keyed_hash(b"fork"), "insecure"
            )
        if standing.mark.step:
            standing = replace(standing, mark=Mark(standing.mark.step, noise.at("fork").nonce()))
        build(
            to,
            mechanism,
            population=about["population"],
            ledger=ledger,
            noise=noise,
            standing=standing,
            calendar=calendar_of(about),
            full=about["full"],
            copied=store,
            segments=[
                path
                for path in sorted((store.folder / "memory").iterdir())
                if path.name == standing.segment or path.name.startswith(PREFIX)
            ],
            files=store.folder / "files.json",
            fork_of=about,
        )
    finally:
        store.close()
