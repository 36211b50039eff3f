"""A join of a stream with itself, in a process to be killed: python stream_crash_main.py FOLDER NAME.

Reads the files of FOLDER/in, one to an epoch, and ends when all have been taken.
"""

from __future__ import annotations

import sys
from pathlib import Path

from optimizer import Optimizer, Sink
from sessions import start

QUERY = """SELECT a.id, b.id AS bid, a.ts FROM s a JOIN s b
ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL 3 SECONDS AND b.ts + INTERVAL 2 SECONDS AND a.id <> b.id"""


def main(folder: Path, name: str) -> None:
    session = start("classic", folder / "spark")
    stream = session.readStream.schema("id INT, k INT, ts TIMESTAMP").option("maxFilesPerTrigger", 1)
    stream.json(str(folder / "in")).withWatermark("ts", "5 seconds").createOrReplaceTempView("s")
    sink = Sink("parquet", folder / name / "out")
    query = Optimizer(session).stream(
        QUERY, checkpoint=folder / name / "checkpoint", sink=sink, trigger="1 second", state_modules=True
    )
    print("started", flush=True)
    query.processAllAvailable()
    query.stop()
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
