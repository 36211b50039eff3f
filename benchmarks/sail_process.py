"""Runs queries on a server of Sail in this process: a job of JSON on each line in, and its row on a line out.

``benchmarks/sail.py`` starts it in Sail's own environment, which has no other PySpark.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from dovetail import Optimizer
from dovetail.executor.session.sail import sail_server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main() -> None:
    """Read jobs until there are no more."""
    with sail_server() as address:
        session: Any = SparkSession.builder.remote(address).getOrCreate()
        optimizer, seen = Optimizer(session), dict[str, str]()
        for line in sys.stdin:
            print(json.dumps(_answer(session, optimizer, json.loads(line), seen)), flush=True)


def _answer(session: Any, optimizer: Optimizer, job: dict[str, Any], seen: dict[str, str]) -> dict[str, Any]:
    """Run a job and return its row, or what went wrong; ``seen`` are the files of the views that are there."""
    try:
        for name, folder in job["tables"].items():
            if seen.get(name) != folder:
                session.read.parquet(folder).createOrReplaceTempView(name)
                seen[name] = folder
        frame: DataFrame = session.sql(job["query"]) if job["plain"] else optimizer.sql(job["query"])
        (row,) = frame.collect()
        return {"row": [int(value) for value in row]}
    except Exception as error:  # noqa: BLE001
        return {"error": str(error)}


if __name__ == "__main__":
    main()
