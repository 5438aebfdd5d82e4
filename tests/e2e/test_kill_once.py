"""One release of trajectories, killed at every durable write and between rounds, and resumed: the
same release, charged once.
"""

import pytest

from tailrace import Stream
from tailrace.ledger import Ledger
from tailrace.storage.codec import pack


def everything(folder):
    """The release and the public state behind it, and what was charged."""
    with Stream.open(folder / "ward.tail") as stream:
        release, state = stream.release(1), stream._standing.state
        seen = [release.table.to_dict(as_series=False), pack(state.public), str(release.guarantee)]
        left = [
            name
            for name in ("intent", "intent/counts", "intent/adds")
            if stream._store.find(name) is not None
        ]
    entries = [
        (e.population, e.guarantee, e.mark) for e in Ledger(folder / "tailrace.ledger").entries()
    ]
    return {"release": seen, "left": left, "ledger": entries}


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "make"), [("user", "default"), ("event", "paper")])
def test_killed_at_points_and_in_rounds_it_is_released_and_charged_once(
    killing, tmp_path, unit, make
):
    found = killing("killing_once.py", tmp_path, unit, make)
    assert len(found["points"]) > 8 and found["ways"] == len(found["points"]) + found["rounds"] + 1
    wanted = everything(tmp_path / "0")
    assert wanted["left"] == [] and len(wanted["ledger"]) == 1 and wanted["ledger"][0][2].step == 1
    for number in found["numbers"]:
        assert everything(tmp_path / str(number)) == wanted, number
