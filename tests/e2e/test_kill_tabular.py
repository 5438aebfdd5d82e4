"""A tabular stream, killed at durable writes and resumed each time, releases the same tables,
models and counts to the last bit.
"""

import pytest

from tailrace import Stream
from tailrace.ledger import Ledger
from tailrace.storage.codec import pack


def everything(folder):
    """Tables, changes, marginals, state arrays and marks."""
    with Stream.open(folder / "ward.tail") as stream:
        seen, views = [], 0
        for step in range(1, stream.step + 1):
            release = stream.release(step)
            frames = (release.table, release.changes.added, release.changes.removed)
            seen += [frame.to_dict(as_series=False) for frame in frames]
            if release.view is not None:
                views += 1
                seen.append(release.view.marginal("kind", "size").values.tobytes())
        state = stream._standing.state
        seen += [pack(state.public), pack(state.private)]
        epochs = int(state.public.epoch)
    entries = [(e.guarantee, e.mark) for e in Ledger(folder / "tailrace.ledger").entries()]
    return {"seen": seen, "views": views, "epochs": epochs, "entries": entries}


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["event", "user"])
def test_killed_and_resumed_nothing_differs(killing, tmp_path, unit):
    killing("killing_tabular.py", "unbroken", tmp_path / "unbroken", unit)
    kills = killing("killing_tabular.py", "at_writes", tmp_path / "broken", unit)["kills"]
    whole, broken = everything(tmp_path / "unbroken"), everything(tmp_path / "broken")
    assert kills >= 10
    assert whole["epochs"] >= 4 and whole["views"] >= 5
    assert len(whole["entries"]) == 1 and whole == broken
