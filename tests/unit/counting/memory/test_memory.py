import decimal
import errno
import hashlib
import json
import os
import shutil
import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from processes import python
from tailrace import ConfigError, Corrupt, DataError, Mismatch, StateError, User, Window
from tailrace.counting.memory import (
    POINTS,
    batch,
    bound,
    check,
    discard,
    hash_units,
    hashing,
    kernel,
    segment,
)

KEY = bytes(range(16))
TWICE, ONE = User(column="id", events=2), User(column="id", records=1)
NOBODY = (0, 0)


def rows(*pairs):
    """(id, cell) pairs as two columns."""
    return np.array([unit for unit, _ in pairs], object), np.array(
        [cell for _, cell in pairs], np.int64
    )


def step(folder, old, new, unit, adds=(), deletes=(), **options):
    paths = {"old": None if old is None else folder / old, "new": folder / new}
    result = bound(**paths, unit=unit, key=KEY, adds=rows(*adds), deletes=rows(*deletes), **options)
    return sorted(result.adds.tolist()), sorted(result.deletes.tolist())


def content(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


# hashes


def test_siphash_gives_the_official_vectors():
    """All messages of 1 to 63 bytes of the reference table; the last byte is the tag."""
    message, words = np.arange(63, dtype=np.uint8), hashing.words(KEY)
    found = [kernel.of_bytes(message, 0, n - 1, n - 1, *words) for n in range(1, 64)]
    found = [
        int(high).to_bytes(8, "little") + int(low).to_bytes(8, "little") for high, low in found
    ]
    assert found[0].hex() == "da87c1d86b99af44347659119b22fc45"
    assert found[7].hex() == "3b62a9ba6258f5610f83e264f31497b4"
    assert found[62].hex() == "5150d1772f50834a503e069a973fbd7c"
    digest = hashlib.blake2b(b"".join(found), digest_size=16).hexdigest()
    assert digest == "71a3cc9e58fc72710dcc6019ad828d8e"


NUMBERS = [
    np.array([7, 300, 7], np.int16),
    np.array([7, 300, 7], np.uint64),
    np.array([7, 300, 7], np.int64)[::1],
    np.array([7, 0, 300, 0, 7, 0])[::2],
    np.array(["7", " 300", "007"]),
    np.array(["+7.", "300\u00a0", 7], object),
    np.array([b"7", "\u2003300.00\t", 7.0], object),
    np.array([7, 300.0, decimal.Decimal("7.00")], object),
    np.array([np.int8(7), np.float64(300), 7], object),
    pa.array([7, 300, 7], pa.int32()),
    pa.array(["7", "300.0", "7"]),
    pa.array(["00", "7", "300.0", "007"])[1:],
    pa.array(["7", "0300", "7"]).dictionary_encode(),
    pa.array([b"7", b"300", b"7"]),
    pa.array([0, 7, 300, 7], pa.uint16())[1:],
    pa.chunked_array([[7], [300, 7]]),
    pa.array([7, 300, 7]).dictionary_encode(),
    pa.array([decimal.Decimal(7), decimal.Decimal(300), decimal.Decimal(7)], pa.decimal128(38, 2)),
]
TEXTS = [
    np.array(["Zoë", "7b", "Zoë"]),
    np.array(["Zoë", "7b", "Zoë"], object),
    np.array(["Zoë", "7b", "Zoë"], np.dtypes.StringDType()),
    pa.array(["Zoë", "7b", "Zoë"]),
    pa.array(["before", "Zoë", "7b", "Zoë"])[1:],
    pa.array(["Zoë", "7b", "Zoë"], pa.large_string()),
    pa.array(["Zoë", "7b", "Zoë"], pa.string_view()),
    pa.chunked_array([["Zoë"], [], ["7b", "Zoë"]]),
    pa.array(["Zoë", "7b", "Zoë"]).dictionary_encode(),
    pa.DictionaryArray.from_arrays([1, 3, 1], ["a", "Zoë", "b", "7b", "c"]),
]


@pytest.mark.parametrize("same", [NUMBERS, TEXTS], ids=["numbers", "texts"])
def test_an_id_is_the_same_unit_however_it_is_stored(same):
    expected = hash_units(same[0], KEY).tolist()
    assert expected[0] == expected[2] != expected[1]
    for ids in same[1:]:
        assert hash_units(ids, KEY).tolist() == expected, ids


def test_only_whole_numbers_have_several_spellings():
    ids = [
        1,
        49,
        "1.5",
        "1,0",
        "1 0",
        "1e0",
        "0x1",
        "i",
        "\uff11",
        "a",
        "A",
        "a b",
        "-",
        "+",
        ".",
        ".0",
        "1.0.0",
        "-a",
    ]
    ids += [
        -1,
        2**63,
        -(2**63),
        2**64,
        -(2**64),
        2**64 - 1,
        2**70,
        "inf",
        "9" * 5000,
        "8" * 5000,
        "None",
        "nan",
    ]
    units = hash_units(np.array(ids, object), KEY).tolist()
    assert len(set(units)) == len(ids) and NOBODY not in units


@pytest.mark.parametrize(
    "number", [0, 1, -1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**19, 10**30]
)
def test_a_whole_number_is_one_unit_in_every_spelling(number):
    sign, digits = ("-", str(-number)) if number < 0 else ("", str(number))
    spellings = [
        number,
        decimal.Decimal(number),
        f"{sign}{digits}",
        f" {sign}00{digits}.00\n",
        f"\u3000{sign}{digits}.",
    ]
    assert len(set(hash_units(np.array(spellings, object), KEY).tolist())) == 1
    texts = [spelling for spelling in spellings if isinstance(spelling, str)]
    assert set(hash_units(pa.array(texts), KEY).tolist()) == set(
        hash_units(np.array([number], object), KEY).tolist()
    )


def test_a_float_that_may_be_several_ids_is_none():
    ids = np.array([2.0**53, 2.0**53 + 2, 2.0**60, -(2.0**60), 1.5, "1.5"], object)
    units = hash_units(ids, KEY).tolist()
    assert units[0] == hash_units(np.array([2**53]), KEY)[0].item()
    assert units[1:4] == [NOBODY] * 3 and units[4] == units[5] != NOBODY


@pytest.mark.parametrize(
    "ids",
    [
        np.array([1, None], object),
        np.array([1, float("nan")], object),
        np.array([1, decimal.Decimal("nan")], object),
        np.array([1, object()], object),
        pd.Series([1, None], dtype="Int64").to_numpy(object),
        np.array([1, pd.NaT], object),
        pa.array([1, None]),
        np.array([1, ""], object),
        pa.array(["1", " \t\u2003"]),
        pa.array([1, None]).dictionary_encode(),
        pa.DictionaryArray.from_arrays([0, 1], pa.array([1, None])),
        pa.array([decimal.Decimal(1), None]),
    ],
)
def test_a_row_without_an_id_is_nobody(ids):
    first, second = hash_units(ids, KEY).tolist()
    assert first == hash_units(np.array([1]), KEY)[0].item() and second == NOBODY


def test_text_without_an_id_is_nobody():
    assert hash_units(pa.array(["a", None]), KEY).tolist()[1] == NOBODY
    assert hash_units(pa.nulls(2), KEY).tolist() == [NOBODY, NOBODY]


def test_uuids_are_their_text_and_surrogates_do_not_raise():
    name = uuid.UUID(int=5)
    assert hash_units(np.array([name], object), KEY) == hash_units(np.array([str(name)]), KEY)
    assert hash_units(np.array(["\ud800"], object), KEY)[0].item() != NOBODY


@pytest.mark.parametrize(
    "ids",
    [
        np.array([], "datetime64[s]"),
        np.array([1j]),
        np.array([], np.float64),
        np.array([7.0, 300.0], np.float32),
        pa.array([7.0, None]),
        pa.array([7.0]).dictionary_encode(),
        np.ones((2, 2)),
        pa.array([[1]]),
    ],
)
def test_a_column_that_cannot_hold_ids_is_refused_whatever_it_holds(ids):
    with pytest.raises(DataError, match="ids"):
        hash_units(ids, KEY)


def test_another_key_gives_other_hashes_and_a_short_one_is_refused():
    assert hash_units(np.array([1]), KEY) != hash_units(np.array([1]), bytes(16))
    with pytest.raises(ConfigError, match="16 secret bytes"):
        hash_units(np.array([1]), b"short")


# bounds


def test_a_deleted_insert_stays_used(tmp_path):
    assert step(tmp_path, None, "1", TWICE, [(1, 5)]) == ([5], [])
    assert step(tmp_path, "1", "2", TWICE, [(1, 6)], [(1, 5)]) == ([6], [5])
    assert step(tmp_path, "2", "3", TWICE, [(1, 7)], [(1, 7), (1, 5)]) == ([], [])
    assert step(tmp_path, "3", "4", TWICE, [], [(1, 6), (1, 6)]) == ([], [6])
    assert step(tmp_path, "4", "5", TWICE, [(1, 6)], [(1, 6)]) == ([], [])


def test_inserts_come_before_deletes_within_a_step(tmp_path):
    assert step(tmp_path, None, "1", TWICE, [(1, 5)], [(1, 5), (1, 5)]) == ([5], [5])


def test_a_record_that_leaves_makes_room_for_the_next(tmp_path):
    assert step(tmp_path, None, "1", ONE, [(1, 5)]) == ([5], [])
    assert step(tmp_path, "1", "2", ONE, [(1, 6)]) == ([], [])
    assert step(tmp_path, "2", "3", ONE, [(1, 6)], [(1, 5)]) == ([6], [5])
    assert step(tmp_path, "3", "4", ONE, [(1, 7)], [(1, 7), (1, 6)]) == ([7], [6, 7])
    assert check(tmp_path / "4") == 0


def test_a_delete_needs_a_live_insert_of_the_same_unit_and_cell(tmp_path):
    assert step(tmp_path, None, "1", TWICE, [(1, 5), ("a", 6)], [(2, 5), (1, 6), ("a", 5)]) == (
        [5, 6],
        [],
    )


def test_rows_without_an_id_or_a_cell_are_dropped(tmp_path):
    adds = [(None, 1), (float("nan"), 1), (1, -1), (2, 3)]
    assert step(tmp_path, None, "1", ONE, adds, [(None, 1), (2, -1)]) == ([3], [])


def test_which_inserts_are_accepted_is_up_to_the_key_and_not_to_the_cell(tmp_path):
    ids, cells = np.repeat(np.arange(400), 2), np.tile([0, 1], 400)
    adds = bound(
        old=None, new=tmp_path / "1", unit=ONE, key=KEY, adds=(ids, cells), deletes=None
    ).adds
    assert len(adds) == 400 and 150 < adds.sum() < 250
    other = bound(
        old=None, new=tmp_path / "2", unit=ONE, key=bytes(16), adds=(ids, cells), deletes=None
    ).adds
    assert 150 < other.sum() < 250


def test_a_window_bounds_live_records(tmp_path):
    window = Window(steps=3, column="id", records=1)
    assert step(tmp_path, None, "1", window, [(1, 5), (1, 5)]) == ([5], [])


def test_a_unit_with_very_many_rows_is_sorted_all_the_same(tmp_path):
    random = np.random.default_rng(0)
    hi, lo = np.repeat(np.uint64(3), 5000), random.integers(0, 2, 5000).astype(np.uint64)
    cells = random.integers(0, 10**6, 5000)
    expected = sorted(zip(hi.tolist(), lo.tolist(), cells.tolist(), strict=True))
    sorted_columns = batch.in_order(hi.copy(), lo.copy(), cells.copy())
    assert list(zip(*(column.tolist() for column in sorted_columns), strict=True)) == expected
    everything = User(column="id", events=10**12)
    result = bound(
        old=None,
        new=tmp_path / "1",
        unit=everything,
        key=KEY,
        adds=(np.ones(5000, int), cells),
        deletes=None,
    )
    assert np.array_equal(np.sort(result.adds), np.sort(cells))


def test_a_unit_without_a_bound_and_columns_of_unequal_length_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="events= or records="):
        step(tmp_path, None, "1", User(column="id"))
    with pytest.raises(DataError, match="equal length"):
        bound(
            old=None,
            new=tmp_path / "1",
            unit=ONE,
            key=KEY,
            adds=(np.arange(3), np.arange(2)),
            deletes=None,
        )
    assert not list(tmp_path.iterdir())


