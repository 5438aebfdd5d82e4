"""A second stream that goes on from where a first one stands, with noise of its own and a charge of its own."""

from __future__ import annotations

from dataclasses import replace

from tailrace import keep
from tailrace.create import PathLike, build, calendar_of, mechanism_of
from tailrace.durable import where
from tailrace.errors import ConfigError
from tailrace.ledger import Mark
from tailrace.noise import Noise
from tailrace.store import Store


def fork(path: PathLike, to: PathLike, ledger: PathLike | None) -> None:
    """Make the directory `to` of what stands in `path`."""
    source = where(path)
    if ledger is None and where(to).parent != source.parent:
        raise ConfigError("A fork into another folder needs ledger=: the one that the first stream is charged to.")
    store = Store(source / "private")
    try:
        about = store.json("about")
        mechanism = mechanism_of(about)
        standing, noise = keep.read_standing(store, mechanism), Noise.fresh()
        if about["noise"] != "fresh":
            noise = Noise.kept(Noise.kept(store.secret, "insecure").at("fork").keyed_hash(b"fork"), "insecure")
        if standing.mark.step:
            standing = replace(standing, mark=Mark(standing.mark.step, noise.at("fork").nonce()))
        cut = store.find("cut")
        releases = [keep.read_release_values(store, step) for step in range(1, standing.mark.step + 1)]
        build(
            to,
            mechanism,
            population=about["population"],
            ledger=ledger,
            noise=noise,
            standing=standing,
            calendar=calendar_of(about),
            releases={name: data for values in releases for name, data in values.items()}
            | ({} if cut is None else {"cut": cut}),
            segment=None if standing.segment is None else store.folder / "memory" / standing.segment,
            files=store.folder / "files.json",
            fork_of=about,
        )
    finally:
        store.close()
