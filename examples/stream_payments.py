"""Payments joined with themselves: a card that pays in two cities within ten minutes.

python examples/stream_payments.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from dovetail import Optimizer, Sink
from dovetail.executor.session.session import local_session  # quiet, for this machine; a session of yours does as well

# One stream, read twice: its rows are kept once, and each pair comes once, whichever of the two payments arrives later.
QUERY = """
SELECT a.card, a.city, b.city AS then_city, a.id AS first, b.id AS second,
       round((unix_millis(b.ts) - unix_millis(a.ts)) / 60000.0, 1) AS minutes
FROM payments a JOIN payments b
ON a.card = b.card AND a.city <> b.city AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 MINUTES
"""
PAYMENTS = [
    "1,alice,Rome,2024-05-01 10:00:00\n2,bob,Paris,2024-05-01 10:01:00\n3,carol,Oslo,2024-05-01 10:02:00\n",
    "5,bob,Paris,2024-05-01 10:05:00\n6,alice,Rome,2024-05-01 10:06:00\n7,carol,Bern,2024-05-01 10:30:00\n",
    "4,alice,Madrid,2024-05-01 10:04:30\n8,bob,Lima,2024-05-01 10:31:00\n",  # the first of them half an hour late
]


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch, local_session("stream-payments") as spark:
        folder = Path(scratch)
        (folder / "in").mkdir()
        schema = "id INT, card STRING, city STRING, ts TIMESTAMP"
        stream = spark.readStream.schema(schema).csv(str(folder / "in"))
        stream.withWatermark("ts", "1 hour").createOrReplaceTempView("payments")

        opt = Optimizer(spark)
        print(opt.stream_plan(QUERY).explain())
        for number, lines in enumerate(PAYMENTS):  # each start goes on where the last one ended
            (folder / "in" / f"{number}.csv").write_text(lines)
            sink = Sink("parquet", folder / "suspicious")
            opt.stream(QUERY, checkpoint=folder / "state", sink=sink, trigger="available now").awaitTermination()
        spark.read.parquet(str(folder / "suspicious")).orderBy("first").show()


if __name__ == "__main__":
    main()
