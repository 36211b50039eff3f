"""Hints: whom they reach, and what is warned of."""

from __future__ import annotations

import json
import logging
from fractions import Fraction
from typing import Any

import pytest

from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.idle_hints import idle_hints
from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.planner.catalog import Numbers, SequentialCatalog, Settings, UniqueKey, View
from dovetail.planner.catalog.declared import Declaration
from dovetail.planner.catalog.stats import UNKNOWN, Statistics
from dovetail.planner.errors import Place
from dovetail.planner.explain.records import PlanWarning
from dovetail.planner.hints.blocks import repeated
from dovetail.planner.logical import BandJoin
from dovetail.planner.types.schema import Column, sql_type

TABLES = {"p": "x bigint, d date, ts timestamp", "i": "lo bigint, hi bigint, d date, ts timestamp", "q": "y bigint"}


class Tables(SequentialCatalog):
    """p, i and q, of unknown size."""

    def __init__(self, *, case_sensitive: bool = False):
        self.settings = Settings(case_sensitive=case_sensitive)

    def columns(self, name: tuple[str, ...]) -> tuple[Column, ...] | None:
        said = TABLES.get(name[-1].lower())
        pairs = (c.split() for c in said.split(", ")) if said else ()
        return tuple(Column(n, sql_type(t)) for n, t in pairs) or None

    def keys(self, name: tuple[str, ...]) -> tuple[UniqueKey, ...]:
        return ()

    def schema(self, query: str) -> tuple[Column, ...] | None:
        return None

    def statistics(self, relation: str) -> Statistics:
        return UNKNOWN

    def measure(self, query: str) -> tuple[Numbers, ...] | None:
        return None

    def declaration(self, name: tuple[str, ...]) -> Declaration:
        return Declaration()

    def streams(self, query: str, *others: str) -> int:
        return 0

    def declared_names(self) -> tuple[tuple[str, ...], ...]:
        return ()

    def nonrepeatable_reason(self, query: str) -> str | None:
        return None

    def view(self, name: tuple[str, ...]) -> View | None:
        return None

    def changed_setting(self, view: View) -> str | None:
        return None


def plan(text: str, *, case_sensitive: bool = False, **options: object) -> Plan:
    return plan_sql(text, Tables(case_sensitive=case_sensitive), Options(strict=True, **options))  # type: ignore[arg-type]


def widths(of: Plan) -> list[Fraction | None]:
    assert of.optimized
    return [n.bin_width for n in of.optimized.walk() if isinstance(n, BandJoin)]


def reasons(of: Plan) -> str:
    return "\n".join(w.reason for w in of.warnings)


# Reaching the joins

BAND = "p JOIN i ON p.x BETWEEN i.lo AND i.hi"


@pytest.mark.parametrize("name", ["i", "I", "`i`", "'i'", "p"])
def test_either_side_may_be_named(name: Any) -> None:
    made = plan(f"SELECT /*+ RANGE_JOIN({name}, 60) */ p.x FROM {BAND}")
    assert widths(made) == [60]
    assert made.warnings == ()
    assert "RANGE_JOIN" not in made.sql()


def test_the_unit_is_that_of_the_band() -> None:
    times = plan("SELECT /*+ RANGE_JOIN(i, 30.5) */ 1 FROM p JOIN i ON p.ts BETWEEN i.ts AND i.ts + INTERVAL 1 HOUR")
    assert widths(times) == [30_500_000]
    days = plan("SELECT /*+ RANGE_JOIN(i, 7) */ 1 FROM p JOIN i ON p.d BETWEEN i.d - 3 AND i.d")
    assert widths(days) == [7]


def test_a_qualified_name() -> None:
    made = plan("SELECT /*+ RANGE_JOIN(db.i, 60) */ 1 FROM db.p JOIN db.i ON p.x BETWEEN i.lo AND i.hi")
    assert widths(made) == [60]
    other = plan("SELECT /*+ RANGE_JOIN(other.i, 60) */ 1 FROM db.p JOIN db.i ON p.x BETWEEN i.lo AND i.hi")
    assert widths(other) == [None]
    assert "no relation other.i; possible: db.i, db.p" in reasons(other)


