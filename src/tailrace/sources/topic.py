"""Read a Kafka topic, one JSON object a message.

Each message counts exactly once, whenever a process is killed:

1. Messages are read by partition and offset, which name a message for ever. How far they were read
   is the note of `stream.add`: one transaction keeps it with all rows read up to there, and a new
   process reads on from it. Nothing is committed to the brokers.
2. One reading brings rows of several steps. Those of the next step are counted at once. Those of
   later steps are kept by their step in the same transaction, until it is the next one: they are
   never read again, so it does not matter how long the brokers keep them.
3. Which step a row goes to is decided once, in that transaction: by its own time, the calendar and
   when it arrived, never by another row. It arrived when the broker appended it, where the topic
   says that (`message.timestamp.type=LogAppendTime`), and otherwise while the step was open that
   was next when it was read. A reading that was cut off has decided nothing.
4. A step is released once the clock has closed it and the messages that were there by then are
   read, with or without rows.

A message that is no JSON object, or lacks a column, is content: the row is dropped, or its cell is
missing, as the schema says.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tailrace.calendar import Calendar
from tailrace.calls import told
from tailrace.errors import ConfigError, DataError, StateError
from tailrace.privacy.loss import whole
from tailrace.sources.base import Batch, Clock, Portion, now
from tailrace.sources.cut import Late, joined, plain_cut, steps_of
from tailrace.sources.lines import cells_of
from tailrace.sources.reading import Reader, text_frame
from tailrace.sources.settings import Given, Settings, Unfit

Gaps = Literal["refuse", "skip"]

# Messages of one portion: reasoned, some 10 MB of them, and a transaction for each.
_MANY = 20_000
# Seconds to gather a portion, and to wait for brokers: as long as a database is waited for.
_GATHER, _ANSWER = 0.5, 30.0
_TOPIC = r"[A-Za-z0-9._-]{1,249}"
_AGAIN = "run again: each message counts once."
_UNREACHABLE = (
    "The Kafka servers cannot be reached, or refuse the user: check servers and client in "
    "[source], and that the brokers run."
)
_LOST = f"The Kafka servers stopped answering; {_AGAIN}"
_FORBIDDEN = "The Kafka servers do not allow it: the user must be able to read the topic."
_SETTINGS = (
    "The Kafka client refuses its settings: check the names and values in the file that client "
    "names in [source]."
)
# What a client logs may quote settings: nothing of it is shown.
_SILENT = logging.Logger("tailrace.kafka", level=logging.CRITICAL + 1)
_SILENT.addHandler(logging.NullHandler())


@told
@dataclass(frozen=True, kw_only=True)
class TopicSource(Settings):
    """`kind = "Topic"`: JSON messages of a Kafka topic.

    Parameters
        servers: brokers to begin with, with commas between.
        topic: the name of the topic.
        client: a file of further settings of the client, such as passwords: `name=value` lines.
        gaps: whether messages that the brokers removed unread are passed over.
    """

    servers: str = field(metadata={"example": '"broker.example:9092"'})
    topic: str = field(metadata={"example": '"cases"'})
    time: str = field(metadata={"example": '"day"'})
    client: Path | None = None
    gaps: Gaps = "refuse"

    def __post_init__(self) -> None:
        for key, pattern, example in (
            ("servers", r"[^\s,@]+(\s*,\s*[^\s,@]+)*", '"one.example:9092, two.example:9092"'),
            ("topic", _TOPIC, '"cases"'),
        ):
            if not re.fullmatch(pattern, getattr(self, key)):
                raise Unfit(key, f"cannot be one of Kafka; write it as in {example}.")
        if self.gaps not in ("refuse", "skip"):
            raise Unfit("gaps", 'must be "refuse" or "skip".')
        if self.id is not None:
            raise Unfit("id", "needs all rows of a step at once; a topic counts each message once.")
        super().__post_init__()

    def open(self, given: Given) -> Topic:
        assert given.calendar is not None
        return Topic(
            self.servers,
            self.topic,
            reader=given.reader,
            calendar=given.calendar,
            late=given.late,
            client=self.client,
            gaps=self.gaps,
        )


@told
@dataclass(frozen=True)
class Topic:
    """The messages of a topic, by the calendar."""

    servers: str
    topic: str
    _: KW_ONLY
    reader: Reader
    calendar: Calendar
    late: Late
    client: Path | None = None
    gaps: Gaps = "refuse"
    clock: Clock = now

    def __post_init__(self) -> None:
        if self.late not in ("next", "drop"):
            raise ConfigError('late must be "next" or "drop".')
        if self.reader.time is None:
            raise ConfigError("A topic is cut by a time column: name it with time= in [source].")

    @property
    def over(self) -> bool:
        return False

    @property
    def cut(self) -> dict[str, Any]:
        """The brokers may move: a topic keeps its name and its offsets."""
        return plain_cut(self.reader, self.calendar, kind="Topic", topic=self.topic, late=self.late)

    def ready(self, step: int) -> bool:
        return self.calendar.released_by(self.clock()) >= step

    def more(self, step: int, note: Any) -> Iterator[Portion]:
        """The messages after those that `note` tells of, up to those that are there now."""
        whole("step", step)
        read = _offsets(note)
        with self._consumer() as consumer:
            for messages in self._messages(consumer, read):
                for message in messages:
                    read[message.partition()] = message.offset() + 1
                plain = {str(partition): offset for partition, offset in sorted(read.items())}
                yield Portion(self._cut(messages, step), plain)

    def _cut(self, messages: list[Any], step: int) -> dict[int, Batch]:
        """The rows of messages by the step that each goes to, while `step` is open."""
        objects = [cells_of(message.value() or b"") for message in messages]
        columns = {name: [cells.get(name) for cells in objects] for name in self.reader.columns}
        rows = self.reader.read(text_frame(columns))
        opened = np.maximum(self.calendar.open_at(_appended(messages)), step)
        steps = steps_of(rows, self.calendar, self.late, opened)
        found = {}
        for own in np.unique(steps[steps > 0]).tolist():
            chosen = steps == own
            part = (rows.frame.filter(chosen), rows.deletes[chosen])
            found[own] = joined(self.reader, [part], deletes=self.reader.op is not None)
        return found

    def _messages(self, consumer: Any, read: dict[int, int]) -> Iterator[list[Any]]:
        """All messages that are there now and were not read, some at a time."""
        from confluent_kafka import KafkaError, TopicPartition

        spans = {
            partition: self._span(consumer, partition, read.get(partition))
            for partition in self._partitions(consumer)
        }
        left = {partition: end for partition, (begin, end) in spans.items() if begin < end}
        consumer.assign([TopicPartition(self.topic, part, spans[part][0]) for part in left])
        patience = time.monotonic() + _ANSWER
        while left:
            found = consumer.consume(_MANY, timeout=_GATHER)
            for event in found:
                error = event.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise StateError(_said(error, _LOST))
                # The last offsets before the end may be marks of transactions, which are no
                # messages.
                if error is not None or event.offset() + 1 >= left.get(event.partition(), 0):
                    left.pop(event.partition(), None)
            messages = [event for event in found if event.error() is None]
            if messages:
                yield messages
                patience = time.monotonic() + _ANSWER
            elif left and time.monotonic() > patience:
                raise StateError(_LOST)

    def _partitions(self, consumer: Any) -> list[int]:
        from confluent_kafka import KafkaError

        found = consumer.list_topics(self.topic, timeout=_ANSWER).topics[self.topic]
        if found.error is not None:
            if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise DataError(
                    f"The Kafka servers have no topic '{self.topic}': make it, or name another one "
                    "with topic= in [source]."
                )
            raise StateError(_said(found.error, _LOST))
        return sorted(found.partitions)

    def _span(self, consumer: Any, partition: int, begin: int | None) -> tuple[int, int]:
        """From which offset to which a partition is read."""
        from confluent_kafka import TopicPartition

        place = TopicPartition(self.topic, partition)
        first, end = consumer.get_watermark_offsets(place, timeout=_ANSWER)
        if begin is None:
            return first, end
        if begin > end:
            raise StateError(
                f"Topic '{self.topic}' ends before the messages that were read: it was made anew, "
                "or its servers were. A new topic needs a new stream, which is a new charge."
            )
        if begin < first and self.gaps == "refuse":
            raise StateError(
                f"The Kafka servers removed messages of topic '{self.topic}' before they were read "
                '(retention): write gaps = "skip" in [source] to go on without them, and let the '
                "topic keep messages for longer than between two runs."
            )
        return max(begin, first), end

    @contextlib.contextmanager
    def _consumer(self) -> Iterator[Any]:
        try:
            from confluent_kafka import Consumer, KafkaException
        except ImportError:
            raise ConfigError("Kafka needs its client: pip install 'tailrace[kafka]'.") from None
        settings = {
            # Asked for by the client; without commits no group is ever joined.
            "group.id": "tailrace",
            **properties("client", self.client),
            "bootstrap.servers": self.servers,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            # An offset that is gone is an error, and no reason to read from elsewhere.
            "auto.offset.reset": "error",
        }
        try:
            consumer = Consumer(settings, logger=_SILENT)
        except (KafkaException, ValueError, TypeError):
            raise ConfigError(_SETTINGS) from None
        try:
            yield consumer
        except KafkaException as error:
            raise StateError(_said(error.args[0], _UNREACHABLE)) from None
        finally:
            consumer.close()


def _offsets(note: Any) -> dict[int, int]:
    """The next offset of each partition."""
    try:
        return {int(partition): whole("offset", at) for partition, at in (note or {}).items()}
    except (AttributeError, ValueError, ConfigError):
        raise StateError(
            "The note of this stream tells of no offsets: its rows did not come from a topic."
        ) from None


def _appended(messages: list[Any]) -> np.ndarray:
    """When the broker appended each message, where it says that."""
    from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

    stamps = [message.timestamp() for message in messages]
    times = [at if kind == TIMESTAMP_LOG_APPEND_TIME else None for kind, at in stamps]
    return np.array(times, "M8[ms]").astype("M8[us]")


def properties(key: str, path: Path | None) -> dict[str, str]:
    """The settings in the file of a key of `[source]`; no error shows any of them."""
    if path is None:
        return {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        raise ConfigError(
            f"{path.name}, which {key} names in [source], cannot be read: see that it is there, "
            "in UTF-8, and may be read."
        ) from None
    found = {}
    for number, line in enumerate(lines, start=1):
        name, sign, value = line.strip().partition("=")
        if not name or name.startswith("#"):
            continue
        if not sign:
            raise ConfigError(f"Line {number} of {path.name} must be written as name=value.")
        found[name.strip()] = value.strip()
    return found


def _said(error: Any, otherwise: str) -> str:
    """The sentence for an error of Kafka; its own may quote settings."""
    from confluent_kafka import KafkaError

    forbidden = (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    )
    return _FORBIDDEN if error.code() in forbidden else otherwise
