import dataclasses

import numpy as np
import pytest

from tailrace import ConfigError, Corrupt, Mismatch, PureDP
from tailrace.counters import Block, Hybrid, Simple
from tailrace.store import pack, unpack

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
