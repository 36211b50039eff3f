"""An aggregate over a band join, estimated to 5 % and then to 1 %, and the exact answer to compare.

python examples/estimate.py
"""

from __future__ import annotations

import sys

from dovetail import Optimizer
from dovetail.executor.session.session import local_session  # quiet, for this machine; a session of yours does as well

QUERY = """
    SELECT s.device, count(*) AS n, sum(e.amount) AS total, avg(e.amount) AS mean
    FROM events e JOIN sessions s ON e.ts BETWEEN s.start AND s.stop
    GROUP BY s.device
"""


def main(rows: int = 2_000_000) -> None:
    """Make the tables, show each answer, and then the exact one."""
    with local_session("estimate", "local[2]", None) as spark:
        events = f"SELECT id AS ts, CAST(pmod(hash(id), 100) AS DOUBLE) AS amount FROM range({rows})"
        spark.sql(events).createOrReplaceTempView("events")
        start = f"pmod(hash(id), {rows})"
        sessions = f"SELECT id % 3 AS device, {start} AS start, {start} + id % 6000 AS stop FROM range({rows // 100})"
        spark.sql(sessions).createOrReplaceTempView("sessions")
        opt = Optimizer(spark)
        for error in (0.05, 0.01):
            for answer in opt.estimate(QUERY, error=error, seed=7):
                answer.show()
        opt.sql(QUERY).show()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
