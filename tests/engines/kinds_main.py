"""Queries of every kind on one engine, as JSON lines.

``python kinds_main.py ENGINE JARS FOLDER SCALE LIMIT [KIND…]`` runs each query of ``kinds.py`` as written and rewritten
over the tables of FOLDER.  A line has a digest of the rows, the operators that are native, and the seconds of both; the
original is stopped after LIMIT seconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from threading import Timer
from time import perf_counter
from typing import Any

from dovetail import Optimizer, Options
from engine_sessions import ENGINES, SAIL, session_of
from kinds import QUERIES, read, write
from native import executed_plan, operators
from outcomes import first_line

ROUNDS = 3
ENOUGH = 5.0  # seconds, after which a query is not run again


def main(name: str, jars: list[str], tables: Path, scale: int, limit: float, kinds: list[str]) -> None:
    """Print a line for each kind."""
    engine = ENGINES.get(name)
    with tempfile.TemporaryDirectory() as folder, session_of(engine, Path(folder), jars) as session:
        write(session, tables, scale)
        read(session, tables)
        opt = Optimizer(session, Options(force=True, planning_seconds=600))
        opt.declare_key("t", ["id"])
        for kind in kinds or QUERIES:
            found: dict[str, Any] = {"kind": kind}
            plan = opt.plan(QUERIES[kind])
            found["rules"] = plan.rules
            if not plan.rewritten:
                found["declined"] = [declined.reason for declined in plan.declined]
            try:
                found["original"] = run(session, plan.query, engine is not SAIL, limit)
            except Exception as error:  # noqa: BLE001 - of Spark, or of the engine
                found["original"] = {"refused": first_line(error)}
            try:
                if plan.rewritten and (engine or "digest" not in found["original"]):
                    found["rewriting"] = run(session, plan.rewritten_query, engine is not SAIL, 600)
            except Exception as error:  # noqa: BLE001 - of Spark, or of the engine
                found["error"] = first_line(error)
            print(json.dumps(found), flush=True)


def run(session: Any, query: str, is_classic: bool, limit: float) -> dict[str, Any]:
    """Run a query; return a digest of its rows, its operators, and the median of the seconds."""
    frame = session.sql(query)
    stop = Timer(limit, session.sparkContext.cancelAllJobs if is_classic else session.interruptAll)
    begun = perf_counter()
    stop.start()
    try:
        rows = frame.collect()
    except Exception:
        if perf_counter() - begun < limit:
            raise
        return {"stopped": limit}
    finally:
        stop.cancel()
    seconds = [perf_counter() - begun]
    while len(seconds) < ROUNDS and sum(seconds) < ENOUGH:
        begun = perf_counter()
        session.sql(query).collect()
        seconds.append(perf_counter() - begun)
    digest = hashlib.sha256("\n".join(sorted(map(repr, rows))).encode()).hexdigest()[:16]
    native, work, jvm = operators(executed_plan(frame)) if is_classic else (0, 0, [])
    return {
        "rows": len(rows),
        "digest": digest,
        "seconds": round(median(seconds), 3),
        "native": native,
        "operators": work,
        "jvm": jvm,
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2].split(","), Path(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]), sys.argv[6:])
    sys.stdout.flush()
    os._exit(0)
