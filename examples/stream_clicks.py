"""Clicks joined with the views before them by time alone, which Spark's own stream-stream join refuses.

python examples/stream_clicks.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from dovetail import Optimizer, Sink
from dovetail.executor.session.session import local_session  # quiet, for this machine; a session of yours does as well

# There is no key: a click matches all views of the five seconds before it; clicks without a view are returned, too.
QUERY = """
SELECT c.id, c.ts, v.page
FROM clicks c LEFT JOIN views v ON v.ts BETWEEN c.ts - INTERVAL 5 SECONDS AND c.ts
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch, local_session("stream-clicks") as spark:
        folder = Path(scratch)
        for name, columns in (("clicks", "id INT, ts TIMESTAMP"), ("views", "page STRING, ts TIMESTAMP")):
            (folder / name).mkdir()
            stream = spark.readStream.schema(columns).option("header", "true").csv(str(folder / name))
            stream.withWatermark("ts", "10 seconds").createOrReplaceTempView(name)
        (folder / "views" / "0.csv").write_text(
            "page,ts\nhome,2024-05-01 10:00:00\nshoes,2024-05-01 10:00:03\nhats,2024-05-01 10:01:00\n"
        )
        (folder / "clicks" / "0.csv").write_text(
            "id,ts\n1,2024-05-01 10:00:04\n2,2024-05-01 10:00:30\n3,2024-05-01 10:01:02\n4,2024-05-01 10:02:00\n"
        )
        # A click without a view waits until no view can come any more: click 4 is not final yet.
        opt = Optimizer(spark)
        print(opt.stream_plan(QUERY).explain())
        sink = Sink("json", folder / "led")
        opt.stream(QUERY, checkpoint=folder / "state", sink=sink, trigger="available now").awaitTermination()
        spark.read.schema("id INT, ts TIMESTAMP, page STRING").json(str(folder / "led")).orderBy("id", "page").show()


if __name__ == "__main__":
    main()
