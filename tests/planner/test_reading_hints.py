"""Hints: how they are read, and where they stand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from dovetail.planner.band.axis import DAY, Axis
from dovetail.planner.errors import Place
from dovetail.planner.expr import Scalar
from dovetail.planner.hints.blocks import Width, hints_in, names_of, read_hints, width_of, without
from dovetail.planner.logical import Project
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.sql.to_sql import to_sql


def block(text: str) -> Scalar:
    return Scalar(text, (), Place(3, 5))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/*+ RANGE_JOIN(i, 60) */", [("RANGE_JOIN", ["i", "60"])]),
        ("/*+range_join(`I` ,1.5e1)*/", [("RANGE_JOIN", ["`I`", "1.5e1"])]),
        ("/*+ MERGE(a), BROADCAST(b) */", [("MERGE", ["a"]), ("BROADCAST", ["b"])]),
        ("/*+ MERGE(a) BROADCAST(b, db.c) */", [("MERGE", ["a"]), ("BROADCAST", ["b", "db.c"])]),
        ("/*+ BROADCAST */", [("BROADCAST", [])]),
        ("/*+ COALESCE(3) rebalance */", [("COALESCE", ["3"]), ("REBALANCE", [])]),
        ("/*+ A('x, y'), B(-0.5) */", [("A", ["'x, y'"]), ("B", ["-0.5"])]),
        ("/*+ A(INTERVAL '1' HOUR, f(x, y)) */", [("A", ["INTERVAL '1' HOUR", "f(x, y)"])]),
        ("/*+ A(i) */ -- B(i) */\n /* C(i) */ /*+ D(i) */", [("A", ["i"]), ("D", ["i"])]),
        ("/*+ */", []),
        ("/*+ RANGE_JOIN(i, */", []),
        ("/*+ RANGE_JOIN() */", []),
        ("/*+ RANGE_JOIN(i,, 60) */", []),
        ("/*+ 5 */", []),
        ("/*+ A(i), , B(i) */", []),
        ("/*+ A('i) */", []),
    ],
)
def test_blocks_of_hints(text: Any, found: Any) -> None:
    assert [(h.name, [a.text for a in h.arguments]) for h in read_hints(block(text))] == found


def test_a_select_without_hints_has_none() -> None:
    assert read_hints(None) == ()
    assert without(None, "RANGE_JOIN") is None


def test_places_count_from_the_statement() -> None:
    text = "SELECT x,\n  (SELECT /*+ RANGE_JOIN(i,\n 60), MERGE(p) */ 1)\nFROM p"
    [merge] = [h for h in hints_in(text) if h.name == "MERGE"]
    assert (merge.place, merge.arguments[0].place) == (Place(3, 7), Place(3, 13))
    [range_join] = [h for h in hints_in(text) if h.name == "RANGE_JOIN"]
    assert [range_join.place, *(a.place for a in range_join.arguments)] == [Place(2, 15), Place(2, 26), Place(3, 2)]
    logical, _ = from_sql(text)
    blocks = [n.hint for n in logical.walk() if isinstance(n, Project) and n.hint]
    assert [h.place for b in blocks for h in read_hints(b)] == [Place(2, 15), Place(3, 7)]


def test_the_place_does_not_count() -> None:
    a, b = read_hints(block("/*+ M(i), M(i) */"))
    assert a == b
    assert a.place != b.place


def test_hints_of_what_nobody_reads() -> None:
    assert hints_in("DELETE FROM p") == ()
    assert [h.name for h in hints_in("FROM p |> SELECT /*+ MERGE(p) */ x")] == ["MERGE"]
    assert hints_in("SELECT /*+ MERGE(p) */ 'x") == ()


def test_a_string_is_no_hint() -> None:
    text = "SELECT '/*+ MERGE(p) */' AS s FROM p"
    assert hints_in(text) == ()
    logical, _ = from_sql(text)
    assert isinstance(logical, Project)
    assert (logical.hint, [i.text for i in logical.items]) == (None, ["'/*+ MERGE(p) */' AS s"])


def test_every_block_is_printed_again() -> None:
    text = "SELECT /*+ A(i) */ -- why\n /*+ B(i) */ DISTINCT x\nFROM p"
    logical, _ = from_sql(text)
    assert to_sql(logical) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/*+ RANGE_JOIN(i, 60) */", None),
        ("/*+ range_join(i, 60), MERGE(i) */", "/*+ MERGE(i) */"),
        ("/*+ A(i) */ /*+ RANGE_JOIN(i) B( `x` ) */", "/*+ A(i), B( `x` ) */"),
        ("/*+ MERGE(i)   COALESCE(1) */", "/*+ MERGE(i)   COALESCE(1) */"),
        ("/*+ RANGE_JOIN(i, */", "/*+ RANGE_JOIN(i, */"),
    ],
)
def test_a_hint_taken_out(text: Any, left: Any) -> None:
    found = without(block(text), "RANGE_JOIN")
    assert (found and found.text) == left


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("i", ("i",)),
        ("`I j`", ("I j",)),
        ("db.`t`", ("db", "t")),
        ("a.b.c.d", ("a", "b", "c", "d")),
        ("'i'", ()),
        ("60", ()),
        ("i.*", ()),
        ("f(i)", ()),
        ("i + 1", ()),
        ("SELECT", ()),
    ],
)
def test_names(text: Any, parts: Any) -> None:
    assert names_of(Scalar(text)) == parts


HOUR = Fraction(3_600_000_000)


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("60", Width(Fraction(60))),
        ("60L", Width(Fraction(60))),
        ("0.5", Width(Fraction(1, 2))),
        (".5", Width(Fraction(1, 2))),
        ("1.5e1", Width(Fraction(15))),
        ("2.5BD", Width(Fraction(5, 2))),
        ("1e0D", Width(Fraction(1))),
        ("-5", Width(Fraction(-5))),
        ("0", Width(Fraction(0))),
        ("' 60 '", Width(Fraction(60))),
        ("INTERVAL '1' HOUR", Width(HOUR, interval=True)),
        ("INTERVAL 1 HOUR 30 MINUTES", Width(HOUR * 3 / 2, interval=True)),
        ("INTERVAL '0 01:30:00' DAY TO SECOND", Width(HOUR * 3 / 2, interval=True)),
        ("INTERVAL 1 MONTH", None),
        ("INTERVAL x HOUR", None),
        ("1e999999999", None),
        ("1e-999999999", None),
        ("'sixty'", None),
        ("''", None),
        ("NaN", None),
        ("i", None),
        ("60 + 1", None),
        ("NULL", None),
        ("(", None),
    ],
)
def test_widths(text: Any, width: Any) -> None:
    assert width_of(Scalar(text)) == width


@pytest.mark.parametrize(
    ("axis", "number", "hour"),
    [
        ("number", Fraction(60), None),
        ("date", Fraction(60), HOUR / DAY),
        ("timestamp", Fraction(60_000_000), HOUR),
        ("timestamp_ntz", Fraction(60_000_000), HOUR),
    ],
)
def test_units(axis: Any, number: Any, hour: Any) -> None:
    of = Axis(axis, exact=True)
    assert (Width(Fraction(60)).on(of), Width(HOUR, interval=True).on(of)) == (number, hour)
