"""Messages of a topic: each counts once, at a step that it finds by itself, whatever happens.

librdkafka's own cluster, in this process, stands for brokers.
"""

import contextlib
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from tailrace import (
    Calendar,
    Categorical,
    ConfigError,
    DataError,
    Event,
    HistogramStream,
    Mismatch,
    Noise,
    PureDP,
    Schema,
    StateError,
    Stream,
    User,
)
from tailrace.checks import check_source
from tailrace.pipeline import run
from tailrace.sources import Given, Reader, Topic, TopicSource, Used, topic
from tailrace.sources.settings import Unfit
from tailrace.storage import durable

kafka = pytest.importorskip("confluent_kafka")

WARD = Schema(sex=Categorical(["f", "m"]))
DAYS = Calendar(start="2026-01-01", period="1 day")
BOTH = (Event(), User(column="id", events=9))


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(topic, "_GATHER", 0.05)


@pytest.fixture(scope="module")
def cluster():
    """A producer whose process is the cluster, and the address of that."""
    producer = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    broker = producer.list_topics(timeout=30).brokers[1]
    return SimpleNamespace(producer=producer, servers=f"{broker.host}:{broker.port}")


@pytest.fixture
def topics(cluster, request):
    """Topics of this test's own: to write to and to read."""

    def named(number=0):
        name = f"{request.node.name.partition('[')[0]}-{len(made_already)}-{number}"

        def put(*values, partition=0):
            for value in values:
                text = value if isinstance(value, bytes | None) else json.dumps(value).encode()
                cluster.producer.produce(name, text, partition=partition)
            assert cluster.producer.flush(30) == 0

        def read(day=1, late="next", **more):
            """The topic at noon of a day."""
            clock = lambda: datetime(2026, 1, day, 12, tzinfo=UTC)  # noqa: E731
            reader = Reader(domain=WARD, key="id", time="day")
            parts = {"reader": reader, "calendar": DAYS, "late": late, "clock": clock}
            return Topic(cluster.servers, name, **{**parts, **more})

        return SimpleNamespace(put=put, read=read, name=name)

    made_already.append(request.node.name)
    return named


@pytest.fixture
def cases(topics):
    return topics()


made_already = []


def row(day, sex="f", name="anna"):
    return {"day": f"2026-01-{day:02d}", "sex": sex, "id": name}


def rows_of(portions):
    """How many rows of each step, and the last note."""
    found, note = {}, None
    for portion in portions:
        for step, batch in portion.batches.items():
            found[step] = found.get(step, 0) + len(batch.adds)
        note = portion.note
    return found, note


def made(folder, unit=BOTH[0], **more):
    mechanism = HistogramStream(
        domain=WARD, privacy=PureDP(epsilon=500), unit=unit, horizon=6, deletes=True
    )
    parts = {"population": "ward", "calendar": DAYS, "noise": Noise.insecure(3)}
    return Stream.create(folder / "ward.tail", mechanism, **parts, **more)


def counted(stream, step):
    view = stream.release(step).view
    return tuple(round(view.count(sex=sex).value) for sex in "fm")


def test_all_partitions_are_read_and_a_note_goes_on_where_it_stood(cases):
    for partition in range(4):
        cases.put(*[row(1)] * (partition + 1), partition=partition)
    found, note = rows_of(cases.read().more(1, None))
    assert (found, note) == ({1: 10}, {"0": 1, "1": 2, "2": 3, "3": 4})
    assert list(cases.read().more(1, note)) == []
    cases.put(row(1), row(2), partition=2)
    assert rows_of(cases.read().more(1, note)) == ({1: 1, 2: 1}, {**note, "2": 5})


def test_many_messages_come_in_portions_each_with_its_own_note(cases, monkeypatch):
    monkeypatch.setattr(topic, "_MANY", 7)
    cases.put(*[row(1)] * 20)
    portions = list(cases.read().more(1, None))
    assert len(portions) >= 3 and sum(len(portion.batches[1].adds) for portion in portions) == 20
    for place, portion in enumerate(portions):
        rest = rows_of(portions[place + 1 :])[0]
        assert rows_of(cases.read().more(1, portion.note))[0] == rest


@pytest.mark.parametrize("unit", BOTH)
def test_rows_of_later_steps_wait_for_them_and_late_ones_go_on(cases, tmp_path, unit):
    cases.put(row(1), row(3, "m"), row(2), row(99 - 80), {**row(1), "day": "2025-12-31"})
    with made(tmp_path, unit) as stream:
        assert list(run(stream, cases.read(1))) == [], "the first day is not over"
        cases.put(row(1, "m"), partition=1)
        assert [release.step for release in run(stream, cases.read(2))] == [1]
    with Stream.open(tmp_path / "ward.tail") as stream:
        # Late, and counted with the second day.
        cases.put(row(1, "m"))
        assert [release.step for release in run(stream, cases.read(5))] == [2, 3, 4]
        assert [counted(stream, step) for step in (1, 2, 3, 4)] == [(1, 1), (2, 2), (2, 3), (2, 3)]
        assert not stream._store.names("later"), "those beyond the horizon are not kept"


