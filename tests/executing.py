"""Spark's part in counting, in this process: frames in partitions, and tasks that may run twice.

Real Spark takes seconds to start; `e2e/test_engines.py` and `e2e/test_spark.py` have it.
"""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa


class Frame:
    """Partitions of record batches, with the calls that `executors` and `spread` use."""

    def __init__(self, parts, session):
        self.parts, self.sparkSession = parts, session

    @property
    def columns(self):
        return self.toArrow().column_names

    def mapInArrow(self, task, schema):  # noqa: N802
        for part in self.parts if self.sparkSession.twice else ():
            list(task(iter(part)))
        return Frame([list(task(iter(part))) for part in self.parts], self.sparkSession)

    def repartition(self, many, name):
        table = self.toArrow()
        place = np.asarray(table[name]) % many
        return Frame(
            [table.filter(place == i).to_batches() for i in range(many)], self.sparkSession
        )

    def groupBy(self, *names):  # noqa: N802
        table = self.toArrow()

        def summed(*columns):
            found = table.group_by(list(names)).aggregate([(name, "sum") for name in columns])
            renamed = {f"{name}_sum": f"sum({name})" for name in columns}
            found = found.rename_columns([renamed.get(name, name) for name in found.column_names])
            return SimpleNamespace(toArrow=lambda: found)

        return SimpleNamespace(sum=summed)

    def toArrow(self):  # noqa: N802
        return pa.Table.from_batches([batch for part in self.parts for batch in part])


class Session:
    """Cuts frames into partitions; `twice`: each task runs twice, as after a failure."""

    def __init__(self, partitions=3, twice=False):
        self.partitions, self.twice = partitions, twice
        self.conf = SimpleNamespace(get=lambda name, default: default)
        self._sc = SimpleNamespace(defaultParallelism=2, master="elsewhere")

    def range(self, start, stop, step, many):
        ids = np.array_split(np.arange(start, stop, step), many)
        return Frame([[pa.RecordBatch.from_pydict({"id": some})] for some in ids], self)

    def frame(self, table):
        many = -(-max(1, len(table)) // self.partitions)
        return Frame(
            [
                table.slice(at * many, many).combine_chunks().to_batches(max_chunksize=64)
                for at in range(self.partitions)
            ],
            self,
        )