# segments


def test_a_step_leaves_the_old_segment_alone_and_nothing_else_behind(tmp_path):
    step(tmp_path, None, "1", TWICE, [(1, 5), (2, 6)])
    before = content(tmp_path / "1")
    step(tmp_path, "1", "2", TWICE, [(1, 5)], [(2, 6)])
    assert content(tmp_path / "1") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]
    assert sorted(content(tmp_path / "2")) == ["1", "2", "header"]
    assert (tmp_path / "1" / "1").samefile(tmp_path / "2" / "1"), "what stays is not written again"
    for path in (tmp_path / "2", *(tmp_path / "2").iterdir()):
        assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(ConfigError, match="never changed"):
        step(tmp_path, "2", "2", TWICE)


def test_no_id_lies_in_a_segment(tmp_path):
    step(tmp_path, None, "1", TWICE, [("Ada Lovelace", 5), (123456789, 6)])
    for data in content(tmp_path / "1").values():
        assert b"Ada" not in data and (123456789).to_bytes(4, "little") not in data


def test_every_damage_is_noticed_and_named(tmp_path):
    step(tmp_path, None, "seg7", TWICE, [(1, 5), (2, 6)])
    path = tmp_path / "seg7"
    assert check(path) == 2
    for name, data in content(path).items():
        flips = [bytes([*data[:i], data[i] ^ 1, *data[i + 1 :]]) for i in range(len(data))]
        for broken in [*flips, data[:-1], data + b"\0", b""]:
            (path / name).write_bytes(broken)
            with pytest.raises(Corrupt, match="'seg7' is damaged"):
                check(path)
        (path / name).unlink()
        with pytest.raises(Corrupt, match="'seg7' is damaged"):
            step(tmp_path, "seg7", "next", TWICE)
        (path / name).write_bytes(data)
    assert check(path) == 2 and not (tmp_path / "next").exists()
    with pytest.raises(Corrupt, match="missing"):
        check(tmp_path / "nowhere")


