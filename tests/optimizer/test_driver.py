"""The driver's seat belts, with rules that break promises on purpose."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.driver import Driver
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.planner.catalog import Numbers, SequentialCatalog, Settings, UniqueKey, View
from dovetail.planner.catalog.declared import Declaration
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.errors import OptionError, RuleError
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Filter, Join, Project, Scan
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.types.schema import Column, SqlType
from dovetail.rules.batches import BATCHES, RULES
from dovetail.rules.context import Context
from dovetail.rules.rule import Batch, rule


class TwoTables(SequentialCatalog):
    """A catalog of p(x) and i(lo, hi), all BIGINT, with as many rows as it is told."""

    settings = Settings()

    def __init__(self, rows: int | None = None):
        self.rows = rows
        self.asked: list[str] = []

    def columns(self, name: tuple[str, ...]) -> tuple[Column, ...] | None:
        self.asked.append(".".join(name))
        names = {"p": "x v", "i": "lo hi w"}.get(name[-1].lower())
        return tuple(Column(n, SqlType("bigint")) for n in names.split()) if names else None

    def view(self, name: tuple[str, ...]) -> View | None:
        return None

    def changed_setting(self, view: View) -> str | None:
        return None

    def keys(self, name: tuple[str, ...]) -> tuple[UniqueKey, ...]:
        return ()

    def schema(self, query: str) -> tuple[Column, ...] | None:
        return None

    def statistics(self, relation: str) -> Statistics:
        return Statistics(self.rows)

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


BAND = "SELECT p.x FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi"


def test_a_rule_that_changes_the_output_is_caught() -> None:
    @rule(Project)
    def drop_a_column(node: Project, ctx: Context) -> Project:
        """Drop a column."""
        return replace(node, items=node.items[:1])

    plan, _ = from_sql("SELECT a, b FROM t")
    with pytest.raises(RuleError, match=r"drop_a_column changed the output from \('a', 'b'\) to \('a',\)"):
        Driver(TwoTables(), Options(), 0, (Batch("normalize", "", (drop_a_column,)), *BATCHES[1:])).drive(plan)


def test_rules_that_undo_each_other_are_reported_with_their_trace() -> None:
    @rule(Filter)
    def flip(node: Filter, ctx: Context) -> Filter:
        """Turn a condition around."""
        return replace(node, condition=node.condition[::-1])

    plan, _ = from_sql("SELECT a FROM t WHERE a = 1 AND b = 2")
    with pytest.raises(RuleError, match="goes round in circles") as caught:
        Driver(TwoTables(), Options(), 0, (Batch("normalize", "", (flip,), fixed_point=True), *BATCHES[1:])).drive(plan)
    assert "1. normalize / flip" in str(caught.value)
    assert "Turn a condition around." in str(caught.value)


def test_a_rule_that_fails_costs_nobody_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    @rule(Join)
    def stumble(node: Join, ctx: Context) -> Join:
        """Fail."""
        raise ZeroDivisionError("oh")

    batches = (Batch("normalize", "", (stumble,)), *BATCHES[1:])
    monkeypatch.setattr("dovetail.optimizer.planning.statement.Driver", partial(Driver, batches=batches))
    plan = plan_sql(BAND, TwoTables())
    assert plan.sql() == BAND
    assert "stumble failed on Join" in plan.declined[0].reason
    with pytest.raises(RuleError, match="stumble failed on Join"):
        plan_sql(BAND, TwoTables(), Options(strict=True))


def test_every_rule_can_be_switched_off_and_none_other() -> None:
    assert plan_sql(BAND, TwoTables(), Options(disabled_rules=("band_join",))).rewritten is False
    assert plan_sql(BAND, TwoTables(), Options(disabled_rules=("lower_band_join",))).rewritten is False
    comma = "SELECT p.x FROM p, i WHERE p.x BETWEEN i.lo AND i.hi"
    assert plan_sql(comma, TwoTables(), Options(disabled_rules=("push_filters",))).rewritten is False
    assert plan_sql(comma, TwoTables()).rewritten is True
    with pytest.raises(OptionError, match=r"no rule 'band_jion'; did you mean 'band_join'\? possible: .*push_filters"):
        Options(disabled_rules=("band_jion",))


def test_planning_stops_at_a_stage() -> None:
    labels = {}
    stages: list[Any] = ["parse", "normalize", "recognize", "lower"]
    for stage in stages:
        plan = plan_sql("SELECT p.x FROM p, i WHERE p.x BETWEEN i.lo AND i.hi", TwoTables(), stop_after=stage)
        tree = plan.physical or plan.optimized
        assert tree is not None
        labels[stage] = [n.label for n in tree.walk()]
        assert plan.rewritten is (stage == "lower")
    assert labels["parse"][:3] == ["Project", "Filter", "Join"]
    assert labels["normalize"][:2] == ["Project", "Join"]
    assert labels["recognize"][:2] == ["Project", "BandJoin"]
    assert labels["lower"][:2] == ["Project", "LevelBandJoin"]
    with pytest.raises(OptionError, match="no stage 'lowr'; did you mean 'lower'"):
        plan_sql(BAND, TwoTables(), stop_after="lowr")  # type: ignore[arg-type]


def test_every_rule_is_timed() -> None:
    trace = plan_sql(BAND, TwoTables()).trace
    assert {"band_join", "lower_band_join"} <= set(trace.seconds)
    assert all(s >= 0 for s in trace.seconds.values())


def test_rules_have_a_sentence_for_the_trace() -> None:
    for r in RULES:
        assert r.why.endswith("."), r.name
        assert len(r.why) < 160, r.name


def test_unknown_statistics_do_not_stop_a_rewriting_and_small_ones_do() -> None:
    assert plan_sql(BAND, TwoTables(None)).rewritten
    assert plan_sql(BAND, TwoTables(10_000)).rewritten
    small = plan_sql(BAND, TwoTables(1_000))
    assert not small.rewritten
    assert "nested_loop_pairs" in small.declined[0].reason
    assert plan_sql(BAND, TwoTables(0)).rewritten is False
    assert plan_sql(BAND, TwoTables(1_000), Options(nested_loop_pairs=10)).rewritten
    assert plan_sql(BAND, TwoTables(1_000), Options(force=True)).rewritten


def test_no_table_is_looked_up_where_no_comparison_could_be_a_band() -> None:
    catalog = TwoTables()
    plan_sql("SELECT * FROM p, i WHERE p.x = i.lo AND p.x BETWEEN 1 AND 5 AND i.hi > 3", catalog)
    assert catalog.asked == []


def test_nodes_are_shared_when_nothing_changes() -> None:
    plan, _ = from_sql("SELECT a FROM t WHERE b IN (SELECT c FROM u)")
    assert plan.map_nodes(lambda n: n) is plan
    assert hash(plan) == hash(from_sql("SELECT a FROM t WHERE b IN (SELECT c FROM u)")[0])
    scan = next(n for n in plan.walk() if isinstance(n, Scan))
    assert scan == replace(scan)
    assert Scalar("a") == Scalar("a")
