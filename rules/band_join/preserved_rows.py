"""Preserved rows of a join over keys whose side is copied: their matches are found first, by an inner join."""

import re
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Literal

from dovetail.planner.band.linear import ConditionScope, Side
from dovetail.planner.errors import Refused, Unsupported, a
from dovetail.planner.expr import ColumnRef, Scalar, sql
from dovetail.planner.expr.calls import repeated_otherwise
from dovetail.planner.logical import BandJoin, Filter, Join, KeyedJoin, Project
from dovetail.planner.physical.key_join import KeyJoin, preserved_sides
from dovetail.planner.types.schema import SqlType
from dovetail.planner.types.try_expressions import UnsafeSpeculation
from dovetail.rules.analysis.sizes import Conditions, where_above
from dovetail.rules.analysis.speculation import check_speculation, may_raise
from dovetail.rules.context import Context
from dovetail.rules.query.condition_scope import condition_scope
from dovetail.rules.query.decorrelation import check_deterministic

_DISTINGUISHABLE = frozenset(
    "tinyint smallint int bigint decimal boolean date time timestamp timestamp_ntz interval string char varchar binary "
    "array struct".split()
)
# Types that DISTINCT does not take, that Spark drops from keys, or that hold values which are equal and yet differ.
_NOT_DISTINGUISHABLE = re.compile(
    r"\b(map|variant|void|float|double|collate|interval(?! (year|month|day|hour|minute|second)))\b"
)


def with_matches(chosen: KeyJoin, keyed: BandJoin | KeyedJoin, ctx: Context) -> KeyJoin:
    """The join with columns that identify the matches of preserved rows.  Raises ``Refused`` if that is impossible."""
    join = keyed.plain
    side = " and ".join(chosen.matched)
    keeps = f"{a(join.kind)} join must keep each {side} row once, and {chosen.scheme.unit} copy them"
    reason = ctx.nonrepeatable_reason(join.left, join.right)
    if reason:
        raise Unsupported(f"{keeps}; finding their matches first reads both sides twice, and {reason}")
    before = _before(join, where_above(keyed, ctx), ctx)
    try:
        _check_preserved(join, ctx)
        _check_guards(chosen, join, before, ctx)
        named = _named(join, ctx)
    except UnsafeSpeculation as no:
        raise Unsupported(f"{keeps}; finding their matches first is an inner join, in which {no.reason}") from None
    except Refused as no:
        raise Unsupported(f"{keeps}; finding their matches first needs to know all columns, and {no}") from None
    return replace(chosen, named=named, before=before)


def _before(join: Join, where: Conditions, ctx: Context) -> Conditions:
    """The conditions of WHERE on the preserved side: a row that they drop needs no matches.

    None that may raise, unless WHERE reads all preserved rows.
    """
    preserved = preserved_sides(join.kind)
    if len(preserved) != 1:
        return ()
    scope, found = condition_scope(join, ctx), []
    reads_all = join.kind in ("left", "right") and isinstance(ctx.above, Filter)
    for conjunct in where:
        with suppress(Refused):
            check_deterministic(conjunct, scope.volatile_call)
            safe = reads_all or not may_raise(conjunct, scope.type_of, ctx)
            if safe and _side(conjunct, scope) == preserved[0]:
                found.append(conjunct)
    return tuple(found)


def _check_preserved(join: Join, ctx: Context) -> None:
    """Raise ``UnsafeSpeculation`` for a conjunct on one preserved side: an inner join evaluates it on all rows.

    The original join evaluates it only on rows that have a match by all conditions before it, except in a semi join.
    Raises ``Refused`` for one whose side is not known.
    """
    scope, sides = condition_scope(join, ctx), preserved_sides(join.kind) if join.kind != "semi" else ()
    own = (c for c in join.condition if sides and not c.plans and scope.side(c.tree) in sides)
    check_speculation(own, scope.type_of, ctx)


def _check_guards(chosen: KeyJoin, join: Join, before: Conditions, ctx: Context) -> None:
    """Raise ``UnsafeSpeculation`` for a condition that can raise, where WHERE above the join guards it.

    The inner join evaluates the conditions ``before`` its own, and so reads none of the rows that they drop.  The
    condition that keys are made of is not evaluated where it would raise, since such a row has no key; but of an OR a
    row may have the key of a branch.
    """
    scope, preserved = condition_scope(join, ctx), preserved_sides(join.kind)
    block = takewhile(lambda node: not isinstance(node, Project), reversed(ctx.ancestors))
    where = (one for node in block if isinstance(node, Filter) and node.clause == "WHERE" for one in node.condition)
    if all(one in before or _side(one, scope) not in (None, *preserved) for one in where):
        return  # what reads the other side comes after the join
    of_keys = chosen.scheme.conjuncts if chosen.scheme.never_raises else ()
    check_speculation((c for c in join.condition if c not in of_keys and not c.plans), scope.type_of, ctx)


def _side(conjunct: Scalar, scope: ConditionScope) -> Side | Literal["both"] | None:
    """The side that a condition reads; None where that is not known."""
    with suppress(Refused):
        return scope.side(conjunct.tree)
    return None


def _named(join: Join, ctx: Context) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of either side that the condition names, each once."""
    scope = ctx.scope(join.left, join.right)
    found: dict[Side, dict[tuple[int, str], str]] = {"left": {}, "right": {}}
    for conjunct in join.condition:
        if twice := repeated_otherwise(conjunct.tree):
            raise Unsupported(f"{sql(twice)} may have another value when it is evaluated twice", conjunct.place)
        for ref in _columns(conjunct):
            bound = scope.column(ref)
            side: Side = "right" if scope.item(bound) else "left"
            found[side].setdefault((bound.relation, ref.text), _distinguishing_value(ref.text, bound.column.type))
    return tuple(found["left"].values()), tuple(found["right"].values())


def _distinguishing_value(text: str, type_: SqlType | None) -> str:
    """Return a value that is equal only for indistinguishable columns; -0.0 and 0.0, or A and a, are distinguishable.

    Raises ``Unsupported`` for a type whose values Spark cannot distinguish.
    """
    if type_ is None:
        raise Unsupported(f"the type of {text} is not known")
    if type_.approximate:
        return f"CAST({text} AS STRING)"
    if type_.name == "string" and "collate" in type_.text:
        return f"{text} COLLATE UTF8_BINARY"
    if type_.name == "map" and not _NOT_DISTINGUISHABLE.search(type_.text.removeprefix("map")):
        return f"map_entries({text})"
    if type_.name not in _DISTINGUISHABLE or _NOT_DISTINGUISHABLE.search(type_.text):
        raise Unsupported(f"{text} is of type {type_}, whose values Spark cannot distinguish")
    return text


def _columns(conjunct: Scalar) -> tuple[ColumnRef, ...]:
    if conjunct.plans:
        raise Unsupported(f"{conjunct.shown} holds a subquery", conjunct.place)
    return conjunct.columns
