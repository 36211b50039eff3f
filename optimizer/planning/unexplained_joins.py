"""The reason for a statement with joins that no rule has rewritten, and none has declined."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlglot import exp

from dovetail.planner.band.comparisons import is_or_of_comparisons, looks_like_band, may_equal, names_relations
from dovetail.planner.conditions.compared import Comparison, compared
from dovetail.planner.errors import ReasonCode
from dovetail.planner.explain.records import Declined
from dovetail.planner.expr import Scalar, column_ref, columns_in, without_parentheses
from dovetail.planner.keys.read_keys import looks_like_keys
from dovetail.planner.logical import Derived, Filter, Join, Logical, Opaque, Pipeline, Scan
from dovetail.planner.tree import Node

_RULE = "joins"  # shown in the place of a rule


def explain_disabled_rules(plan: Logical, disabled_rules: Collection[str]) -> Declined | None:
    """The rules that are switched off, as a reason for a statement that reads several relations; None for any other."""
    if not disabled_rules or sum(isinstance(node, Scan) for node in plan.walk()) < 2:
        return None
    names = ", ".join(sorted(disabled_rules))
    place = next((join.place for join, _ in _joins(plan, ())), None)
    return Declined("disabled_rules", f"no rule applies without {names}, which disabled_rules switches off", place)


def explain_joins(plan: Logical) -> Declined | None:
    """Why a statement as it was read is left to Spark; None if it joins nothing.

    The first join with a comparison by order decides, else the first without an equality, else the first.
    """
    joins = list(_joins(plan, ()))
    if not joins:
        return _explain_subqueries(plan)
    for join, where in joins:
        for conjunct in (*join.condition, *where):
            if _compares_relations(conjunct):
                return Declined(_RULE, _describe_comparison(conjunct), conjunct.place or join.place)
    join, where = next(((join, where) for join, where in joins if not _equates(join, where)), joins[0])
    code: ReasonCode = "equality_join" if _equates(join, where) else "no_equality"
    return Declined(_RULE, _describe_join(join, where), join.place, None if _is_lateral(join) else code)


def _explain_subqueries(plan: Logical) -> Declined | None:
    """Why a subquery that compares its rows with those around it stays one; None if there is none.

    The first comparison by order decides, else the first condition beside which there is no equality.
    """
    found = None
    for node in plan.walk():
        for query in node.subplans:
            for inner in query.walk():
                if isinstance(inner, Filter) and inner.clause == "WHERE":
                    for conjunct in filter(_compares_relations, inner.condition):
                        return Declined(_RULE, _describe_subquery(conjunct), conjunct.place)
                    found = found or _without_equality(inner.condition)
    return found


def _without_equality(condition: tuple[Scalar, ...]) -> Declined | None:
    """Why a subquery of one relation is no join by keys: the first conjunct that names relations beside its own."""
    read = [c for c in condition if c.known is not None]  # others have columns that only Spark knows
    across = [c for c in read if names_relations(c)]
    if not across or any(map(_is_equality, condition)):
        return None
    reason = (
        f"the subquery has no equality and no band with the query around it ({across[0].shown}), so Spark compares "
        "every pair; add an equality or a band"
    )
    return Declined(_RULE, reason, across[0].place, "no_equality")


def _describe_subquery(conjunct: Scalar) -> str:
    return (
        f"{conjunct.shown} compares the rows of a subquery with those around it, and the subquery has no form that "
        "becomes a join (EXISTS and IN as conditions of WHERE; one aggregate without GROUP BY and HAVING); "
        "write one of them, or a join"
    )


def _joins(node: Node, where: tuple[Scalar, ...]) -> Iterator[tuple[Join, tuple[Scalar, ...]]]:
    """The joins of a plan, each with the conjuncts of the WHERE above it."""
    if isinstance(node, Filter) and node.clause == "WHERE":
        where = node.condition
    elif not isinstance(node, Join | Pipeline):
        where = ()
    if isinstance(node, Join):
        yield node, where
    for below in (*node.children, *node.subplans):
        yield from _joins(below, where if isinstance(below, Join) else ())


def _is_lateral(join: Join) -> bool:
    return isinstance(join.right, Derived | Opaque) and join.right.lateral


def _equates(join: Join, where: tuple[Scalar, ...]) -> bool:
    return bool(join.using) or join.natural or any(map(_is_equality, (*join.condition, *where)))


def _is_equality(conjunct: Scalar) -> bool:
    """Whether Spark may join on a conjunct: an equality of two sides, alone or beside AND, as far as its names show."""
    tree = conjunct.known and without_parentheses(conjunct.known)
    if isinstance(tree, exp.Or):
        return False
    if conjunct.plans or tree is None:
        return may_equal(conjunct)
    parts = tree.flatten() if isinstance(tree, exp.And) else (tree,)
    return any((found := compared(part)) and found.equal and _separates(found) for part in parts)  # type: ignore[arg-type]


def _separates(comparison: Comparison) -> bool:
    """Whether both operands read columns, and no relation is read by both."""
    left, right = (set(map(_qualifier, columns_in(one))) for one in comparison.operands)
    return bool(left and right) and left.isdisjoint(right - {""})


def _qualifier(column: exp.Expression) -> str:
    first, *others = column_ref(column).parts
    return first.casefold() if others else ""


def _compares_relations(conjunct: Scalar) -> bool:
    """Whether a conjunct compares by order, and not the columns of one relation alone, as far as its names show."""
    if not (looks_like_band(conjunct) or is_or_of_comparisons(conjunct) or looks_like_keys(conjunct)):
        return False
    return len({column.parts[:-1] or column.parts for column in conjunct.columns}) > 1


def _describe_comparison(conjunct: Scalar) -> str:
    if is_or_of_comparisons(conjunct):
        return (
            f"{conjunct.shown}: an OR is no band, since a pair needs to fulfil only one part; give each part an "
            "equality or a band of the two sides (docs/key-joins.md)"
        )
    return (
        f"{conjunct.shown} is no condition between the sides of one join: it compares columns of a subquery, or stands "
        "above an outer join; write it into ON of the join whose sides it compares"
    )


def _describe_join(join: Join, where: tuple[Scalar, ...]) -> str:
    keyword = "a comma" if join.keyword == "," else " ".join(join.keyword.upper().split())
    if _is_lateral(join):
        return f"{keyword} reads LATERAL, which holds no band and picks no nearest row, so Spark's own join is used"
    if _equates(join, where):
        return (
            f"{keyword} has an equality, which Spark joins on, and neither a band nor a nearest row to make it faster"
        )
    if join.condition or where:
        shown = (join.condition or where)[0].shown
        return (
            f"{keyword} has no equality and no band ({shown}), so Spark compares every pair; add an equality or a band"
        )
    return f"{keyword} has no condition, so it returns every pair; add an equality or a band if that is not wanted"