def test_another_format_key_or_bound_is_refused(tmp_path):
    step(tmp_path, None, "1", TWICE, [(1, 5)])
    with pytest.raises(Mismatch, match="another key or another bound"):
        step(tmp_path, "1", "2", ONE)
    with pytest.raises(Mismatch, match="another key or another bound"):
        bound(
            old=tmp_path / "1",
            new=tmp_path / "2",
            unit=TWICE,
            key=bytes(16),
            adds=None,
            deletes=None,
        )
    header = tmp_path / "1" / "header"
    line = json.dumps({**json.loads(header.read_text().splitlines()[0]), "format": 4})
    header.write_text(f"{line}\n{hashlib.blake2b(line.encode(), digest_size=32).hexdigest()}\n")
    with pytest.raises(Corrupt, match="another format"):
        check(tmp_path / "1")


def as_formerly(path, format):  # noqa: A002
    """Write a memory of one segment again as versions before wrote it: a file for each column."""
    header = json.loads((path / "header").read_text().splitlines()[0])
    rows = np.frombuffer((path / path.name).read_bytes()[: 28 * header["rows"]], segment.ROW)
    discard(path)
    path.mkdir()
    columns = {name: np.ascontiguousarray(rows[name]).tobytes() for name in segment.ROW.names}
    for name, data in columns.items():
        (path / name).write_bytes(data)
    digests = {n: hashlib.blake2b(data, digest_size=32).hexdigest() for n, data in columns.items()}
    kept = {name: header[name] for name in ("rows", "bound", "key")}
    line = json.dumps({"format": format, **kept, "columns": digests})
    digest = hashlib.blake2b(line.encode(), digest_size=32).hexdigest()
    (path / "header").write_text(f"{line}\n{digest}\n")


