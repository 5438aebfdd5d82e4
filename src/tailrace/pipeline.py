"""From a source, through a stream, to its sinks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from tailrace.calls import told
from tailrace.errors import ConfigError, Error, SinkError
from tailrace.mechanisms.base import Takes
from tailrace.noise import Noise
from tailrace.sinks.base import Sink, name_of
from tailrace.sources.base import Batch, Feed, Source, now
from tailrace.stream.release import Release, View
from tailrace.stream.stream import Showing, Stream


@told
def run(
    stream: Stream,
    source: Source | Feed,
    sinks: Sequence[Sink] = (),
    *,
    asked: datetime | None = None,
) -> Iterator[Release]:
    """Release every step that is ready, to every sink.

    A step is in the stream before it is in a sink. A sink that fails gets no more in this run, the
    others go on, and a `SinkError` at the end says which it was; the next run delivers the rest.
    How the source cuts rows into steps is kept with the stream, and a source that cuts
    them otherwise is refused: a row would count twice. `asked` is the time that all of them are
    published with where there is no calendar: that of the call where left out, and never later,
    which would tell how long reading and counting took.

    >>> import tailrace as tr
    >>> ward, budget = tr.Schema(sex=tr.Categorical(["f", "m"])), tr.PureDP(epsilon=1)
    >>> counts = tr.HistogramStream(domain=ward, privacy=budget, unit=tr.Event(), horizon=7)
    >>> kept = tr.sinks.Memory()
    >>> releases = run(tr.Stream(counts), tr.sources.Frames([None, None]), [kept])
    >>> [release.step for release in releases]
    [1, 2]
    >>> sorted(kept.holds())
    [1, 2]
    """
    asked = now() if asked is None else asked
    # `Frames` has none: whoever gives them cuts them.
    cut = getattr(source, "cut", None)
    if cut is not None:
        stream.bind(cut, moved=getattr(source, "moved", None))
    edges = _Sinks(sinks)
    edges.catch_up(stream)
    horizon = stream.mechanism.horizon
    while horizon is None or stream.step < horizon:
        step = stream.step + 1
        # Before a row is read: what came until a step closed is in it.
        ready, batch = source.ready(step), Batch()
        if isinstance(source, Feed):
            _read_on(stream, source, step)
        elif ready:
            batch = source.batch(step)
        if not ready:
            break
        release = stream.push(batch.adds, batch.deletes, step=step, asked=asked)
        edges.put(release)
        yield release
    edges.tell()


class _Sinks:
    """Sinks that do not stop each other."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sound, self._many = list(sinks), len(sinks)
        self._failed: list[str] = []

    def catch_up(self, stream: Stream) -> None:
        """Give each sink the released steps that it lacks."""

        def lacking(sink: Sink) -> None:
            for step in sorted(set(range(1, stream.step + 1)) - sink.holds()):
                sink.put(stream.release(step))

        self._each(lacking)

    def put(self, release: Release) -> None:
        self._each(lambda sink: sink.put(release))

    def _each(self, give: Callable[[Sink], None]) -> None:
        for sink in list(self._sound):
            try:
                give(sink)
            # A sink of another distribution may raise anything; a value of it is not shown.
            except Exception as error:
                ours = isinstance(error, Error)
                said = str(error) if ours else f"It broke off ({type(error).__name__})."
                self._failed.append(f"{name_of(sink)}: {said}")
                self._sound.remove(sink)

    def tell(self) -> None:
        """Say which sinks failed, once all that is ready is released."""
        if self._failed:
            which = f"{len(self._failed)} of {self._many} sinks could not take all releases"
            raise SinkError(f"{which} (the next run delivers the rest). {' '.join(self._failed)}")


def _read_on(stream: Stream, source: Feed, step: int) -> None:
    """Add what came, each portion with its note."""
    # Closed at once where adding fails: a feed may hold connections.
    with contextlib.ExitStack() as stack:
        portions = source.more(step, stream.note)
        stack.callback(getattr(portions, "close", tuple))
        for portion in portions:
            batches = {at: (batch.adds, batch.deletes) for at, batch in portion.batches.items()}
            adds, deletes = batches.pop(step, (None, None))
            stream.add(adds, deletes, later=batches, note=portion.note)


@told
def release_once(
    mechanism: Showing[View], frame: Any, *, noise: Noise | None = None
) -> Release[View]:
    """Release all at once, with a mechanism made for it.

    `Stream.create` makes the same release, kept and charged.

    >>> import polars as pl
    >>> import tailrace as tr
    >>> square = tr.Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)
    >>> parts = {"privacy": tr.PureDP(epsilon=1), "unit": tr.Event()}
    >>> walks = tr.Trajectories(domain=square, trajectory="walk", order="minute", **parts)
    >>> rows = pl.DataFrame({"walk": [1, 1], "minute": [0, 5], "x": [0.1, 0.3], "y": [0.1, 0.2]})
    >>> release_once(walks, rows).table.columns
    ['walk', 'minute', 'x', 'y']
    """
    if getattr(mechanism, "takes", None) is not Takes.Once:
        raise ConfigError(
            "release_once takes a mechanism that is fed everything at once, for example "
            "Trajectories(...); others have steps: use Stream."
        )
    with Stream(mechanism, noise=noise) as stream:
        return stream.push(frame)
