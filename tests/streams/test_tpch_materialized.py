"""Materialized views of TPC-H over changelogs: after each round of changes they hold what plain Spark returns.

Rounds are like RF1 and RF2 of TPC-H, with updates beside them; `make fuzz` runs 20, as `DOVETAIL_ROUNDS=20` does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from dovetail import Optimizer
from effort import SEED
from tpc.changing import CHANGE, CHANGING, Changing
from tpc.data import queries

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dovetail import MaterializedView

ROUNDS = int(os.environ.get("DOVETAIL_ROUNDS", "2"))
SCALE = 0.01
GROUPS = {"h03": 100, "h05": 5, "h10": 300}  # of each query at least


def change(tables: Changing, number: int) -> None:
    """A round: orders come and go with their lineitems, and rows move between groups."""
    tables.insert(150)
    tables.update("customer", "c_custkey", 40, "c_nationkey = (c_nationkey + 7) % 25, c_acctbal = c_acctbal + 1.25")
    segments = "CASE c_mktsegment WHEN 'BUILDING' THEN 'MACHINERY' ELSE 'BUILDING' END"
    tables.update("customer", "c_custkey", 40, f"c_mktsegment = {segments}")
    days = 200 if number % 2 else -200
    tables.update("orders", "o_orderkey", 150, f"o_orderdate = o_orderdate + {days}, o_custkey = o_custkey % 1499 + 1")
    tables.update("supplier", "s_suppkey", 5, "s_nationkey = (s_nationkey + 1) % 25")
    tables.delete(150)
    tables.write()


def whole(text: str) -> str:
    """A query without its LIMIT, so that every group is compared."""
    return text.rstrip().rstrip(";").partition("LIMIT")[0]


def shown(session: SparkSession, text: str) -> list[Any]:
    return sorted(map(tuple, session.sql(text).collect()))


@pytest.mark.hypothesis  # for `make fuzz`, which takes more rounds
@pytest.mark.parametrize("together", [False, True])
def test_after_each_round_of_changes(spark: SparkSession, tmp_path: Path, together: bool) -> None:
    """One view after the other, or all of them on one state."""
    opt, plain, texts = Optimizer(spark.newSession()), spark.newSession(), queries("tpch")
    tables = Changing(SCALE, tmp_path / "in", seed=SEED * 1000)
    tables.stream(opt.session)
    for name in CHANGING:
        opt.declare_changelog(name, CHANGE)
    views: dict[str, MaterializedView] = {}
    seen: list[list[Any]] = []
    for number in range(ROUNDS + 1):
        if number:
            change(tables, number)
        for name, path in tables.save(tmp_path / f"now{number}").items():
            plain.read.parquet(str(path)).createOrReplaceTempView(name)
        if together and not number:
            views = {**opt.materialize_all({q: whole(texts[q]) for q in GROUPS}, state=tmp_path / "state")}
        elif together:
            views["h05"].refresh()
        else:
            for query in GROUPS:
                views[query] = opt.materialize(whole(texts[query]), query, state=tmp_path / query)
        for query, groups in GROUPS.items():
            found = shown(opt.session, f"SELECT * FROM {query}")
            assert found == shown(plain, whole(texts[query])), query
            assert len(found) >= groups
            assert found not in seen, "the round has changed nothing of the result"
            seen.append(found)
    if not together:
        text = texts["h03"].rstrip().rstrip(";")
        opt.materialize(text, "first", state=tmp_path / "h03")
        assert shown(opt.session, "SELECT * FROM first") == shown(plain, text)
