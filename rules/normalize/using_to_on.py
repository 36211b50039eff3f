"""Writes USING as ON where the block has a band: ``a JOIN b USING (k) WHERE a.x BETWEEN b.lo AND b.hi``."""

from __future__ import annotations

from dataclasses import replace

from dovetail.planner.band.comparisons import looks_like_band
from dovetail.planner.errors import Refused, ShowsAddedColumn
from dovetail.planner.expr import Scalar, is_star, quote
from dovetail.planner.logical import JOIN_KEYWORDS, Join, Logical, Project, Relation, Sort, expressions
from dovetail.planner.sql.join_scope import JoinScope, ShownColumn, scope_of, shown_column
from dovetail.planner.sql.names import Resolver
from dovetail.planner.sql.qualified_names import check_can_qualify, qualify_names
from dovetail.planner.sql.to_sql import refuse_stars
from dovetail.rules.context import Context
from dovetail.rules.query.decorrelation import bounds
from dovetail.rules.query.query_block import QueryBlock, block_with_order, in_place, read_block, where
from dovetail.rules.query.star_columns import expand_items
from dovetail.rules.rule import rule


@rule(Project, Sort, streams="one")
def using_to_on(node: Project | Sort, ctx: Context) -> Logical | None:
    """Write USING and NATURAL as equalities in ON, where a band in WHERE or a nearest row may be part of the joins.

    The columns that USING merges get the name of their relation wherever the query names them alone, and ``*`` is
    written as the columns that it shows, since ON keeps the columns of both sides.
    """
    block = block_with_order(node, ctx)
    if block is None or not any(_merges(join) for join in _joins(block.tree)):
        return None
    conditions = (*block.condition, *(c for join in _joins(block.tree) for c in join.condition))
    band = next((c for c in conditions if looks_like_band(c)), None)
    starred = any(item.known is not None and is_star(item.known) for item in block.project.items)
    one_sided = any(bounds(join.condition) == 1 for join in _joins(block.tree))  # it may bound a nearest row
    if band is None or not (starred or one_sided or any(map(looks_like_band, block.condition))):
        return None
    try:
        return in_place(node, block.project, _rewrite(block, ctx.names))
    except Refused as no:
        reason = f"USING and NATURAL cannot be written as ON here, which a band or a nearest row needs: {no}; write ON"
        return ctx.decline(reason, band.place, "using")


def _joins(tree: Logical) -> list[Join]:
    """The joins of a FROM tree, down its left sides."""
    found = []
    while isinstance(tree, Join):
        found.append(tree)
        tree = tree.left
    return found


def _merges(join: Join) -> bool:
    return bool(join.using) or join.natural


def _rewrite(block: QueryBlock, names: Resolver) -> Project:
    _on(block.tree, names)  # the kind of a join is the first reason
    scope = scope_of(names, block.tree)
    owners = {names.fold(column.name): _reference(scope, column) for column in scope.merged}
    relations = {names.fold(source.names[-1]) for source in scope.sources if source.names}
    above = tuple(scalar for clause in block.above for scalar in expressions(clause))
    items = [item for item in block.project.items if item.known is None or not is_star(item.known)]
    for scalar in (*items, *above, *block.in_clauses, *block.conjuncts):
        _check_no_star(scalar)
    check_can_qualify(block.project, above, frozenset(owners), names.fold, alone=True)
    expanded = replace(block.project, items=expand_items(block.project.items, scope, names))
    named = qualify_names(expanded, owners, relations, names.fold)
    new = read_block(named)
    assert new is not None
    return new.over(where(_on(new.tree, names), new.condition), names=block.project.output)


def _check_no_star(scalar: Scalar) -> None:
    """Raise ``Refused`` for ``struct(*)`` and its like, which would read the merged columns twice."""
    try:
        refuse_stars(scalar)
    except ShowsAddedColumn as no:
        raise Refused(f"{scalar.shown} reads all columns, the merged ones once", no.place) from no


def _on(tree: Logical, names: Resolver) -> Logical:
    """A FROM tree with ON in the place of USING and NATURAL."""
    if not isinstance(tree, Join):
        return tree
    left = _on(tree.left, names)
    if not _merges(tree):
        return tree if left is tree.left else replace(tree, left=left)
    if tree.kind not in ("inner", "left") or not isinstance(tree.right, Relation):
        raise Refused(f"its {tree.keyword.upper()} is not an inner or left join of a table or subquery", tree.place)
    sides = scope_of(names, tree.left), scope_of(names, tree.right)
    using = tree.using or tuple(quote(c.name) for c in scope_of(names, tree).merged)
    if not using:
        raise Refused("NATURAL compares no columns", tree.place)
    equalities = []
    for name in using:
        first, second = (_reference(side, shown_column(names, side, name)) for side in sides)
        equalities.append(Scalar(f"{first} = {second}", (), tree.place))
    return Join(left, tree.right, tree.kind, JOIN_KEYWORDS[tree.kind], tuple(equalities), place=tree.place)


def _reference(scope: JoinScope, column: ShownColumn) -> str:
    relation = scope.sources[column.source].names
    if not relation:
        raise Refused("a relation without a name has columns that USING or NATURAL merges; give it an alias")
    return f"{quote(relation[-1])}.{quote(column.name)}"
