"""Writes USING as ON where the block has a band: ``a JOIN b USING (k) WHERE a.x BETWEEN b.lo AND b.hi``.

So it does where rows of a lookup go to Python whole, since relations side by side cannot show ``id`` next to ``b.id``.
"""

from __future__ import annotations

from dataclasses import replace

from dovetail.planner.band.comparisons import looks_like_band, names_relations
from dovetail.planner.bind.from_columns import FromColumns, ShownColumn, from_columns, shown_column
from dovetail.planner.bind.names import Resolver
from dovetail.planner.bind.qualified_names import check_can_qualify, qualify_names
from dovetail.planner.errors import Refused, ShowsAddedColumn
from dovetail.planner.expr import Scalar, is_star, quote
from dovetail.planner.keys.read_keys import looks_like_keys
from dovetail.planner.logical import JOIN_KEYWORDS, Join, Logical, Project, Relation, Scan, Sort, expressions
from dovetail.planner.sql.to_sql import refuse_stars
from dovetail.planner.types.schema import SqlType
from dovetail.rules.context import Context
from dovetail.rules.query.decorrelation import bounds
from dovetail.rules.query.from_items import bare
from dovetail.rules.query.query_block import QueryBlock, where
from dovetail.rules.query.star_columns import expand_items
from dovetail.rules.rule import rule


@rule(Project, Sort, block=True, needs=("using",), streams="one")
def using_to_on(block: QueryBlock, ctx: Context) -> Logical | None:
    """Write USING and NATURAL as equalities in ON, where a band in WHERE or a nearest row may be part of the joins.

    So they are where the rows of a lookup go to Python whole.  The columns that USING merges get
    the name of their relation wherever the query names them alone, and ``*`` is written as the columns that it shows,
    since ON keeps the columns of both sides.
    """
    joins = _joins(block.tree)
    if not any(map(_merges, joins)):
        return None
    reader = _band(block, joins) or _lookup(joins, ctx)
    if reader is None:
        return None
    try:
        return block.put(_rewrite(block, ctx.names))
    except Refused as no:
        what = "a lookup" if isinstance(reader, Join) else "a band or a nearest row"
        reason = f"USING and NATURAL cannot be written as ON here, which {what} needs: {no}; write ON"
        return ctx.decline(reason, reader.place, "using")


def _band(block: QueryBlock, joins: list[Join]) -> Scalar | None:
    """A band that WHERE or a nearest row may bring into a join, or a condition of WHERE that may have keys."""
    conditions = (*block.condition, *(c for join in joins for c in join.condition))
    band = next((c for c in conditions if looks_like_band(c)), None)
    keys = next((c for c in block.condition if looks_like_keys(c) and names_relations(c)), None)
    starred = any(item.known is not None and is_star(item.known) for item in block.project.items)
    one_sided = any(bounds(join.condition) == 1 for join in joins)  # it may bound a nearest row
    needs_on = starred or one_sided or any(map(looks_like_band, block.condition))
    return band if band and needs_on else keys


def _lookup(joins: list[Join], ctx: Context) -> Join | None:
    """A lookup whose left side can be read only once."""
    lookups = (join for join in joins if isinstance(join.right, Scan) and ctx.names.lookup(join.right))
    return next((join for join in lookups if ctx.nonrepeatable_reason(join.left)), None)


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
    tree = _on(block.tree, names)  # the kind of a join is the first reason
    scope = from_columns(names, block.tree)
    owners = {names.fold(column.name): scope.sources[column.source].reference for column in scope.merged}
    relations = {source.folded_name for source in scope.sources if source.names}
    pairs = [pair for source in scope.sources for pair in source.columns_by_name.items()]
    with_fields = {name for name, columns in pairs if any(_has_fields(column.type) for column in columns)}
    for relation in (scope.sources[column.source] for column in scope.hidden):
        if (
            relation.folded_name in with_fields
        ):  # a field of the column to Spark, but a column of the relation behind ON
            raise Refused(
                f"{quote(relation.names[-1])} is the name of a relation and of a column; give it another alias"
            )
    above = tuple(scalar for clause in block.above for scalar in expressions(clause))
    plain = (item for item in block.project.items if item.known is None or not is_star(item.known))
    for scalar in (*plain, *above, *block.in_clauses, *block.conjuncts):
        _check_no_star(scalar)
    check_can_qualify(block.project, above, frozenset(owners), names)
    items = expand_items(block.project.items, block.tree, names)
    on = block.over(where(tree, block.condition), items=items, names=block.project.output)
    return qualify_names(on, owners, relations, names)


def _has_fields(type_: SqlType | None) -> bool:
    return type_ is None or type_.name in ("struct", "map", "array", "variant")


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
    kinds = ("inner", "left", "semi", "anti", *(() if isinstance(tree.left, Join) else ("right",)))
    if tree.kind not in kinds or not isinstance(tree.right, Relation) or bare(tree.right) is not tree.right:
        raise Refused(f"its {tree.keyword.upper()} is not an inner or left join of a table or subquery", tree.place)
    sides = from_columns(names, tree.left), from_columns(names, tree.right)
    using = tree.using or tuple(quote(c.name) for c in from_columns(names, tree).merged)
    if not using:
        raise Refused("NATURAL compares no columns", tree.place)
    equalities = []
    for name in using:
        first, second = (_reference(side, shown_column(names, side, name)) for side in sides)
        equalities.append(Scalar(f"{first} = {second}", (), tree.place))
    return Join(left, tree.right, tree.kind, JOIN_KEYWORDS[tree.kind], tuple(equalities), place=tree.place)


def _reference(scope: FromColumns, column: ShownColumn) -> str:
    return scope.sources[column.source].reference(column.name)
