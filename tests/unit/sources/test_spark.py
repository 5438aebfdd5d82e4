"""What a source of Spark can say without Spark."""

import json
from types import SimpleNamespace

import pytest

from tailrace.sources import spark as module
from tailrace.sources.spark import unguarded

SAFE = {"spark.io.encryption.enabled": "true", "spark.network.crypto.enabled": "true"}


def session(master="spark://host:7077", **settings):
    values = SAFE | {name.replace("_", "."): value for name, value in settings.items()}
    conf = SimpleNamespace(get=lambda name, default: values.get(name, default))
    return SimpleNamespace(conf=conf, sparkContext=SimpleNamespace(master=master))


def test_settings_that_leave_rows_readable_are_named():
    assert unguarded(session()) == []
    off = {"spark_io_encryption_enabled": "false", "spark_network_crypto_enabled": "false"}
    assert len(unguarded(session(**off))) == 2
    (disk,) = unguarded(session("local[2]", **off))
    assert "set spark.io.encryption.enabled=true" in disk
    (log,) = unguarded(session(spark_eventLog_enabled="true"))
    assert "set spark.eventLog.enabled=false" in log


@pytest.mark.parametrize("guarded", [True, False])
def test_check_warns_of_them(guarded, tmp_path, configure, tailrace, monkeypatch):
    source = 'kind = "Spark"\nloads = "parquet"\ncheckpoint = "/no"\ntime = "day"'
    configure(tmp_path, source=source)
    monkeypatch.chdir(tmp_path)
    found = session() if guarded else session(spark_io_encryption_enabled="false")
    monkeypatch.setattr(module, "_session", lambda: found)
    said = json.loads(tailrace("check", "stream.toml", "--json").stdout)
    assert len(said["warnings"]) == (not guarded) and said["files"] == {}