def test_an_alias_hides_the_name_of_the_table() -> None:
    made = plan("SELECT /*+ RANGE_JOIN(i, 60) */ 1 FROM p JOIN i AS j ON p.x BETWEEN j.lo AND j.hi")
    assert widths(made) == [None]
    assert reasons(made) == "RANGE_JOIN(i, 60): this SELECT has no relation i; possible: j, p"


def test_a_hint_reaches_only_the_bands_of_its_relation() -> None:
    text = "FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi JOIN q ON abs(p.x - q.y) <= 5"
    assert widths(plan(f"SELECT /*+ RANGE_JOIN(q, 7) */ 1 {text}")) == [7, None]
    assert widths(plan(f"SELECT /*+ RANGE_JOIN(i, 7) */ 1 {text}")) == [None, 7]
    assert widths(plan(f"SELECT /*+ RANGE_JOIN(p, 7) */ 1 {text}")) == [7, 7]
    assert widths(plan(f"SELECT /*+ RANGE_JOIN(q, 7), RANGE_JOIN(p, 9) */ 1 {text}")) == [7, 9]


def test_a_hint_reaches_through_parentheses_and_not_into_subqueries() -> None:
    inside = plan("SELECT /*+ RANGE_JOIN(i, 60) */ 1 FROM (p JOIN i ON p.x BETWEEN i.lo AND i.hi)")
    assert widths(inside) == [60]
    named = plan("SELECT /*+ RANGE_JOIN(i, 60) */ 1 FROM (p JOIN i ON p.x BETWEEN i.lo AND i.hi) n")
    assert widths(named) == [None]
    below = plan(f"SELECT /*+ RANGE_JOIN(i, 60) */ 1 FROM (SELECT p.x FROM {BAND}) i JOIN q ON i.x = q.y")
    assert widths(below) == [None]
    assert "no join of i in this SELECT has a band" in reasons(below)
    cte = plan(f"WITH c AS (SELECT /*+ RANGE_JOIN(i, 60) */ p.x FROM {BAND}) SELECT * FROM c")
    assert widths(cte) == [60]


def test_case_counts_for_spark_where_the_session_says_so() -> None:
    text = f"SELECT /*+ BROADCAST(I), RANGE_JOIN(I, 60) */ 1 FROM {BAND}"
    assert plan(text).warnings == ()
    strict = plan(text, case_sensitive=True)
    assert widths(strict) == [60]
    assert reasons(strict) == "BROADCAST(I): this SELECT has no relation I; possible: i, p"


@pytest.mark.parametrize(
    ("hint", "warning"),
    [
        ("RANGE_JOIN", "RANGE_JOIN is not RANGE_JOIN(relation, width), the width a number above zero"),
        ("RANGE_JOIN(i)", "RANGE_JOIN(i) is not RANGE_JOIN(relation, width)"),
        ("RANGE_JOIN(60, i)", "RANGE_JOIN(60, i) is not RANGE_JOIN(relation, width)"),
        ("RANGE_JOIN(i, 60, 60)", "RANGE_JOIN(i, 60, 60) is not RANGE_JOIN(relation, width)"),
        ("RANGE_JOIN(p, i, 60)", "RANGE_JOIN(p, i, 60) is not RANGE_JOIN(relation, width)"),
        ("RANGE_JOIN(i, 0)", "RANGE_JOIN(i, 0) is not RANGE_JOIN(relation, width)"),
        ("RANGE_JOIN(i, -0.5)", "RANGE_JOIN(i, -0.5) is not RANGE_JOIN(relation, width)"),
        ("RANGE_JOIN(i, 'a')", "RANGE_JOIN(i, 'a') is not RANGE_JOIN(relation, width)"),
        ("RANGE_JOIN(i, NULL)", "RANGE_JOIN(i, NULL) is not RANGE_JOIN(relation, width)"),
        ("RANGE_JOIN(i, 1e99)", "RANGE_JOIN(i, 1e99) is not RANGE_JOIN(relation, width)"),
        ("RANGE_JOIN(i, INTERVAL 1 DAY)", "the band lies on numbers"),
        ("RANGE_JOIN(ii, 60)", "this SELECT has no relation ii; did you mean 'i'? possible: i, p"),
        ("RANGE_JION(i, 60)", "there is no hint RANGE_JION; did you mean RANGE_JOIN?"),
        ("BROADCAST(j)", "BROADCAST(j): this SELECT has no relation j; possible: i, p"),
        ("SHUFFLE_HSAH(i)", "did you mean SHUFFLE_HASH?"),
    ],
)
def test_a_hint_that_cannot_be_used_is_a_warning_and_the_query_is_planned(hint: Any, warning: Any) -> None:
    made = plan(f"SELECT\n /*+ {hint} */ p.x FROM {BAND}")
    assert warning in reasons(made)
    assert [w.place.line for w in made.warnings if w.place] == [2]
    assert widths(made) == [None]
    assert made.rewritten
    assert "RANGE_JOIN" not in made.sql()