def test_late_rows_are_dropped_where_the_calendar_says_so(cases, tmp_path):
    with made(tmp_path) as stream:
        cases.put(row(1))
        list(run(stream, cases.read(2, late="drop")))
        cases.put(row(1), row(2, "m"))
        list(run(stream, cases.read(3, late="drop")))
        assert counted(stream, 2) == (1, 1)


class Message:
    """A message as the client gives it, appended by the broker at an hour of January."""

    def __init__(self, value, day, kind=2):
        self._value, at = json.dumps(value).encode(), datetime(2026, 1, day, 12, tzinfo=UTC)
        self._stamp = kind, int(at.timestamp() * 1000)

    def value(self):
        return self._value

    def error(self):
        return None

    def offset(self):
        return 0

    def partition(self):
        return 0

    def timestamp(self):
        return self._stamp


@pytest.mark.parametrize(
    ("late", "expected"), [("next", {2: 1, 3: 1, 5: 1, 4: 1}), ("drop", {2: 1, 5: 1})]
)
def test_a_broker_that_says_when_it_appended_decides_what_is_late(cases, late, expected):
    came = [
        Message(row(2), 2),
        Message(row(1), 3),
        Message(row(5), 4),
        Message(row(3), 4),
    ]
    found = cases.read(9, late=late)._cut(came, 1)
    assert {step: len(batch.adds) for step, batch in found.items()} == expected
    # The producer's own time says nothing about when a message came.
    produced = cases.read(9, late=late)._cut([Message(row(1), 3, kind=1)], 1)
    assert set(produced) == {1}
    # A broker whose clock is behind: the step that it names is released.
    behind = cases.read(9, late="next")._cut([Message(row(2), 2)], 4)
    assert set(behind) == {4}


def test_whatever_a_message_holds_it_never_raises(cases, tmp_path):
    strange = [
        None,
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"day": "2026-01-01", "sex": ',
        b'"text"',
        b"7",
        {"sex": "f"},
        {"day": 7, "sex": "f"},
        {"day": ["2026-01-01"], "sex": "f", "id": 1},
        {"day": "2026-01-01", "sex": {"a": 1}, "id": [1]},
        {"day": "2026-01-01", "sex": "secret"},
        {"day": "9999-12-31", "sex": "f"},
        {"other": 1},
    ]
    for unit in BOTH:
        folder = tmp_path / type(unit).__name__
        folder.mkdir()
        cases.put(*strange, row(1))
        with made(folder, unit) as stream:
            list(run(stream, cases.read(2)))
            assert stream.step == 1 and counted(stream, 1)[1] == 0


def test_a_column_says_what_is_deleted(cases, tmp_path):
    cases.put({**row(1), "op": "insert"}, {**row(1), "op": "insert"}, {**row(2), "op": "delete"})
    source = cases.read(3)
    source = replace(source, reader=replace(source.reader, op="op"))
    with made(tmp_path) as stream:
        list(run(stream, source))
        assert [counted(stream, step) for step in (1, 2)] == [(2, 0), (1, 0)]


def test_a_topic_keeps_every_promise(cases):
    for partition in (0, 1, 2):
        cases.put(row(1), row(3), row(2), partition=partition)
    check_source(lambda: cases.read(9), rows=[3, 3, 3, 0])


class Killed(BaseException):
    """A process that ends here."""


@pytest.mark.slow
@pytest.mark.parametrize("unit", BOTH)
def test_a_run_killed_at_any_durable_point_counts_every_row_once(
    topics, tmp_path, monkeypatch, unit
):
    """With this little noise the releases tell."""
    points = []
    for number in range(100):
        cases, folder = topics(number), tmp_path / str(number)
        folder.mkdir()
        wanted = points[number - 1] if number else None

        def dies(name, wanted=wanted):
            if wanted is None:
                points.extend({name} - set(points))
            elif name == wanted:
                raise Killed

        cases.put(row(1), row(2, "m"), row(1), row(6), row(2))
        with made(folder, unit) as stream:
            assert list(run(stream, cases.read(1))) == []
        cases.put(row(1, "m"), row(2), row(3, "m"), partition=1)
        stream = Stream.open(folder / "ward.tail")
        monkeypatch.setattr(durable, "hook", dies)
        with contextlib.ExitStack() as closing:
            closing.callback(stream.close)
            closing.callback(monkeypatch.setattr, durable, "hook", None)
            closing.enter_context(pytest.raises(Killed) if wanted else contextlib.nullcontext())
            list(run(stream, cases.read(2)))
        cases.put(row(1, "m"))
        with Stream.open(folder / "ward.tail") as stream:
            list(run(stream, cases.read(4)))
            assert stream._store.names("later") == ["later/000006/00000000/adds"], wanted
            # Killed before the first day was released, the last row is not late.
            assert counted(stream, 1) in ((2, 1), (2, 2)), wanted
            assert [counted(stream, step) for step in (2, 3)] == [(4, 3), (4, 4)], wanted
        if number == len(points):
            break
    assert {"add, before", "add, after", "intent, before", "intent, after"} <= set(points)


