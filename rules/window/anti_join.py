"""Recognizes a left join that keeps only rows without a match, which is NOT EXISTS.

FROM t x LEFT JOIN t y ON x.k = y.k AND x.ts < y.ts WHERE y.k IS NULL
"""

from __future__ import annotations

from sqlglot import exp

from dovetail.planner.bind.names import Resolver
from dovetail.planner.bind.scope import Scope
from dovetail.planner.conditions.compared import Comparison, compared, null_test
from dovetail.planner.errors import Refused
from dovetail.planner.expr import HOLE, Scalar
from dovetail.planner.logical import Filter, Join, Project, Relation, Scan
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
    if scalar.plans or isinstance(scalar.tree, exp.Star):
        return True
    left, scope = len(names.sources(join.left)), Scope.of(names, join)
    return any(ref.parts[-1] == "*" or scope.column(ref).relation >= left for ref in scalar.columns)
