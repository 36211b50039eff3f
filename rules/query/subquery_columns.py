"""The columns of a subquery in FROM as expressions inside it, and a subquery with another query in it."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dovetail.planner.bind.names import Source
from dovetail.planner.bind.scope import BoundColumn, Scope
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, column_ref, is_star, sql
from dovetail.planner.logical import Derived, Logical, Scan
from dovetail.planner.logical.relations import subquery_as
from dovetail.rules.context import Context
from dovetail.rules.query.query_block import QueryBlock


def columns_inside(block: QueryBlock, source: Source, ctx: Context, *, computed: bool = False) -> dict[str, str]:
    """Map each output column of a subquery to the column inside it, if it is one; raises ``Refused``.

    ``computed``: also to the expression inside it that it is.
    """
    made: list[str | None] = []
    inner = ctx.scope(block.tree)
    for item in block.project.items:
        bare = item.tree.unalias()
        if is_star(bare):
            columns = ctx.names.expand_star(bare, inner.sources, block.tree)
            made += (inner.sources[n].reference(c.name) for n, c in columns)
        elif isinstance(bare, exp.Column):
            made.append(column_ref(bare).text)
        else:
            made.append(sql(bare) if computed else None)
    source.known_columns(len(made))
    source.check_distinct_columns()
    for text in filter(None, made):
        if isinstance(tree := Scalar(text).tree, exp.Column):
            inner.column(tree)
    return {name: text for name, text in zip(source.columns_by_name, made, strict=True) if text}


def expression_inside(scalar: Scalar, scope: Scope, columns: dict[str, str]) -> Scalar:
    """An expression over the ``columns`` of a subquery as one over the relations inside; ``scope`` is outside.

    Raises ``Refused``, also for a field of a column.
    """

    def inside(column: BoundColumn) -> str:
        text = columns.get(column.name)
        if text is None or column.level or column.column.field:
            raise Refused(f"{column.ref.text} is no column of the subquery", scalar.place)
        return text

    return scope.bind(scalar).substitute(inside)


def over_subquery(relation: Logical, query: Logical, ctx: Context) -> Derived:
    """A subquery, or a name of WITH, with another query in it."""
    if isinstance(relation, Derived):
        return replace(relation, query=query)
    assert isinstance(relation, Scan)
    alias = relation.alias or relation.name[-1]
    renames = relation.renames or ctx.definitions[relation.cte].renames
    return subquery_as(query, alias, renames)
