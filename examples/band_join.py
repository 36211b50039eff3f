"""A band join in a batch: events counted by the session in which they lie, from two Parquet tables to the result.

python examples/band_join.py
"""

from __future__ import annotations

import tempfile

from dovetail import Optimizer
from dovetail.executor.session.session import local_session  # quiet, for this machine; a session of yours does as well

QUERY = """
SELECT s.device, count(*) AS events
FROM events e JOIN sessions s ON e.ts BETWEEN s.start AND s.end
GROUP BY s.device ORDER BY s.device
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, local_session("band-join") as spark:
        events = "timestamp_seconds(1700000000 + id * 7 % 900000) AS ts"
        sessions = """id % 3 AS device, timestamp_seconds(1700000000 + id * 13 % 900000) AS start,
                      timestamp_seconds(1700000000 + id * 13 % 900000 + id % 600) AS end"""
        for name, columns, rows in (("events", events, 60_000), ("sessions", sessions, 6_000)):
            spark.sql(f"SELECT {columns} FROM range({rows})").write.parquet(f"{folder}/{name}")
            spark.read.parquet(f"{folder}/{name}").createOrReplaceTempView(name)

        opt = Optimizer(spark)
        plan = opt.plan(QUERY)
        print(plan.explain())  # the join over bins; plan.declined has the reason if there is none
        plan.dataframe().show()
        print(opt.verify(QUERY))  # the same rows as plain Spark, which compares every event with every session


if __name__ == "__main__":
    main()
