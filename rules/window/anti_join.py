"""A left join that keeps only the rows without a partner, which is NOT EXISTS.

FROM t x LEFT JOIN t y ON x.k = y.k AND x.ts < y.ts WHERE y.k IS NULL
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.conditions.compared import compared
from planner.errors import Unsupported
from planner.expr import HOLE, Scalar, column_ref
from planner.logical import Aggregate, Filter, Join, Logical, Project, Relation, Windows
from planner.sql.names import Resolver, Unresolved
from rules.query.correlation import scalars
from rules.query.inner_joins import where
from rules.query.moving import block_of
from rules.query.tables import tables


def as_not_exists(project: Project, names: Resolver) -> Project | None:
    """The block with NOT EXISTS in the place of a left join whose right side is NULL; None where it is none.

    The right side must be a column that the condition of the join compares, and named nowhere else.
    """
    block = block_of(project)
    join = block and block.tree
    if block is None or not isinstance(join, Join) or join.kind != "left" or not join.condition:
        return None
    right = tables(join.right, names.definitions) if isinstance(join.right, Relation) else frozenset()
    if not right or not right <= tables(join.left, names.definitions):
        return None
    try:
        is_null = next((c for c in block.condition if _is_null(c, join, names)), None)
        others = [c for c in block.condition if c is not is_null]
        rest = [*others, *project.items, *(s for node in block.more for s in scalars(node))]
        if is_null is None or any(_names_right(scalar, join, names) for scalar in rest):
            return None
    except (Unsupported, Unresolved):
        return None
    query = Project(Filter(join.right, join.condition), (Scalar("1"),))
    test = Scalar(f"NOT EXISTS ({HOLE}0)", (query,), is_null.place)
    return replace(project, child=_over(project.child, where(join.left, (*others, test))))


def _over(node: Logical, tree: Logical) -> Logical:
    """The clauses between a select list and WHERE, over another FROM and WHERE."""
    if isinstance(node, Join) or (isinstance(node, Filter) and node.clause == "WHERE"):
        return tree
    assert isinstance(node, Aggregate | Windows | Filter)
    return replace(node, child=_over(node.child, tree))


def _is_null(conjunct: Scalar, join: Join, names: Resolver) -> bool:
    """Whether a conjunct asks for NULL in a column of the right side that the join compares."""
    tree = None if conjunct.plans else conjunct.tree
    if (
        not isinstance(tree, exp.Is)
        or not isinstance(tree.this, exp.Column)
        or not isinstance(tree.expression, exp.Null)
    ):
        return False
    found = names.resolve(column_ref(tree.this), names.sources(join))
    if found[0] < len(names.sources(join.left)):
        return False
    for condition in join.condition:
        comparison = compared(condition)
        ends = comparison.operands if comparison and comparison.sign != "<=>" else ()
        if any(names.resolve(column_ref(e), names.sources(join)) == found for e in ends if isinstance(e, exp.Column)):
            return True
    return False


def _names_right(scalar: Scalar, join: Join, names: Resolver) -> bool:
    """Whether an expression names the right side, or may."""
    if scalar.plans:
        return True
    left, sources = len(names.sources(join.left)), names.sources(join)
    return any(ref.parts[-1] == "*" or names.resolve(ref, sources)[0] >= left for ref in scalar.columns)
