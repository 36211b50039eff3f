"""The expressions by which a block groups its rows: ``GROUP BY 1`` and ``GROUP BY name`` mean items of its list."""

from __future__ import annotations

from sqlglot import exp

from dovetail.planner.bind.scope import Scope
from dovetail.planner.bind.select_list import item_at, items_named
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.expr.substitution import without_alias
from dovetail.rules.query.query_block import QueryBlock


def grouping_expressions(block: QueryBlock, scope: Scope) -> tuple[Scalar, ...]:
    """The expressions of GROUP BY over FROM, whose ``scope`` it is; none for a block without GROUP BY.

    A number means an item of the select list, and so does a name that is no column; GROUP BY ALL means all items
    without aggregates.  Raises ``Refused`` for ROLLUP and its like, which group a row more than once.
    """
    aggregate = block.aggregate
    if aggregate is None:
        return ()
    if aggregate.is_all:
        return tuple(without_alias(item) for item in block.project.items if not item.tree.find(exp.AggFunc))
    if aggregate.sets is not None:
        raise Refused(f"GROUP BY {aggregate.sets.shown} is more than a list of expressions", aggregate.sets.place)
    return tuple(_meant(key, block.project.items, scope) for key in aggregate.keys)


def _meant(key: Scalar, items: tuple[Scalar, ...], scope: Scope) -> Scalar:
    """A key, or the item that it means by its number or its name."""
    is_name = isinstance(key.tree, exp.Column) and not scope.find(key.tree)
    named = items_named(key.tree, items, scope.names) if is_name else []
    return item_at(key, items) or (without_alias(named[0]) if len(named) == 1 else key)
