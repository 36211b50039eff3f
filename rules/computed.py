"""What the subqueries and views of a FROM compute for their rows, and whether that might raise an error.

Who reads rows that a query leaves out must not compute for them what Spark would not: ``10 / b AS e`` of a row whose
group nobody asks for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sqlglot import exp

from planner.errors import NotCarried
from planner.expr import Scalar, sql
from planner.from_sql import from_sql
from planner.logical import Cte, Project, Scan
from planner.schema import SqlType
from planner.tree import Node
from rules.respelling import never_raises
from rules.rule import Context

_OF_MANY = (exp.AggFunc, exp.AnonymousAggFunc, exp.Window)  # these read all rows, in any case


def raising_items(relation: Node, ctx: Context) -> Iterator[tuple[str, Scalar]]:
    """The items of queries below a relation that might raise an error on some row, with the names they get."""
    for query in _queries(relation, ctx, frozenset()):
        for item in query.items:
            tree = item.tree.unalias()
            if isinstance(tree, exp.Column | exp.Star) or tree.find(*_OF_MANY):
                continue
            known = partial(_type, ctx=ctx, query=query)
            said = tree if isinstance(tree, exp.Expression) and not item.plans else None
            if said is None or not never_raises(said, known, ansi=ctx.catalog.settings.ansi):
                yield ctx.names.fold(item.tree.alias_or_name), item


def _type(tree: exp.Expr, *, ctx: Context, query: Project) -> SqlType | None:
    """The type of an expression over what a query reads; the catalog tells it where the text does not."""
    return ctx.names.type_of(tree, ctx.names.sources(query.child)) or ctx.type_of(sql(tree), query.child)


def _queries(node: Node, ctx: Context, seen: frozenset[object]) -> Iterator[Project]:
    for below in node.walk():
        if isinstance(below, Project):
            yield below
        if isinstance(below, Scan) and below.cte and below.cte not in seen:
            definition = ctx.definitions.get(below.cte)
            if isinstance(definition, Cte):
                yield from _queries(definition.query, ctx, seen | {below.cte})
        elif isinstance(below, Scan) and not below.cte and below.name not in seen:
            view = ctx.catalog.view(below.name)
            if view is not None:
                try:
                    query, _ = from_sql(view.text)
                except NotCarried:
                    continue
                yield from _queries(query, ctx, seen | {below.name})