def test_what_cannot_be_read_is_one_sentence(cases, topics, tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"have no topic .*: make it"):
        list(cases.read().more(1, None))
    cases.put(row(1))
    with pytest.raises(StateError, match="it was made anew"):
        list(cases.read().more(1, {"0": 5}))
    with pytest.raises(StateError, match="tells of no offsets"):
        list(cases.read().more(1, ["0"]))
    monkeypatch.setattr(topic, "_ANSWER", 0.5)
    with pytest.raises(StateError, match="cannot be reached"):
        list(replace(cases.read(), servers="127.0.0.1:1").more(1, None))


def test_a_server_that_falls_silent_is_one_sentence_and_nothing_is_read_twice(cases, monkeypatch):
    """All that came before it did is in."""
    monkeypatch.setattr(topic, "_ANSWER", 0.2)
    place = SimpleNamespace(partitions={0: None}, error=None)
    answers = iter([[Message(row(1), 1)], []])
    silent = SimpleNamespace(
        list_topics=lambda *_, **__: SimpleNamespace(topics={cases.name: place}),
        get_watermark_offsets=lambda *_, **__: (0, 2),
        assign=lambda _: None,
        consume=lambda *_, **__: next(answers, []),
    )
    reading = cases.read()._messages(silent, {})
    assert len(next(reading)) == 1
    with pytest.raises(StateError, match="stopped answering; run again"):
        next(reading)


def test_messages_removed_unread_are_refused_until_someone_decides(cases):
    removed = SimpleNamespace(get_watermark_offsets=lambda *_, **__: (5, 9))
    with pytest.raises(StateError, match=r'write gaps = "skip"'):
        cases.read()._span(removed, 0, 3)
    assert cases.read(gaps="skip")._span(removed, 0, 3) == (5, 9)
    assert cases.read()._span(removed, 0, None) == (5, 9), "none of them was ever ours"


def test_another_topic_is_refused_once_rows_are_in(topics, tmp_path):
    one, other = topics(1), topics(2)
    one.put(row(1))
    other.put(row(1))
    with made(tmp_path) as stream:
        list(run(stream, one.read()))
        with pytest.raises(Mismatch, match="source's topic"):
            list(run(stream, other.read()))


def test_a_password_is_read_from_a_file_and_never_shown(cases, tmp_path, capfd):
    cases.put(row(1))
    client = tmp_path / "kafka.properties"
    client.write_text("# ours\n\nclient.id = ward=1\nsasl.password=hunter2\n")
    source = cases.read(client=client)
    assert rows_of(source.more(1, None))[0] == {1: 1} and "hunter2" not in repr(source)
    for text, sentence in (
        ("sasl.password=hunter2\nsasl.mechanisms=hunter2\nsecurity.protocol=hunter2\n", "refuses"),
        ("hunter2=hunter2\n", "refuses its settings"),
        ("\nhunter2\n", "Line 2 of kafka.properties must be"),
    ):
        client.write_text(text)
        with pytest.raises(ConfigError, match=sentence) as told:
            list(source.more(1, None))
        assert "hunter2" not in str(told.value)
    client.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        list(source.more(1, None))
    assert "hunter2" not in "".join(capfd.readouterr())


def test_nothing_is_committed_to_the_brokers(cases, cluster):
    cases.put(row(1))
    list(cases.read().more(1, None))
    asked = kafka.Consumer({"bootstrap.servers": cluster.servers, "group.id": "tailrace"})
    place = kafka.TopicPartition(cases.name, 0)
    assert asked.committed([place], timeout=30)[0].offset == kafka.OFFSET_INVALID
    asked.close()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"servers": "one two"}, "servers cannot be one of Kafka"),
        ({"servers": "user:secret@one"}, "servers cannot be one of Kafka"),
        ({"topic": "a/b"}, "topic cannot be one of Kafka"),
        ({"gaps": "no"}, "gaps must be"),
        ({"op": "day"}, "op must be a column of its own"),
    ],
)
def test_settings_that_cannot_be_used(change, sentence):
    with pytest.raises(ConfigError, match=sentence) as told:
        TopicSource(**{"servers": "one:9092", "topic": "cases", "time": "day", **change})
    assert "secret" not in str(told.value)


def test_a_topic_needs_a_calendar(tmp_path):
    settings = TopicSource(servers="one:9092, two:9092", topic="cases", time="day")
    with pytest.raises(Unfit, match="needs"):
        settings.check(None)
    given = Given(
        reader=Reader(domain=WARD, time="day"),
        calendar=DAYS,
        late="next",
        used=Used(tmp_path / "used.json"),
    )
    opened = settings.open(given)
    assert opened.cut == {
        "kind": "Topic",
        "topic": "cases",
        "late": "next",
        "time": "day",
        "timezone": "UTC",
        "calendar": opened.cut["calendar"],
    }


def test_without_the_client_a_sentence_says_how_to_get_it(cases, monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ConfigError, match=r"pip install 'tailrace\[kafka\]'"):
        list(cases.read().more(1, None))
