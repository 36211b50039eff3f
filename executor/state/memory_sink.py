"""A sink in memory: a temporary view over all rows so far, which stay in the JVM of the driver."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dovetail.executor.state.output import Output
from dovetail.executor.state.segments import settings


class MemoryOutput(Output):
    """A temporary view with all rows so far, for tests and trying out.

    Rows do not pass through Python, which has no year 12024, no interval of months, and one 01:30 where clocks go back.
    """

    def __init__(self, session: SparkSession, name: str):
        self.session, self.name = session, name
        self._parts: list[tuple[int, Any]] = []  # the last epoch of each part, and its rows, a list of Java's

    def write(self, answer: DataFrame, epoch: int, *, again: bool) -> None:
        """Store the rows, and replace the view."""
        while self._parts and self._parts[-1][0] >= epoch:
            self._parts.pop()
        self._merge()
        # The encoder of a DataFrame is chosen when it is made; Java's old classes have another calendar before 1582.
        with settings(answer.sparkSession, {"spark.sql.datetime.java8API.enabled": "true"}):
            rows: Any = answer.select("*")._jdf.collectAsList()
        self._parts.append((epoch, rows))
        parts = [self._frame(stored, answer.schema) for _, stored in self._parts if not stored.isEmpty()]
        found = parts[0] if parts else self._frame(rows, answer.schema)
        for part in parts[1:]:
            found = found.union(part)
        found.createOrReplaceTempView(self.name)

    def _merge(self) -> None:
        """Make one of parts of about one size, so that there are few, and each row is copied a few times only."""
        while len(self._parts) > 1 and self._parts[-2][1].size() <= 2 * self._parts[-1][1].size():
            epoch, rows = self._parts.pop()
            _, older = self._parts.pop()
            jvm: Any = self.session._jvm
            both = jvm.java.util.ArrayList(older)
            both.addAll(rows)
            self._parts.append((epoch, both))

    def _frame(self, rows: Any, schema: StructType) -> DataFrame:
        """Rows as a DataFrame; any value may be NULL, in one epoch or another."""
        spark: Any = self.session._jsparkSession
        return DataFrame(spark.createDataFrame(rows, spark.parseDataType(schema.json()).asNullable()), self.session)
