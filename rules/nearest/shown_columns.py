"""The columns of a join that are used above it: only these travel with the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from dovetail.planner.bind.names import check_distinct_names
from dovetail.planner.bind.scope import Scope
from dovetail.planner.bind.words import words_of
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, column_ref, columns_in, is_star, quote
from dovetail.planner.logical import Derived, Join, LateralView, Logical, Nested, Opaque, expressions
from dovetail.planner.logical.nearest_join import NearestJoin, ShownRelation
from dovetail.planner.logical.nearest_syntax import AsofJoin, NearestByJoin, NearestSyntax
from dovetail.rules.context import Context
from dovetail.rules.query.from_items import bare
from dovetail.rules.query.query_block import QueryBlock

_Shown = tuple[ShownRelation, ...]


def shown_relations(readers: Iterable[Scalar], join: Join, ctx: Context) -> tuple[_Shown, _Shown]:
    """The relations of both sides, with the columns that some expressions use.

    Raises ``Refused`` where a relation has no name of its own, or columns that are not known.
    """
    sides = ctx.names.sources(join.left), ctx.names.sources(join.right)
    sources = (*sides[0], *sides[1])
    for source in sources:
        source.check_distinct_columns(named=True)
    check_distinct_names(sources)
    merging = (node for node in join.walk() if isinstance(node, Join) and (node.using or node.natural))
    if (merges := next(merging, None)) is not None:
        raise Refused(f"{merges.keyword} merges columns by USING or NATURAL; write ON", merges.place)
    used = {column for scalar in readers for column in _used(scalar, ctx.scope(join.left, join.right))}
    joined = _may_add_null(bare(join.right))
    shown = [
        ShownRelation(
            source.only_name,
            tuple(
                replace(c, nullable=joined or c.nullable)
                for name, (c,) in source.columns_by_name.items()
                if used & _references(n, name)
            ),
        )
        for n, source in enumerate(sources)
    ]
    return tuple(shown[: len(sides[0])]), tuple(shown[len(sides[0]) :])


def _may_add_null(tree: Logical) -> bool:
    """Whether a column that is never NULL in a relation below may be NULL to Spark: an outer join may leave it out."""
    return isinstance(tree, Join | NearestByJoin) or (isinstance(tree, NearestJoin) and bool(tree.by))


def readers_of(block: QueryBlock) -> Iterator[Scalar]:
    """The expressions of a block that read the rows of its FROM."""
    yield from block.condition
    for node in (block.project, *block.clauses):
        yield from expressions(node)


def joins_of(tree: Logical) -> Iterator[Join | NearestSyntax | LateralView]:
    """The joins of a FROM, and its LATERAL VIEWs, outside parentheses with a name."""
    if isinstance(tree, Join | NearestSyntax | LateralView):
        yield tree
    if isinstance(tree, Join | NearestSyntax):
        yield from joins_of(tree.left)
        yield from joins_of(tree.right)
    elif isinstance(tree, LateralView) or (isinstance(tree, Nested) and tree.alias is None):
        yield from joins_of(tree.child)


def all_readers_of(block: QueryBlock, without: tuple[Join | AsofJoin, ...] = ()) -> Iterator[Scalar]:
    """The same with the conditions of the joins in FROM, and the expressions of its LATERAL subqueries.

    ``without``: joins whose conditions do not count.
    """
    yield from readers_of(block)
    for join in joins_of(block.tree):
        yield from readers_of_join(join, is_read=not any(join is one for one in without))


def readers_of_join(join: Join | NearestSyntax | LateralView, *, is_read: bool = True) -> Iterator[Scalar]:
    """The expressions of a join, if these count, and of its LATERAL subqueries that read the rows of FROM."""
    if is_read:
        yield from expressions(join)
    if isinstance(join, Join) and join.natural:
        yield Scalar("*")
    if isinstance(join, Join | AsofJoin):
        yield from (Scalar(quote(name)) for name in join.using)
    for side in (join.left, join.right) if not isinstance(join, LateralView) else ():
        if isinstance(side, Derived) and side.lateral:
            yield from (scalar for node in side.query.walk() for scalar in expressions(node))
        elif isinstance(side, Opaque) and side.lateral:
            yield side.text


def _used(scalar: Scalar, scope: Scope) -> set[tuple[int | None, str]]:
    """The columns that an expression names, with the number of their relation; None where it may be any of them.

    All columns, as ``*``, where that is not known.
    """
    if scalar.known is not None and is_star(scalar.known):
        with suppress(Refused):
            if numbers := scope.names.starred(scalar.known, scope.sources):  # otherwise it shows the fields of a column
                return {(number, "*") for number in numbers}
    words = words_of(scalar, scope.names)
    if "*" in words:
        return {(None, "*")}
    if scalar.plans:
        return {(None, word) for word in words}
    try:
        found = [(tree, scope.find(tree)) for tree in columns_in(scalar.tree)]
    except Refused:
        return {(None, word) for word in words}
    known = {(column.relation, column.name) for _, column in found if column is not None}
    unknown = (part for tree, column in found if column is None for part in column_ref(tree).parts)
    return known | {(None, name) for name in scope.names.folded(unknown)}


def _references(relation: int, name: str) -> set[tuple[int | None, str]]:
    """What a use of a column can look like."""
    return {(relation, name), (relation, "*"), (None, name), (None, "*")}
