"""Reads subqueries that keep the rows of their relations and only add columns, such as windows."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.planner.bind.scope import Scope
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Logical
from dovetail.rules.context import Context
from dovetail.rules.query.definitions import definition_of
from dovetail.rules.query.from_items import bare
from dovetail.rules.query.query_block import read_block
from dovetail.rules.query.subquery_columns import columns_inside, expression_inside


@dataclass(frozen=True)
class RowsInside:
    """``table``: the relations inside a subquery, whose rows it returns, or fewer of them if it has a WHERE."""

    table: Logical
    scope: Scope
    columns: dict[str, str]

    def expression(self, text: str) -> str:
        """An expression over the subquery as one over ``table``.  Raises ``Refused`` if it reads another column."""
        return expression_inside(Scalar(text), self.scope, self.columns).text


def rows_inside(relation: Logical, ctx: Context) -> RowsInside | None:
    """Read a subquery, or a name of WITH, as the rows inside it; None where it is another one, or no subquery."""
    query = definition_of(bare(relation), ctx)
    block = None if query is None else read_block(query)
    if block is None or not block.is_plain:
        return None
    try:
        scope = ctx.scope(relation)
        (source,) = scope.sources
        return RowsInside(block.tree, scope, columns_inside(block, source, ctx))
    except (Refused, ValueError):
        return None
