"""Correlation keys: columns of a subquery that equal columns of the outer query in every row."""

from __future__ import annotations

from dataclasses import dataclass

from networkx.utils import UnionFind

from dovetail.planner.bind.scope import Scope
from dovetail.planner.conditions.compared import compared
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, sql
from dovetail.planner.types.schema import SqlType
from dovetail.rules.analysis.containment_mapping import ContainmentMapping


@dataclass(frozen=True)
class CorrelationKey:
    """A column that correlates a subquery: ``text`` over the outer query's relations, ``value`` in canonical form.

    ``guarded``: it may be NULL in a row of the block, which then matches no row of the subquery.
    """

    text: str
    value: str
    guarded: bool


def correlation_key(own: Scalar, theirs: Scalar, mapped: ContainmentMapping) -> CorrelationKey:
    """The key of rows whose column ``own`` of the query equals ``theirs`` of the block.

    Raises ``Refused`` unless the block's own row has that key, too.
    """
    value, other, here = mapped.inner_value(own), mapped.outer_value(theirs), mapped.outside(own).text
    pairs = [equal_columns(conjunct, mapped.outer.scope) for conjunct in mapped.outer.conjuncts]
    tied = [(mapped.outer_value(p[0]), mapped.outer_value(p[1])) for p in pairs if p]
    if value != other and not _linked(value, other, tied):
        raise Refused(f"{theirs.text} is not {here} in every row of the outer query")
    return CorrelationKey(here, value, not any(value in pair for pair in tied))


def equal_columns(conjunct: Scalar, scope: Scope) -> tuple[Scalar, Scalar] | None:
    """Return the two columns that a conjunct equates without a cast; None if it does not."""
    try:
        comparison = compared(conjunct)
        if comparison is None or comparison.sign != "=" or not comparison.columns:
            return None
        ends = [Scalar(sql(end)) for end in comparison.operands]
        types = [scope.column(end.tree).column.type for end in ends]
    except Refused:
        return None
    return (ends[0], ends[1]) if plainly_compared(types[0], types[1]) else None


def plainly_compared(left: SqlType | None, right: SqlType | None) -> bool:
    """Whether two columns are compared without a cast that could make other values equal."""
    if left is None or right is None:
        return False
    return left == right or (left.integral and right.integral)


def _linked(one: str, other: str, pairs: list[tuple[str, str]]) -> bool:
    """Whether a chain of equalities leads from one to the other."""
    classes = UnionFind()
    for pair in pairs:
        classes.union(*pair)
    return bool(classes[one] == classes[other])
