"""Inner joins of three streams and more as they are read: paths, statements, how long rows are kept.  No Spark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dovetail import Options
from dovetail.optimizer.streams.plan import StreamPlan
from dovetail.optimizer.streams.queries import StreamPlanner, StreamQuery
from dovetail.planner.errors import HintError
from dovetail.planner.offline_catalog.read_catalog import read_catalog
from dovetail.planner.state.spec import StreamJoin
from dovetail.planner.state.stream import Stream

ROOT = Path(__file__).parents[2] / "golden_plans"
CATALOG = read_catalog(ROOT / "cases" / "streams" / "orders.toml")
ON = "p.order_id = o.id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL 1 HOUR"
THREE = "FROM orders o JOIN payments p ON p.order_id = o.id JOIN shipments s ON s.order_id = o.id"


def look(query: str, timed: str = "orders payments shipments", **more: Any) -> StreamPlan:
    """The plan of a query over the streams of a shop; those in `timed` have a watermark."""

    def find(name: tuple[str, ...]) -> Stream | None:
        table = CATALOG.table(name)
        if table is None or not table.stream:
            return None
        columns = tuple((c.name, str(c.type).lower()) for c in table.columns)
        return Stream(columns, "ts" if name[0] in timed.split() else None, 5_000)

    planner = StreamPlanner(CATALOG, more.pop("options", Options(strict=True)), find)
    counts = more.pop("stored_row_counts", ())
    return planner.plan(StreamQuery(query, **more), counts)


def join(query: str, timed: str = "orders payments shipments", **more: Any) -> StreamJoin:
    found = look(query, timed, **more)
    assert found.join, found.reason
    return found.join


@pytest.mark.parametrize(
    ("third", "timed", "lasts"),
    [
        # The distance of p and s follows from those to o.
        ("s.ts BETWEEN o.ts AND o.ts + INTERVAL 2 HOURS", "orders payments shipments",
         [f"the later of {two}" for two in ("`ts` + 1h and `ts` + 2h", "`ts` and `ts` + 2h", "`ts` and `ts` + 1h")]),
        ("s.ts BETWEEN p.ts AND p.ts + INTERVAL 2 HOURS", "orders payments shipments",
         ["the later of `ts` + 1h and `ts` + 3h", "the later of `ts` and `ts` + 2h", "`ts`"]),
        # Shipments without a watermark: an order or a payment may always meet another.
        ("s.ts BETWEEN o.ts AND o.ts + INTERVAL 2 HOURS", "orders payments",
         ["", "", "the later of `ts` and `ts` + 1h"]),
        # A shipment is never too late for its order, and so for the payment.
        ("s.ts >= o.ts", "orders payments shipments", ["", "", "the later of `ts` and `ts` + 1h"]),
        ("true", "orders payments shipments", ["", "", ""]),
    ],
)  # fmt: skip
def test_how_long_rows_are_kept(third: str, timed: str, lasts: list[str]) -> None:
    query = f"SELECT o.id FROM orders o JOIN payments p ON {ON} JOIN shipments s ON s.order_id = o.id AND {third}"
    found = join(query, timed)
    assert [i.lasts for i in found.inputs] == lasts
    assert found.lasting == tuple(n for n, said in enumerate(lasts) if not said)


def test_a_segment_is_opened_only_where_a_row_may_match() -> None:
    """Reaches lead from each input to each other, also where only a third says how far apart they are."""
    query = f"SELECT o.id FROM orders o JOIN payments p ON {ON} JOIN shipments s ON s.order_id = o.id AND s.ts > o.ts"
    found = join(query)
    pairs = {frozenset((r.small[0], r.large[0])) for r in found.reaches}
    assert pairs == {frozenset(p) for p in ((0, 1), (0, 2), (1, 2))}
    reach = {
        (r.small[0], r.large[0]): r.least for r in found.reaches if "ts" in found.inputs[r.small[0]].marks[r.small[1]]
    }
    assert reach == {(0, 1): 0, (1, 0): -3_600_000_000, (0, 2): 0, (1, 2): -3_600_000_000}


def test_each_path_is_one_statement_over_views() -> None:
    where = "o.id > 0 OR p.amount > s.order_id"
    found = join(f"SELECT /*+ BROADCAST(p), DELTA_ORDER(s) */ o.id, s.carrier {THREE} WHERE {where}")
    p, s = "p.order_id = o.id", "s.order_id = o.id"
    both = "p.order_id = s.order_id"  # it follows
    expected = (
        f"FROM __dt_d_1 AS o JOIN __dt_curr_3 AS s ON {s} JOIN __dt_curr_2 AS p ON {p} AND ({where})",
        f"FROM __dt_d_2 AS p JOIN __dt_curr_3 AS s ON {both} JOIN __dt_prev_1 AS o ON {p} AND {s} AND ({where})",
        f"FROM __dt_d_3 AS s JOIN __dt_prev_1 AS o ON {s} JOIN __dt_prev_2 AS p ON {p} AND ({where})",
    )
    found_blocks = [" ".join(step.sql.split()) for step in found.program.steps]
    assert found_blocks == [f"SELECT /*+ BROADCAST(p) */ o.id, s.carrier {block}" for block in expected]


def test_other_paths_are_no_other_query() -> None:
    """What the state has by now orders the lookups; what is written beside it stays."""
    begun, later = join(f"SELECT * {THREE}"), join(f"SELECT * {THREE}", stored_row_counts=(900, 10, 50))
    assert begun.delta
    assert later.delta
    assert begun.delta.lines[0] == "new rows of o look up p by order_id, then s by order_id"
    assert later.delta.lines[0] == "new rows of o look up s by order_id, then p by order_id"
    assert begun.program != later.program
    assert begun.identity == later.identity
    assert join(f"SELECT * {THREE}", stored_row_counts=(900,)) == begun  # of another query


def test_rows_that_meet_by_null() -> None:
    found = join(f"SELECT o.id FROM orders o JOIN payments p ON {ON} JOIN shipments s ON s.order_id <=> o.id")
    assert found.delta
    assert found.delta.lines[2] == "new rows of s look up earlier o by id, then earlier p by order_id"
    assert [i.rows for i in found.inputs] == ["(`id` IS NOT NULL)", "(`order_id` IS NOT NULL)", ""]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT o.id FROM orders o JOIN customers c ON o.customer = c.id JOIN regions r ON r.name = c.region",
         "r is no stream"),
        ("SELECT o.id FROM orders o JOIN customers c ON o.customer = c.id JOIN range(3) ON range.id = o.id",
         "Relation is neither a table nor a subquery"),
        ("SELECT 1 FROM (SELECT id FROM orders) JOIN (SELECT order_id AS p FROM payments) ON id = p JOIN shipments s",
         "no equality of two relations leads from __dt_t1, __dt_t2 to s"),
        (f"SELECT o.id {THREE.replace('JOIN shipments', 'LEFT JOIN shipments')}", "not all of them by inner joins"),
        ("SELECT * FROM orders NATURAL JOIN payments JOIN shipments s ON true", "USING and NATURAL are left to Spark"),
        (f"SELECT o.id FROM orders o JOIN payments p ON {ON} CROSS JOIN shipments s",
         "no equality of two relations leads from o, p to s"),
        (f"SELECT o.id FROM orders o JOIN payments p ON {ON} JOIN shipments s ON s.ts > o.ts",
         "no equality of two relations leads from o, p to s"),
        (f"SELECT * EXCEPT (carrier) {THREE}", "would have other columns where relations are joined in another order"),
        (f"SELECT o.id {THREE} WHERE rand() < 0.5", "is not known to be deterministic"),
        (f"SELECT o.id {THREE} AND ts > o.ts", "ts could belong to more than one relation"),
        (f"SELECT o.id, count(*) {THREE} GROUP BY o.id", "Aggregate stands above the join"),
        ("SELECT 1 FROM orders o JOIN payments p JOIN shipments s", "no equality of two relations leads from o to p"),
        ("SELECT p.ts FROM orders JOIN orders JOIN payments p", "two relations have the name orders"),
    ],
)  # fmt: skip
def test_why_not(query: str, said: str) -> None:
    assert said in look(query).reason


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        ("DELTA_ORDER(o, s, p)", ""),
        ("delta_order('s')", ""),
        ("DELTA_ORDER", "DELTA_ORDER names no relation; write DELTA_ORDER(relation, relation, …)"),
        ("DELTA_ORDER(o, 3)", "DELTA_ORDER(o, 3): 3 is no relation; write"),
        ("DELTA_ORDER(o, orders)", "this SELECT has no relation orders; possible: o, p, s"),
        ("DELTA_ORDER(s, S)", "S is named twice; the first counts"),
        ("DELTA_ORDER(s), DELTA_ORDER(p)", "DELTA_ORDER(p): DELTA_ORDER(s) already orders this join; keep one"),
        ("DELTA_ODER(s)", "there is no hint DELTA_ODER; did you mean DELTA_ORDER?"),
        ("BROADCAST(s)", ""),
    ],
)
def test_hints_say_what_is_wrong_with_them(hint: str, said: str) -> None:
    query = f"SELECT /*+ {hint} */ o.id {THREE}"
    found = look(query)
    assert found.join
    assert [bool(re.search(re.escape(said), str(w))) for w in found.warnings] == ([True] if said else [])
    assert ("-- warning: " in found.explain()) == bool(said)
    if said:
        with pytest.raises(HintError, match=re.escape(said)):
            look(query, options=Options(strict_hints=True))


def test_an_order_for_spark_or_for_two() -> None:
    three = look(f"SELECT /*+ DELTA_ORDER(o) */ o.id {THREE}", state_modules=False)
    assert str(three.warnings[0]).startswith(
        "DELTA_ORDER(o): it orders the lookups of a join of three streams or more; "
    )
    assert "Spark's own join runs: state_modules=False requests it" in str(three.warnings[0])
    two = look(f"SELECT /*+ DELTA_ORDER(o) */ o.id FROM orders o JOIN payments p ON {ON}")
    assert "this join has two, which look up one another (line 1, column 12)" in str(two.warnings[0])
