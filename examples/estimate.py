"""An aggregate over a band join, estimated to 5 % and then to 1 %, beside the exact answer.

python examples/estimate.py
"""

from __future__ import annotations

import sys

from dovetail import Optimizer
from dovetail.executor.session.session import local_session  # quiet, for this machine; a session of yours does as well

QUERY = """
    SELECT s.device, count(*) AS events, avg(e.amount) AS mean
    FROM events e JOIN sessions s ON e.at BETWEEN s.start AND s.start + 3000
    GROUP BY s.device
"""


def main(rows: int = 200_000) -> None:
    """Make the tables, and show each answer."""
    with local_session("estimate", "local[2]", None) as spark:
        events = f"SELECT id AS at, cast(hash(id) % 100 AS double) AS amount FROM range({rows})"
        spark.sql(events).createOrReplaceTempView("events")
        sessions = f"SELECT id * 100 AS start, id % 3 AS device FROM range({rows // 100})"
        spark.sql(sessions).createOrReplaceTempView("sessions")
        opt = Optimizer(spark)
        for error in (0.05, 0.01):
            for answer in opt.estimate(QUERY, error=error, seed=7):
                answer.show()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
