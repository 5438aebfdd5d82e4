import dataclasses
import io

import numpy as np
import pytest

from tailrace import ConfigError, Corrupt, Mismatch, PureDP
from tailrace.counters import BinaryTree, Block, Hybrid, Simple
from tailrace.storage.codec import pack, unpack

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
    with pytest.raises(ValueError, match="allow_pickle"):
        pack(objects)


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
    for bit in rng.choice(8 * len(data), 3000, replace=False):
        data[bit // 8] ^= 1 << bit % 8
        try:
            loaded = unpack(bytes(data), like=STATE)
        except (Corrupt, Mismatch):
            pass
        else:
            assert pack(loaded) == pack(STATE), "a flip that is not noticed changes nothing"
        data[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize(
    "length", [np.array([1, 1]), np.array(1.7), np.array("x"), np.array(-1), np.array(10**9)]
)
def test_a_crafted_length_is_refused(length):
    state = Hybrid(privacy=PureDP(epsilon=1)).init(2)
    with np.load(io.BytesIO(pack(state))) as file:
        arrays = {**file, "/running/length": length}
    crafted = io.BytesIO()
    np.savez(crafted, **arrays)
    with pytest.raises(Mismatch):
        unpack(crafted.getvalue(), like=state)


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