@pytest.mark.parametrize(
    "hint",
    ["COALESCE(3)", "REPARTITION(3, x)", "REBALANCE", "REPARTITION_BY_RANGE(x)", "SKEW(p)", "BROADCAST", "FOO(z)"],
)
def test_hints_that_are_none_of_our_business(hint: Any) -> None:
    made = plan(f"SELECT /*+ {hint} */ p.x FROM {BAND}")
    assert made.warnings == ()
    assert made.sql().startswith(f"SELECT /*+ {hint} */ p.x\n")


def test_relations_that_cannot_be_told_are_not_said_to_be_missing() -> None:
    assert plan("SELECT /*+ BROADCAST(z) */ 1 FROM p PIVOT (sum(x) FOR d IN (1, 2))").warnings == ()


def test_bins_too_narrow_for_the_band() -> None:
    text = "1 FROM p JOIN i ON p.ts BETWEEN i.ts AND i.ts + INTERVAL 1 HOUR"
    narrow = plan(f"SELECT /*+ RANGE_JOIN(i, 3.5) */ {text}")
    assert widths(narrow) == [None]
    wanted = "a row would go to more than 1000 bins, the band being 1h wide; write a greater width"
    assert reasons(narrow) == f"RANGE_JOIN(i, 3.5): {wanted}"
    assert widths(plan(f"SELECT /*+ RANGE_JOIN(i, 3.6) */ {text}")) == [3_600_000]
    point = plan(f"SELECT /*+ RANGE_JOIN(i, 1e-12) */ 1 FROM {BAND}")
    assert widths(point) == [Fraction("1e-12")]
    assert point.warnings == ()


def test_the_first_of_several_widths_wins() -> None:
    made = plan(f"SELECT /*+ RANGE_JOIN(j, 1), RANGE_JOIN(p, 5), RANGE_JOIN(i, 60) */ 1 FROM {BAND}")
    assert widths(made) == [5]
    assert [w.reason.partition(":")[0] for w in made.warnings] == ["RANGE_JOIN(j, 1)", "RANGE_JOIN(i, 60)"]


def test_a_hint_that_does_nothing_after_all() -> None:
    wanted = "RANGE_JOIN(i, 60) does nothing: "
    off = plan(f"SELECT /*+ RANGE_JOIN(i, 60) */ 1 FROM {BAND}", disabled_rules=("lower_band_join",))
    assert reasons(off) == f"{wanted}Spark runs the statement as written"
    assert off.sql() == off.text
    piped = plan("FROM p |> SELECT /*+ RANGE_JOIN(i, 60) */ x")
    assert reasons(piped) == "RANGE_JOIN(i, 60): this SELECT has no relation i; possible: p"
    loop = plan(f"SELECT /*+ SHUFFLE_REPLICATE_NL(i), RANGE_JOIN(i, 60) */ 1 FROM {BAND}")
    assert "asks for Spark's nested loop" in reasons(loop)
    assert plan(f"SELECT /*+ RANGE_JOIN(i, 60) */ 1 FROM {BAND}").warnings == ()
    assert plan_sql(f"SELECT /*+ RANGE_JOIN(i, 60) */ 1 FROM {BAND}", Tables(), stop_after="recognize").warnings == ()


