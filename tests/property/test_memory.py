"""The unit memory against its rules written out: dictionaries, loops, and SipHash in plain
Python.
"""

import contextlib
import random
import re
import tempfile
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tailrace.counting.memory.batch
from samples import examples
from tailrace import User
from tailrace.counting.memory import bound, check, hash_units, levels, levels_kernel, segment
from tailrace.counting.memory.levels import EMPTY, Levels

KEY = bytes(range(16))
MASK = 2**64 - 1

ids = st.one_of(st.integers(0, 5), st.sampled_from(["b", "a", None]))
table = st.lists(st.tuples(ids, st.integers(-1, 3)), max_size=25)
steps = st.lists(st.tuples(table, table), min_size=1, max_size=4)
units = st.builds(
    lambda kind, m: User(column="id", **{kind: m}),
    st.sampled_from(["events", "records"]),
    st.integers(1, 4),
)
whole = pytest.mark.parametrize("pieces", [False, True], ids=["whole", "in pieces"])


def siphash(message, key=KEY):
    """SipHash-2-4 with 128 bits, from its paper, as bytes."""
    k0, k1 = (int.from_bytes(key[i : i + 8], "little") for i in (0, 8))
    v = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D ^ 0xEE,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]

    def turn(a, b, by):
        v[a] = (v[a] + v[b]) & MASK
        v[b] = ((v[b] << by) | (v[b] >> (64 - by))) & MASK ^ v[a]

    def rounds(count):
        for _ in range(count):
            turn(0, 1, 13), turn(2, 3, 16)
            v[0] = (v[0] << 32 | v[0] >> 32) & MASK
            turn(2, 1, 17), turn(0, 3, 21)
            v[2] = (v[2] << 32 | v[2] >> 32) & MASK

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) & 255])
    for i in range(0, len(padded), 8):
        word = int.from_bytes(padded[i : i + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    halves = []
    for place, constant in ((2, 0xEE), (1, 0xDD)):
        v[place] ^= constant
        rounds(4)
        halves.append(v[0] ^ v[1] ^ v[2] ^ v[3])
    return b"".join(half.to_bytes(8, "little") for half in halves)


def name(unit):
    """The hash of an integer or text."""
    return siphash(
        unit.encode() + b"s"
        if isinstance(unit, str)
        else unit.to_bytes(8, "little", signed=True) + b"i"
    )


class Reference:
    """What the memory must do, one unit and one row after the other."""

    def __init__(self, unit):
        self.unit, self.used, self.live = unit, Counter(), {}

    def step(self, adds, deletes):
        accepted, removed = [], []
        for who in {w for w, _ in adds + deletes} - {None}:
            live = self.live.setdefault(who, [])
            inserts = [cell for w, cell in adds if w == who and cell >= 0]
            inserts.sort(
                key=lambda cell: siphash(name(who) + cell.to_bytes(8, "little") + b"o")[7::-1]
            )
            waiting = [cell for w, cell in deletes if w == who and cell >= 0]
            if self.unit.records is not None:
                waiting = self.remove(live, waiting, removed)
            for cell in inserts:
                if (
                    (len(live) < self.unit.records)
                    if self.unit.records
                    else (self.used[who] < self.unit.events)
                ):
                    live.append(cell)
                    accepted.append(cell)
                    self.used[who] += 1
            self.remove(live, waiting, removed)
        return sorted(accepted), sorted(removed)

    def remove(self, live, cells, removed):
        left = []
        for cell in cells:
            if cell in live:
                live.remove(cell)
                removed.append(cell)
            else:
                left.append(cell)
        return left


def often():
    """Merge two segments of a class, in blocks of two rows, and read no file whole."""
    patches = contextlib.ExitStack()
    patches.enter_context(mock.patch.multiple(levels, RATIO=2, _LEAST=1))
    patches.enter_context(mock.patch.multiple(segment, BLOCK=2, _SMALL=0))
    return patches


def taking(many):
    return lambda: mock.patch.object(Levels, "taken_in", lambda self, *_: many(self.segments))


MERGES = {
    None: contextlib.nullcontext,
    "often": often,
    "always": taking(len),
    "never": taking(lambda _: 0),
}


class Memory:
    """`bound`, step after step, in a directory; in pieces: with slices and parts of a few rows."""

    def __init__(self, unit, *, pieces=False, merges=None):
        self.unit, self.count, self.merges = unit, 0, merges
        self.sizes = (1, 3, 16) if pieces else (19, 1 << 19, 1 << 25)
        self.folder = tempfile.TemporaryDirectory()

    @property
    def path(self):
        return Path(self.folder.name) / str(self.count)

    def step(self, adds, deletes):
        old = self.path if self.count else None
        self.count += 1
        sides = [
            (np.array([w for w, _ in side], object), np.array([c for _, c in side], int))
            for side in (adds, deletes)
        ]
        slices, piece, small = self.sizes
        with (
            mock.patch.multiple(
                tailrace.counting.memory.batch, _SLICE_BITS=slices, _PIECE=piece, SMALL=small
            ),
            mock.patch(
                "os.fsync"
            ),  # most of the time of a small step, and nothing here needs a disk
            MERGES[self.merges](),
        ):
            return bound(
                old=old, new=self.path, unit=self.unit, key=KEY, adds=sides[0], deletes=sides[1]
            )

    def rows(self):
        """The newest rows of every unit: hi, lo, cell, count."""
        found = EMPTY
        with contextlib.closing(Levels(self.path, None)) as memory:
            for part in memory.segments:
                found = levels_kernel.overlay(found, part.slice(0, 0))
        return found

    def content(self):
        assert check(self.path) == np.count_nonzero(self.rows()[3])
        return {file.name: file.read_bytes() for file in self.path.iterdir()}


BLANKS = " \t\n\v\f\r\x85\u00a0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
spellings = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=20),
    st.text("0123456789+-. \u00a0\u2003x", max_size=12),
)


