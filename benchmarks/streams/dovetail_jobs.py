"""Jobs of Dovetail in a process of its own, so that they begin as cold as those of another engine.

It reads a job as a line of JSON: ``streams`` (folders of CSV by name), ``schema``, ``delay``, ``per_epoch`` (files),
``query``, ``folder`` and ``sink`` (a format of files, or ``noop``); and answers with a line that `children.py` reads.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter

from benchmarks import harness
from benchmarks.streams.bench import TIME_FORMAT
from dovetail import Optimizer, Options, Sink


def main() -> None:
    """One job for each line."""
    with harness.session("streams") as spark:
        for line in sys.stdin:
            job = json.loads(line)
            start = perf_counter()
            session = spark.newSession()
            for name, folder in job["streams"].items():
                reader = session.readStream.schema(job["schema"]).option("timestampFormat", TIME_FORMAT)
                stream = reader.option("maxFilesPerTrigger", job["per_epoch"]).csv(folder)
                stream.withWatermark("ts", job["delay"]).createOrReplaceTempView(name)
            folder = Path(job["folder"])
            noop = job["sink"] == "noop"
            sink = Sink("noop") if noop else Sink(job["sink"], folder / "out", options={"timestampFormat": TIME_FORMAT})
            checkpoint = folder / "checkpoint"
            begun = perf_counter()
            query = Optimizer(session, Options(force=False)).stream(
                job["query"], checkpoint=checkpoint, sink=sink, trigger="available now", state_modules=True
            )
            query.awaitTermination()
            seconds, ran = perf_counter() - start, perf_counter() - begun
            epochs = [p["batchDuration"] / 1000 for p in query.recentProgress if p["numInputRows"]]
            answer = {"seconds": seconds, "ran": ran, "epochs": epochs}
            jvm = spark._jvm.ProcessHandle.current().pid()
            print(f"answer {json.dumps(answer | {'jvm': jvm})}", flush=True)


if __name__ == "__main__":
    main()