def test_one_join_of_two_that_runs_as_written() -> None:
    text = "FROM (p JOIN i ON p.x BETWEEN i.lo AND i.hi) JOIN q ON abs(p.x - q.y) <= 5"
    made = plan(f"SELECT /*+ SHUFFLE_REPLICATE_NL(q), RANGE_JOIN(q, 7), RANGE_JOIN(i, 60) */ 1 {text}")
    assert made.rewritten
    assert [w.reason.partition(" does")[0] for w in made.warnings] == ["RANGE_JOIN(q, 7)"]


def test_nested_loops_only_where_spark_would_heed_the_hint() -> None:
    asked = "SELECT /*+ SHUFFLE_REPLICATE_NL(i){} */ p.x FROM p {} JOIN i ON abs(p.x - i.lo) <= 5"
    assert not plan(asked.format("", "")).rewritten
    assert plan(asked.format("", "LEFT")).rewritten
    assert plan(asked.format(", BROADCAST(p)", "")).rewritten


def test_the_hints_for_a_select_of_our_own() -> None:
    made = plan(
        "SELECT /*+ MAPJOIN(i, q), MERGE(`p`), RANGE_JOIN(i, 5), COALESCE(2) */ 1 FROM " + BAND + " JOIN q ON q.y = 1"
    )
    assert made.optimized
    [join] = [n for n in made.optimized.walk() if isinstance(n, BandJoin)]
    assert repeated(join.hints) == "/*+ MERGE(`p`), MAPJOIN(i) */ "
    assert [(h.hint.strategy, h.side, h.whole) for h in join.hints] == [
        ("", "right", True),
        ("MERGE", "left", True),
        ("BROADCAST", "right", True),
    ]
    assert repeated(()) == ""


def test_spark_hands_no_hint_through_a_join() -> None:
    made = plan("SELECT /*+ MERGE(q) */ 1 FROM q JOIN p ON q.y = p.x JOIN i ON p.x BETWEEN i.lo AND i.hi")
    assert made.optimized
    [join] = [n for n in made.optimized.walk() if isinstance(n, BandJoin)]
    assert [(h.relation, h.side, h.whole) for h in join.hints] == [("q", "left", False)]


def test_no_hint_is_idle_without_a_plan() -> None:
    assert list(idle_hints("SELECT 1", None, None, None, {})) == []


# Telling


def test_warnings_are_told_wherever_a_plan_is() -> None:
    made = plan(f"SELECT\n  /*+ RANGE_JOIN(i, 0) */ p.x\nFROM {BAND}")
    [warned] = made.warnings
    assert isinstance(warned, PlanWarning)
    assert (warned.rule, warned.place) == ("join_hints", Place(2, 7))
    assert str(warned).startswith("RANGE_JOIN(i, 0) is not ")
    assert str(warned).endswith(" (line 2, column 7)")
    for mode in ("plan", "trace"):
        assert "-- warning: RANGE_JOIN(i, 0) is not RANGE_JOIN(relation, width)" in made.explain(mode)
        assert made.explain(mode).endswith("(line 2, column 7)")
    told = json.loads(made.explain("json"))["warnings"]
    assert told == [{"rule": "join_hints", "reason": warned.reason, "line": 2, "column": 7}]
    assert "warning" not in made.explain("sql")


def test_a_plan_without_warnings_says_nothing_of_them(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "dovetail")
    made = plan(f"SELECT p.x FROM {BAND}")
    assert made.warnings == ()
    assert "warning" not in made.explain("plan") + made.explain("trace")
    assert json.loads(made.explain("json"))["warnings"] == []
    assert caplog.records == []
