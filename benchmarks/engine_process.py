"""Runs queries on an engine in this process: a job of JSON on each line in, and its row on a line out.

``benchmarks/sail.py`` and ``benchmarks/engines.py`` start it in the environment of the engine:
``python -m benchmarks.engine_process ENGINE JARS``, where ENGINE is a name of ``tests/engines/engine_sessions.py``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "engines"))

from dovetail import Optimizer
from engine_sessions import ENGINES, session_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main(name: str, jars: list[str]) -> None:
    """Read jobs until there are no more."""
    with tempfile.TemporaryDirectory() as folder, session_of(ENGINES.get(name), Path(folder), jars) as session:
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
    main(sys.argv[1], [jar for jar in sys.argv[2].split(",") if jar])
