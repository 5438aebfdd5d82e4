import dataclasses
import io
import json
import zlib

import numpy as np
import pytest

from tailrace import ConfigError, Corrupt, Mismatch, PureDP
from tailrace.counters import BinaryTree, Block, Hybrid, Simple
from tailrace.counting.plan import Counts
from tailrace.storage.codec import _flat, pack, unpack

STATE = Block(size=3, privacy=PureDP(epsilon=1)).init(4)


def test_a_damaged_or_short_file_is_refused():
    data = pack(STATE)
    for broken in (b"", data[:50], data[:-30], b"x" * len(data)):
        with pytest.raises(Corrupt, match="damaged or cut short"):
            unpack(broken, like=STATE)


def test_a_state_of_another_shape_is_refused():
    other = Hybrid(privacy=PureDP(epsilon=1)).init(4)
    with pytest.raises(Mismatch, match="does not fit this configuration"):
        unpack(pack(STATE), like=other)
    wider = dataclasses.replace(STATE, total=STATE.total.astype(float))
    with pytest.raises(Mismatch, match="does not fit"):
        unpack(pack(wider), like=STATE)


def test_unknown_parts_are_refused():
    @dataclasses.dataclass(frozen=True)
    class Clock:
        clock: np.ndarray

    with pytest.raises(Mismatch, match="parts that this configuration does not know"):
        unpack(pack(STATE), like=Clock(STATE.clock))


def test_code_never_comes_from_a_file():
    with pytest.raises(ConfigError, match="arrays, dataclasses and tuples"):
        pack({"a": 1})
    objects = dataclasses.replace(Simple().init(1), clock=np.array([object()]))
    with pytest.raises(ConfigError, match="arrays, dataclasses and tuples"):
        pack(objects)
    crafted = io.BytesIO()
    np.savez(crafted, **{"/clock": np.array([object()])}, allow_pickle=True)
    with pytest.raises(Corrupt):
        unpack(crafted.getvalue(), like=Simple().init(1))


def test_a_state_of_another_horizon_or_number_of_rows_is_refused():
    small, large = (BinaryTree(privacy=PureDP(epsilon=1), horizon=horizon) for horizon in (4, 40))
    with pytest.raises(Mismatch, match="does not fit"):
        unpack(pack(small.init(3)), like=large.init(0))
    with pytest.raises(Mismatch, match="does not fit"):
        unpack(pack(small.init(3)), like=small.init(2))
    assert len(unpack(pack(small.init(3)), like=small.init(0)).clock) == 3, (
        "no rows in like: any number"
    )