def message(value):
    """What is hashed of an id, by one regular expression: a whole number within 64 bits as a
    number, else the text.
    """
    text = str(value).strip(BLANKS)
    if not text:
        return None
    spelt = re.fullmatch(r"([+-]?[0-9]+)(\.0*)?", text, flags=re.ASCII)
    return (
        text.encode() + b"s"
        if spelt is None
        else int(spelt[1]).to_bytes(8, "little", signed=True) + b"i"
    )


@given(st.lists(spellings), st.binary(min_size=16, max_size=16))
def test_the_hash_is_siphash_of_the_number_or_of_the_text(values, key):
    wanted = [
        bytes(16) if message(value) is None else siphash(message(value), key) for value in values
    ]
    mixed = hash_units(np.array([*values, None], object)[:-1], key)
    assert [unit.tobytes() for unit in mixed] == wanted
    texts = hash_units(pa.array([str(value) for value in values], pa.string()), key)
    assert [unit.tobytes() for unit in texts] == wanted


@whole
@examples(100)
@given(units, steps)
def test_the_memory_does_what_the_rules_say(pieces, unit, batches):
    reference, memory = Reference(unit), Memory(unit, pieces=pieces)
    for adds, deletes in batches:
        result = memory.step(adds, deletes)
        assert (sorted(result.adds.tolist()), sorted(result.deletes.tolist())) == reference.step(
            adds, deletes
        )
    used, live = sum(reference.used.values()), sum(map(len, reference.live.values()))
    counts = memory.rows()[3]
    assert counts.sum() == (used if unit.events else live)


@whole
@examples(50)
@given(units, steps, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(pieces, unit, batches, shuffler: random.Random):
    one, other = Memory(unit), Memory(unit, pieces=pieces)
    for adds, deletes in batches:
        result = one.step(adds, deletes)
        again = other.step(*(shuffler.sample(side, len(side)) for side in (adds, deletes)))
        assert np.array_equal(result.adds, again.adds) and np.array_equal(
            result.deletes, again.deletes
        )
        assert one.content() == other.content()


people = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=12)


@pytest.mark.parametrize("merges", ["often", "never", None])
@examples(40)
@given(units, st.lists(st.tuples(people, people), min_size=1, max_size=9))
def test_when_segments_are_merged_changes_nothing(merges, unit, batches):
    """As if the whole memory were written at each step, which earlier versions did."""
    one, other = Memory(unit, merges="always"), Memory(unit, merges=merges)
    for sides in batches:
        result, again = one.step(*sides), other.step(*sides)
        assert np.array_equal(result.adds, again.adds)
        assert np.array_equal(result.deletes, again.deletes)
    with MERGES[merges]():
        found = other.rows()
    # A unit with nothing left may have a row that hides older ones.
    for column, wanted in zip(found, one.rows(), strict=True):
        assert np.array_equal(column[found[3] > 0], wanted)


@examples(50)
@given(units, steps, ids)
def test_a_unit_that_comes_or_goes_changes_only_its_own_rows(unit, batches, who):
    """All together is everybody else plus the unit alone, step by step; and the unit alone keeps
    its bound.
    """
    everyone, others, alone = Memory(unit), Memory(unit), Memory(unit)
    inserted = live = 0
    for sides in batches:
        every = everyone.step(*sides)
        rest = others.step(*([row for row in side if row[0] != who] for side in sides))
        own = alone.step(*([row for row in side if row[0] == who] for side in sides))
        for side in ("adds", "deletes"):
            parts = Counter(getattr(rest, side).tolist()) + Counter(getattr(own, side).tolist())
            assert Counter(getattr(every, side).tolist()) == parts
        inserted += len(own.adds)
        live += len(own.adds) - len(own.deletes)
        assert inserted <= unit.events if unit.events else 0 <= live <= unit.records
