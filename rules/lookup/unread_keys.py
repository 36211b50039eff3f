"""Finds keys by their tokens in conditions that only Spark parses: ``CAST(o.code AS VARCHAR(10)) = c.code``."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.planner.bind.scope import Scope
from dovetail.planner.conditions.equality import equality_operands
from dovetail.planner.errors import NoSuchColumn, Refused
from dovetail.planner.expr import ColumnRef, Scalar
from dovetail.planner.expr.calls import BUILT_IN, FUNCTIONS_WITHOUT_BRACKETS
from dovetail.planner.expr.references import column_refs, only_reference
from dovetail.planner.expr.tokens import called

# Words before a parenthesis that are no functions.
_NO_CALLS = frozenset(
    "CHAR CHARACTER VARCHAR DEC DECIMAL NUMERIC TIME AND OR NOT IN IS CASE WHEN THEN ELSE BETWEEN LIKE AS".split()
)


@dataclass(frozen=True)
class UnreadEquality:
    """``own = other`` with a column of the table on one side; ``other`` is over the left side alone."""

    own: ColumnRef
    other: Scalar


def unread_equality(conjunct: Scalar, sides: Scope) -> UnreadEquality:
    """The equality that a conjunct is.  Raises ``Refused`` where it is none, or its value might change."""
    ends = equality_operands(conjunct)
    for own, other in (ends, ends[::-1]) if ends else ():
        ref = only_reference(own.text)
        if ref is None or _items((ref,), sides) != {1}:
            continue
        if _items(column_refs(other.text), sides) == {0}:
            _check_repeatable(other)
            return UnreadEquality(ref, other)
    raise Refused(
        f"{conjunct.shown}: Dovetail cannot parse it, and it is not an equality with a column", conjunct.place
    )


def _items(found: tuple[ColumnRef, ...], scope: Scope) -> set[int]:
    items = set()
    for ref in found:
        try:
            items.add(scope.item(scope.column(ref)))
        except NoSuchColumn:
            if len(ref.parts) > 1:
                raise
            # a type, a unit, a keyword; Spark's analysis refuses what should be a column
    return items


def _check_repeatable(value: Scalar) -> None:
    """Raise ``Refused`` unless an expression has the same value wherever it is evaluated."""
    odd = [n for n in sorted(called(value.text)) if n.isidentifier() and n not in BUILT_IN and n not in _NO_CALLS]
    if odd or value.plans or any(n in value.text.lower() for n in FUNCTIONS_WITHOUT_BRACKETS):
        raise Refused(f"{value.shown} is not known to be deterministic", value.place)
