"""Queries of TPC-H as kept views over changelogs: after each round of changes they hold what plain Spark returns.

Rounds are like RF1 and RF2 of TPC-H, with updates beside them; `make fuzz` runs 20, as `DOVETAIL_ROUNDS=20` does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from optimizer import Optimizer
from tests.tpc.changing import CHANGE, CHANGING, Changing
from tests.tpc.data import queries

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ROUNDS = int(os.environ.get("DOVETAIL_ROUNDS", "2"))
SEED = int(os.environ.get("DOVETAIL_SEED", "1"))
SCALE = 0.01


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
@pytest.mark.parametrize(("query", "groups"), [("h03", 100), ("h05", 5), ("h10", 300)])
def test_after_each_round_of_changes(spark: SparkSession, tmp_path: Path, query: str, groups: int) -> None:
    opt, plain, text = Optimizer(spark.newSession()), spark.newSession(), queries("tpch")[query]
    tables = Changing(SCALE, tmp_path / "in", seed=SEED * 1000)
    tables.stream(opt.session)
    for name in CHANGING:
        opt.declare_changelog(name, CHANGE)
    view = opt.keep(whole(text), "kept", state=tmp_path / "state")
    seen = []
    for number in range(ROUNDS + 1):
        if number:
            change(tables, number)
            view.refresh()
        for name, path in tables.save(tmp_path / f"now{number}").items():
            plain.read.parquet(str(path)).createOrReplaceTempView(name)
        found = shown(opt.session, "SELECT * FROM kept")
        assert found == shown(plain, whole(text))
        assert len(found) >= groups
        assert found not in seen, "the round has changed nothing of the result"
        seen.append(found)
    opt.keep(text, "first", state=tmp_path / "state")
    assert shown(opt.session, "SELECT * FROM first") == shown(plain, text.rstrip().rstrip(";"))