def test_no_bit_flip_gives_another_error():
    data = bytearray(pack(STATE))
    rng = np.random.default_rng(0)
    for bit in rng.permutation(8 * len(data))[:3000]:
        data[bit // 8] ^= 1 << bit % 8
        try:
            loaded = unpack(bytes(data), like=STATE)
        except (Corrupt, Mismatch):
            pass
        else:
            assert pack(loaded) == pack(STATE), "a flip that is not noticed changes nothing"
        data[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize("length", [[1, 1], 1.7, -1, 10**9])
def test_a_crafted_length_is_refused(length):
    state = Hybrid(privacy=PureDP(epsilon=1)).init(2)
    crafted = crafted_from(state, {"/running/length": np.array(length)})
    with pytest.raises((Corrupt, Mismatch)):
        unpack(crafted, like=state)


def crafted_from(state, changed):
    """A packed state with some arrays put in place of others."""
    arrays = {**_flat(state), **changed}
    header = [
        [name, "=", array.dtype.str, array.dtype.str, array.shape] for name, array in arrays.items()
    ]
    said = json.dumps(header).encode()
    body = zlib.compress(b"".join(array.tobytes() for array in arrays.values()))
    return len(said).to_bytes(4, "big") + said + body


@pytest.mark.parametrize(
    "header",
    [
        [["/clock", "=", "|O", "|O", [1]]],
        [["/clock", "=", "<i8", "<i8", [10**15]]],
        [["/clock", "=", "<i8", "<i8", [-1]]],
        [["/clock", "?", "<i8", "<i8", [1]]],
        [["/nowhere", "+", "<i8", "<i8", [1]]],
        [["/nowhere", "-", "<i8", "<i8", [0]]],
        [["/clock", "@", "<i8", "<i8", [1]]],
        {"clock": 1},
        [7],
    ],
    ids=str,
)
def test_a_crafted_header_is_damage(header):
    said = json.dumps(header).encode()
    data = len(said).to_bytes(4, "big") + said + zlib.compress(bytes(8))
    for since in (None, STATE):
        with pytest.raises((Corrupt, Mismatch)):
            unpack(data, like=STATE, since=since)


@dataclasses.dataclass(frozen=True)
class Inner:
    many: np.ndarray
    real: np.ndarray


@dataclasses.dataclass(frozen=True)
class Outer:
    step: np.ndarray
    many: np.ndarray
    rows: np.ndarray
    real: np.ndarray
    parts: tuple


def inner(rng):
    size = int(rng.integers(1, 4))
    return Inner(rng.integers(-9, 9, size), rng.choice([0.0, -0.0, 1.5, np.nan, 7.0], size))


def changed(state, rng):
    """A state that may follow: some arrays change here and there, some grow, some are replaced."""
    many, real = state.many.copy(), state.real.copy()
    if rng.random() < 0.3:
        many = rng.integers(-(2**62), 2**62, int(rng.integers(1, 40)))
    else:
        many[rng.random(len(many)) < rng.random()] += rng.integers(-300, 300)
    real[rng.random(len(real)) < 0.3] = rng.choice([2.0, -0.0, np.nan, 1e300, 0.1])
    rows = np.concatenate([state.rows, rng.integers(0, 9, (int(rng.integers(0, 3)), 2))])
    parts = [list(state.parts), [*state.parts, inner(rng)], [*state.parts[:1]], [inner(rng)]]
    return Outer(np.array(state.step + 1), many, rows, real, tuple(parts[rng.integers(4)]))


@pytest.mark.parametrize("seed", range(8))
def test_changes_make_the_next_state_bit_for_bit(seed):
    rng = np.random.default_rng(seed)
    first = Outer(np.array(0), np.zeros(30, int), np.zeros((1, 2), int), np.zeros(9), (inner(rng),))
    nothing = Inner(np.zeros(0, int), np.zeros(0))
    like = Outer(np.array(0), np.zeros(0, int), np.zeros((0, 2), int), np.zeros(0), (nothing,))
    kept = state = first
    for _ in range(30):
        later = changed(state, rng)
        kept = unpack(pack(later, since=state), like=like, since=kept)
        assert pack(kept) == pack(later)
        assert all(
            a.tobytes() == b.tobytes()
            for a, b in zip(_flat(kept).values(), _flat(later).values(), strict=True)
        )
        state = later


def test_what_did_not_change_takes_no_room():
    state = dataclasses.replace(STATE, total=np.arange(10**5))
    assert len(pack(state, since=state)) < 100
    later = dataclasses.replace(state, total=np.where(np.arange(10**5) == 77, -1, state.total))
    assert len(pack(later, since=state)) < 200 < len(pack(state)) / 100


def test_states_of_earlier_versions_are_read():
    archive = io.BytesIO()
    np.savez(archive, **_flat(STATE))
    assert pack(unpack(archive.getvalue(), like=STATE)) == pack(STATE)


def test_a_field_with_a_default_may_be_missing():
    @dataclasses.dataclass(frozen=True)
    class Then:
        one: np.ndarray

    @dataclasses.dataclass(frozen=True)
    class Now:
        one: np.ndarray
        two: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))

    like, then = Now(np.zeros(0)), Then(np.arange(4.0))
    state = unpack(pack(then), like=like)
    assert len(state.two) == 0
    changed = unpack(pack(Then(np.arange(5.0)), since=then), like=like, since=state)
    assert np.array_equal(changed.one, np.arange(5.0)) and len(changed.two) == 0
    with pytest.raises(Mismatch, match="does not fit"):
        unpack(pack(then), like=dataclasses.replace(STATE))


def test_few_counts_among_many_zeros_take_little_room():
    counts = np.zeros((3, 100_000), np.int64)
    counts[1, 7], counts[2, 99_999] = 5, -(2**40)
    again = unpack(pack(Counts(counts, counts)), like=Counts(counts[:0], counts[:0]))
    assert np.array_equal(again.adds, counts) and np.array_equal(again.deletes, counts)
    assert len(pack(Counts(counts, counts))) < 500


def test_other_files_are_refused():
    plain = io.BytesIO()
    np.save(plain, np.zeros(3))
    for data in (plain.getvalue(), b"PK\x05\x06" + bytes(18)):
        with pytest.raises((Corrupt, Mismatch)):
            unpack(data, like=STATE)


@pytest.mark.parametrize(
    "values", [[0], [-128, 127], [-129, 127], [2**31 - 1], [2**31], [-(2**63), 2**63 - 1], []]
)
def test_integers_of_any_size_come_back(values):
    state = dataclasses.replace(STATE, total=np.array(values, np.int64))
    again = unpack(pack(state), like=dataclasses.replace(STATE, total=np.zeros(0, np.int64)))
    assert again.total.dtype == np.int64 and again.total.tolist() == values
