"""TPC-H as DataFrames of Spark Connect, as JSON: ``python connect_tpch_main.py SCRATCH``.

It prints the queries that are rewritten, and those of them whose rows differ from those of the DataFrame as it is.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from connect_frames_main import difference
from dovetail import Optimizer, Options
from programs.tpch_frames import QUERIES
from sessions import start
from tpc import data


def main(session: Any) -> dict[str, list[str]]:
    """Plan all of them."""
    data.register(session, "tpch", 0.01)
    opt = Optimizer(session, Options(strict=True, force=True))
    found: dict[str, list[str]] = {"rewritten": [], "wrong": []}
    for name, query in QUERIES.items():
        frame = query(session)
        if (planned := opt.dataframe(frame)) is not frame:
            found["rewritten"].append(name)
            if problem := difference(frame, planned):
                found["wrong"].append(f"{name}: {problem}")
    return found


if __name__ == "__main__":
    if remote := os.environ.get("DOVETAIL_TEST_REMOTE"):  # a server that runs already
        from pyspark.sql import SparkSession

        own = SparkSession.builder.remote(remote).getOrCreate()
    else:
        own = start("connect", Path(sys.argv[1]))
    print(json.dumps(main(own)), flush=True)
    os._exit(0)  # the server ends with its process; each session that says goodbye to it afterwards waits for an answer
