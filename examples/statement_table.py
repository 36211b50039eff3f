"""A table of all statements of a job: what was rewritten, by which rules, and why the others were not.

python examples/statement_table.py

The table is Parquet here, or Delta where its jar is there: FORMAT = "delta".
"""

from __future__ import annotations

import json
import tempfile
from typing import TYPE_CHECKING

from dovetail import Optimizer, StatementEvent
from dovetail.executor.session.session import local_session  # quiet, for this machine; a session of yours does as well

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "parquet"
SCHEMA = (
    "time STRING, hash STRING, call_site STRING, outcome STRING, rules ARRAY<STRING>, "
    "declined ARRAY<STRUCT<rule: STRING, reason: STRING, place: STRING>>, error STRING, planning_seconds DOUBLE, "
    "catalog_requests INT, seconds_saved DOUBLE, pairs_saved DOUBLE, text STRING, plan STRING"
)


class StatementTable:
    """A listener that holds events, and appends them to a table: many rows to a file, and no job while planning."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.spark, self.path = spark, path
        self.lines: list[str] = []

    def __call__(self, event: StatementEvent) -> None:
        self.lines.append(json.dumps(event.to_json()))

    def flush(self) -> None:
        """Append what has come, in one commit: at the end of a job, or each minute."""
        lines, self.lines = self.lines, []
        rows = self.spark.createDataFrame([(line,) for line in lines], "line STRING")
        table = rows.selectExpr(f"from_json(line, '{SCHEMA}') AS event").select("event.*")
        table.coalesce(1).write.format(FORMAT).mode("append").save(self.path)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, local_session("statement-table") as spark:
        spark.range(60_000).selectExpr("id * 7 % 900000 AS ts").createOrReplaceTempView("events")
        spark.range(6_000).selectExpr("id * 13 AS start", "id * 13 + 60 AS stop").createOrReplaceTempView("sessions")
        table = StatementTable(spark, f"{folder}/statements")
        opt = Optimizer(spark)
        opt.add_listener(table)
        opt.sql("SELECT count(*) FROM events e JOIN sessions s ON e.ts BETWEEN s.start AND s.stop").show()
        opt.sql("SELECT count(*) FROM events e JOIN sessions s ON e.ts <> s.start").show()
        table.flush()
        statements = spark.read.format(FORMAT).load(f"{folder}/statements")
        statements.select("hash", "outcome", "rules", "planning_seconds", "seconds_saved").show(truncate=False)


if __name__ == "__main__":
    main()
