"""Writes joins of a table with itself that test for a match as EXISTS and NOT EXISTS.

FROM t x LEFT SEMI JOIN t y ON x.k = y.k AND x.v <> y.v
FROM t x LEFT JOIN t y ON x.k = y.k AND x.ts < y.ts WHERE y.k IS NULL
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dovetail.planner.bind.names import Resolver
from dovetail.planner.bind.scope import BoundColumn, Scope
from dovetail.planner.conditions.compared import Comparison, compared, null_test
from dovetail.planner.errors import Refused
from dovetail.planner.expr import HOLE, Scalar, is_star
from dovetail.planner.logical import Filter, Join, Logical, Project, Relation, Scan
from dovetail.planner.logical.relations import references_left
from dovetail.rules.analysis.speculation import check_speculation
from dovetail.rules.context import Context
from dovetail.rules.query.decorrelation import bounds, check_deterministic
from dovetail.rules.query.query_block import QueryBlock, read_block, where
from dovetail.rules.query.tables import tables


def as_not_exists(block: QueryBlock, names: Resolver) -> QueryBlock | None:
    """The block with NOT EXISTS in the place of a left join whose right side is NULL; None where it is none.

    The right side must be a column that the condition of the join compares, and named nowhere else.
    """
    join = block.tree
    if not isinstance(join, Join) or join.kind != "left" or not join.condition:
        return None
    right = tables(join.right, names.definitions) if isinstance(join.right, Relation) else frozenset()
    if not right or not right <= tables(join.left, names.definitions):
        return None
    try:
        is_null = next((c for c in block.condition if _is_null(c, join, names)), None)
        others = [c for c in block.condition if c is not is_null]
        rest = [*others, *block.project.items, *block.in_clauses]
        if is_null is None or any(_names_right(scalar, join, names) for scalar in rest):
            return None
    except Refused:
        return None
    query = Project(Filter(join.right, join.condition), (Scalar("1"),))
    test = Scalar(f"NOT EXISTS ({HOLE}0)", (query,), is_null.place)
    return read_block(block.over(where(join.left, (*others, test))))


def refused_anti_join(block: QueryBlock, names: Resolver) -> Refused | None:
    """Why a query for the rows without a greater, less or different one of their key is not taken as NOT EXISTS.

    None for any other query, and for one that is taken.
    """
    join = block.tree
    if not isinstance(join, Join) or not _compares_rows_of_one_table(join, names):
        return None
    on = " AND ".join(c.shown for c in join.condition)
    instead = f"write WHERE NOT EXISTS (SELECT * FROM {join.right.detail} WHERE {on})"
    test = next((c for c in block.condition if isinstance(null_test(c.tree), exp.Column)), None)
    if join.kind != "left" or test is None:
        return None
    try:
        if not _is_null(test, join, names):
            return Refused(
                f"{test.shown}: ON does not compare this column, so it may be NULL in a match, too; for the rows "
                f"without a match test a column that ON compares, or {instead}",
                test.place,
            )
        for item in block.project.items:
            if item.text.endswith("*") and _names_right(item, join, names):
                reason = (
                    f"{item.shown} may show columns of the right side; name the columns of the left side, or {instead}"
                )
                return Refused(reason, item.place)
            if _names_right(item, join, names):
                reason = (
                    f"{item.shown} needs the right side, whose columns are all NULL here; leave it out, and {instead}"
                )
                return Refused(reason, item.place)
    except Refused:
        return None
    return None


def _compares_rows_of_one_table(join: Join, names: Resolver) -> bool:
    """Whether ON has equal columns, and one comparison of another kind, of two relations over one table."""
    right = tables(join.right, names.definitions) if isinstance(join.right, Scan) else frozenset()
    if not right or not isinstance(join.left, Scan) or right != tables(join.left, names.definitions):
        return False
    signs = [found.sign for c in join.condition if (found := compared(c)) and found.columns and _one_name(found)]
    return len(signs) == len(join.condition) > 1 and signs.count("=") == len(signs) - 1 and "<=>" not in signs


def _one_name(comparison: Comparison) -> bool:
    one, other = (operand.name.lower() for operand in comparison.operands)
    return one == other


def _is_null(conjunct: Scalar, join: Join, names: Resolver) -> bool:
    """Whether a conjunct tests IS NULL on a column of the right side that the join compares."""
    tested = None if conjunct.plans else null_test(conjunct.tree)
    if not isinstance(tested, exp.Column):
        return False
    scope = Scope.of(names, join)
    found = scope.column(tested)
    if found.relation < len(names.sources(join.left)):
        return False
    for condition in join.condition:
        comparison = compared(condition)
        ends = comparison.operands if comparison and comparison.sign != "<=>" else ()
        if any(scope.column(e) == found for e in ends if isinstance(e, exp.Column)):
            return True
    return False


def _names_right(scalar: Scalar, join: Join, names: Resolver) -> bool:
    """Whether an expression names the right side, or may."""
    if scalar.plans:
        return True
    left, scope = len(names.sources(join.left)), Scope.of(names, join)
    if is_star(scalar.tree):
        shown = names.starred(scalar.tree, scope.sources)
        return not shown or max(shown) >= left  # otherwise it shows the fields of a column
    return any(ref.parts[-1] == "*" or scope.column(ref).relation >= left for ref in scalar.columns)


def semi_joins_as_exists(block: QueryBlock, ctx: Context) -> QueryBlock | None:
    """Return the block with EXISTS in WHERE in the place of its semi joins; None if it has none over its own tables.

    A semi join below inner joins filters the rows of its left side, as WHERE does later.  Every name of its condition
    must mean the same column in the subquery.
    """
    joins: list[Join] = []
    above: list[Join] = []
    tree = _without_semi_joins(block.tree, joins, above, ctx)
    if not joins:
        return None
    try:
        tests = [_as_exists(join, tree, ctx) for join in reversed(joins)]  # in the order in which they are written
        for join in above:
            check_speculation(join.condition, ctx.scope(join).type_of, ctx)  # on rows that a semi join drops before it
    except Refused as no:
        return ctx.decline(f"not a window: {no}", joins[-1].condition[0].place)
    return read_block(block.over(where(tree, (*block.condition, *tests))))


def _without_semi_joins(tree: Logical, joins: list[Join], above: list[Join], ctx: Context) -> Logical:
    """Return FROM without the semi joins of its left side.

    These are then in ``joins``, the last one first, and the inner joins of their rows in ``above``.
    """
    if not isinstance(tree, Join) or tree.using or tree.natural or references_left(tree.right):
        return tree
    if tree.kind in ("inner", "cross"):
        left = _without_semi_joins(tree.left, joins, above, ctx)
        if left is not tree.left:
            tree = replace(tree, left=left)
            above.append(tree)
        return tree
    if tree.kind not in ("semi", "anti") or not tree.condition or bounds(tree.condition) > 1:
        return tree  # two bounds are a band
    if not tables(tree.right, ctx.definitions) <= tables(tree.left, ctx.definitions):
        return tree
    joins.append(tree)
    return _without_semi_joins(tree.left, joins, above, ctx)


def _as_exists(join: Join, tree: Logical, ctx: Context) -> Scalar:
    """Write a join as a test of the rows of ``tree``.  Raises ``Refused`` where names hide columns."""
    left = len(ctx.scope(join.left).sources)
    both, inner = ctx.scope(join.left, join.right), ctx.scope(join.right, outer=ctx.scope(tree))

    def inside(column: BoundColumn) -> tuple[tuple[int, int], str]:
        owner = (1, column.relation) if column.relation < left else (0, column.relation - left)
        return owner, column.column.name

    for conjunct in join.condition:
        check_deterministic(conjunct)
    condition = tuple(both.bind(conjunct).rebind(inner, inside) for conjunct in join.condition)
    query = Project(Filter(join.right, condition), (Scalar("1"),))
    word = "EXISTS" if join.kind == "semi" else "NOT EXISTS"
    return Scalar(f"{word} ({HOLE}0)", (query,), join.condition[0].place)