def former_hash(ids, key):
    """As the version before hashed: text as it stands, whatever number it spells."""
    texts = [unit if isinstance(unit, str) else None for unit in ids]
    return np.where(
        [text is not None for text in texts],
        hashing._as_it_stands(texts, hashing.words(key)),
        hash_units(ids, key),
    )


@pytest.mark.parametrize("kept", [[1, 2], ["1", "2"], ["01", " 2"], ["1.0", 2]], ids=str)
def test_a_memory_of_the_version_before_knows_its_people_in_every_spelling(
    tmp_path, monkeypatch, kept
):
    with monkeypatch.context() as before:
        before.setattr(batch, "hash_units", former_hash)
        assert (
            step(tmp_path, None, "1", TWICE, [(who, 5) for who in (*kept, "a", "")])[0] == [5] * 4
        )
    as_formerly(tmp_path / "1", format=1)
    again = [(who, 6) for who in (*kept, "a", "")]
    assert step(tmp_path, "1", "2", TWICE, again, [(kept[0], 5)]) == ([6] * 4, [5])
    assert step(tmp_path, "2", "3", TWICE, again) == ([], []), "everybody has had two"
    news = [("3", 7), (3, 7), ("03", 7)]
    assert step(tmp_path, "2", "4", TWICE, news) == ([7, 7], []), "and somebody new is one person"
    assert step(tmp_path, "4", "6", TWICE, [(3, 8), ("3.0", 8)]) == ([], [])
    if kept in ([1, 2], ["1", "2"]):  # text in another spelling was known by that text alone
        assert step(tmp_path, "2", "5", TWICE, [(1, 6), ("1", 6), (2, 6), ("2.0", 6)]) == ([], [])
    header = json.loads((tmp_path / "4" / "header").read_text().splitlines()[0])
    assert header["hashing"] == 1, "until its people are forgotten"


