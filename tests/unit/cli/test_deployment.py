"""An entry for the public registry, made from ledger and releases."""

import json

import polars as pl

import tailrace as tr
from processes import call


def test_the_entry_says_what_ledger_and_releases_know(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mechanism = tr.HistogramStream(
        domain=tr.Schema(sex=tr.Categorical(["f", "m"])),
        privacy=tr.ZCDP(rho=0.5),
        unit=tr.User(column="id", events=3),
        horizon=9,
    )
    with tr.Stream.create("w.tail", mechanism, population="ward") as stream:
        stream.push(pl.DataFrame({"id": [1, 2], "sex": ["f", "m"]}))
        promise = str(stream.guarantee)
    found = json.loads(call("ledger", "deployment", "w.tail").output)
    assert found["tier_2"] == {
        "flavour": "zCDP",
        "privacy_unit": "User-level",
        "privacy_loss": {"rho": 0.5},
        "model": "Central",
    }
    assert found["tier_1"]["steps_released"] == 1 and found["tier_1"]["population"] == "ward"
    assert found["tier_3"]["guarantee"] == promise
    assert found["tier_3"]["data_domain"]["plain"]["attributes"][0]["column"] == "sex"
    call("ledger", "deployment", "w.tail", "--to", "dp.json")
    assert json.loads((tmp_path / "dp.json").read_text()) == found
