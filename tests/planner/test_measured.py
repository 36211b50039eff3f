"""What planning makes of measured data: the choices between bins, with answers that a session would give."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.optimizer.planning.statement import plan_sql
from dovetail.planner.offline_catalog.catalog import CatalogFile
from dovetail.planner.offline_catalog.read_catalog import read_catalog

if TYPE_CHECKING:
    from dovetail.optimizer.planning.plan import Plan
    from dovetail.planner.catalog import Numbers

LINE = read_catalog(Path(__file__).parents[2] / "golden_plans" / "catalogs" / "line.toml")
OVERLAP = "SELECT a.id FROM intervals a JOIN intervals b ON a.lo <= b.hi AND b.lo <= a.hi"
SHORT: tuple[Numbers, ...] = ((900.0, 9e5, 2e3, 0.0, 1e9),)
OPEN: tuple[Numbers, ...] = (*SHORT, (3.0, inf, inf, 0.0, inf))


@dataclass(frozen=True)
class Measured(CatalogFile):
    """A catalog that answers every small query alike, and keeps what it was asked."""

    answer: tuple[Numbers, ...] = ()
    asked: list[str] = field(default_factory=list)

    def measure(self, query: str) -> tuple[Numbers, ...] | None:
        self.asked.append(query)
        return self.answer


def planned(query: str, answer: tuple[Numbers, ...]) -> Plan:
    return plan_sql(query, Measured(LINE.path, LINE.settings, LINE.tables, answer=answer))


def test_intervals_of_a_kind_meet_in_their_first_common_bin() -> None:
    text = planned(OVERLAP, SHORT).sql()
    width = text.split("a.lo DIV ")[1].split(",")[0]
    too_long = f"(a.hi DIV {width}) - 10000000D > (a.lo DIV {width}), raise_error('An interval from a.lo to a.hi "
    assert f"explode(sequence(a.lo DIV {width}, if({too_long}" in text
    assert f", greatest(a.lo DIV {width}, a.hi DIV {width})))) AS __dt1(__dt1_bin)" in text
    assert f"ON __dt1_bin = __dt2_bin AND __dt1_bin = greatest(a.lo DIV {width}, b.lo DIV {width})" in text


def test_open_ended_intervals_have_levels_of_their_own() -> None:
    assert "OverlapBandJoin" in planned(OVERLAP, OPEN).explain()


def test_a_hint_sets_the_width_of_common_bins() -> None:
    hinted = OVERLAP.replace("SELECT", "SELECT /*+ RANGE_JOIN(a, 50) */")
    assert "a.lo DIV 50," in planned(hinted, SHORT).sql()


def test_ends_that_are_computed_are_binned_as_doubles_on_both_sides() -> None:
    text = planned(OVERLAP.replace("b.hi AND", "b.hi + 5 AND"), SHORT).sql()
    assert "DIV" not in text
    assert "greatest(floor(least(greatest(CAST(a.lo AS DOUBLE) / " in text


def test_kept_sides_are_matched_in_their_common_bins_first() -> None:
    text = planned(OVERLAP.replace("JOIN", "LEFT JOIN"), SHORT).sql()
    assert "SELECT DISTINCT a.lo, a.hi, __dt1_bin" in text
    assert text.count("= greatest(a.lo DIV ") == 2