class Stopped(Exception):
    pass


def test_a_step_stopped_at_any_durable_write_leaves_a_whole_segment_or_none(tmp_path):
    step(tmp_path, None, "1", TWICE, [(1, 5)])
    names, copy = [], tmp_path / "copy"
    shutil.copytree(tmp_path / "1", copy / "1")
    wanted = step(copy, "1", "2", TWICE, [(1, 6)], [(1, 5)], point=names.append)
    assert sorted(set(names)) == sorted(POINTS) and names == sorted(names, key=POINTS.index)

    for stop in range(len(names)):

        def point(_, left=[stop]):  # noqa: B006
            if left[0] == 0:
                raise Stopped
            left[0] -= 1

        with pytest.raises(Stopped):
            step(tmp_path, "1", "2", TWICE, [(9, 9)], point=point)
        if names[stop] in ("memory.segment", "memory.links"):
            with pytest.raises(Corrupt):
                check(tmp_path / "2")
        assert step(tmp_path, "1", "2", TWICE, [(1, 6)], [(1, 5)]) == wanted
        assert content(tmp_path / "2") == content(copy / "2")


def written(path):
    """The bytes of a memory that no other folder shares."""
    return sum(file.stat().st_size for file in path.iterdir() if file.stat().st_nlink == 1)


@pytest.mark.parametrize("fresh", [True, False], ids=["new units", "the same units"])
def test_steps_write_three_times_what_changed_at_most(tmp_path, monkeypatch, fresh):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    unit, cells = User(column="id", events=10**6), np.zeros(20_000, np.int64)
    bound(
        old=None,
        new=tmp_path / "0",
        unit=unit,
        key=KEY,
        adds=(np.arange(20_000), cells),
        deletes=None,
    )
    many, total = 500, 0
    for number in range(1, 101):
        ids = np.arange(many) + (20_000 + number * many if fresh else number % 7)
        old, new = tmp_path / str(number - 1), tmp_path / str(number)
        bound(old=old, new=new, unit=unit, key=KEY, adds=(ids, cells[:many]), deletes=None)
        total += written(new)
        discard(old)
    assert total <= 100 * (3 * many * 28 + 8_000)
    assert check(new) == 20_000 + (100 * many if fresh else 0)


def test_a_lookup_reads_the_blocks_of_its_units_and_checks_them(tmp_path, monkeypatch):
    unit, cells = User(column="id", events=2), np.zeros(200_000, np.int64)
    adds = (np.arange(200_000), cells)
    bound(old=None, new=tmp_path / "1", unit=unit, key=KEY, adds=adds, deletes=None)
    size, total, read = written(tmp_path / "1"), [0], segment.Segment._read

    def counting(self, start, end):
        total[0] += end - start
        return read(self, start, end)

    monkeypatch.setattr(segment.Segment, "_read", counting)
    step(tmp_path, "1", "2", unit, [(7, 5), (9, 5)])
    # The index, 24 bytes of 1.8 kB, and few blocks.
    assert total[0] < size / 50
    data = bytearray((tmp_path / "1" / "1").read_bytes())
    place = data.index(hash_units(np.array([7]), KEY).tobytes())
    data[place + 20] ^= 1
    (tmp_path / "1" / "1").write_bytes(data)
    step(tmp_path, "1", "3", unit, [(9, 5)])
    with pytest.raises(Corrupt, match="'1' is damaged"):
        step(tmp_path, "1", "4", unit, [(7, 5)])
    with pytest.raises(Corrupt, match="'3' is damaged"):
        check(tmp_path / "3")


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "no space", "/secret/path")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        StateError, match=r"'1' cannot be read or written \(No space left on device\)"
    ) as caught:
        step(tmp_path, None, "1", TWICE, [(1, 5)])
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    with pytest.raises(Corrupt):
        check(tmp_path / "1")


def test_a_segment_is_discarded(tmp_path):
    step(tmp_path, None, "1", TWICE, [(1, 5)])
    discard(tmp_path / "1")
    discard(tmp_path / "1")
    assert not list(tmp_path.iterdir())


def test_numba_and_pyarrow_wait_until_they_are_used():
    code = (
        "import sys, tailrace.counting.memory\n"
        "print([m for m in ('numba', 'pyarrow', 'pandas') if m in sys.modules])"
    )
    assert python("-c", code).stdout == "[]\n"


@pytest.mark.parametrize("many", [1, 2, 3, 8, 100, 1001])
def test_events_are_accepted_in_the_order_of_their_places(many):
    rng = np.random.default_rng(many)
    cells, adds, word = np.arange(many), rng.integers(0, 4, many), np.uint64(7)
    places = [int(kernel.place(word, word, cell, word, word)) for cell in cells]
    wanted, room = adds.copy(), many
    for n in np.argsort(places, kind="stable"):
        wanted[n] = min(wanted[n], room)
        room -= wanted[n]
    kernel._accept(cells, adds, many, word, word, word, word)
    assert adds.tolist() == wanted.tolist() and adds.sum() <= many
