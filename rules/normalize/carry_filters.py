"""Pushes filters into subqueries: ``FROM (SELECT … FROM p, i) z WHERE z.x BETWEEN z.lo AND z.hi``."""

from __future__ import annotations

from sqlglot import exp

from dovetail.planner.band.comparisons import looks_like_band, orders
from dovetail.planner.bind.scope import BoundColumn
from dovetail.planner.conditions.normal_form import normal_form
from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import Scalar, is_reference, is_star, quote, without_parentheses
from dovetail.planner.expr.calls import GENERATORS, volatile
from dovetail.planner.expr.substitution import operand
from dovetail.planner.logical import Derived, Filter, Join, Logical, Project, Scan
from dovetail.rules.context import Context
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.query.definitions import definition_of
from dovetail.rules.query.from_items import INNER, read_from_items
from dovetail.rules.query.query_block import QueryBlock, move_conjuncts, read_block, where
from dovetail.rules.query.subquery_columns import columns_inside, over_subquery
from dovetail.rules.rule import rule


@rule(Filter, streams="one")
def carry_filters(node: Filter, ctx: Context) -> Logical | None:
    """Push a WHERE condition into the subquery or CTE that joins the relations whose columns it compares.

    Spark does this as well, but later; the rules need to see the band at its join now.  Only a condition that could
    be a band moves.  A column may be an expression inside: ``(SELECT abs(a.x - b.x) AS gap FROM a, b) WHERE gap < 5``,
    or a condition: ``(SELECT a.x > b.x AS later FROM a, b) WHERE later``.
    """
    place = next((c.place for c in node.condition if orders(c)), None)
    if node.clause != "WHERE" or not (place or any(map(_tests_flag, node.condition))):
        return None
    relations = read_from_items(node.child, INNER).relations
    if place and len(relations) == 1 and _pairs_and_more(relations[0]):
        return ctx.decline("the subquery does more than join, so the condition stays above it", place)
    if not any(_joined(relation, ctx) for relation in relations):
        return None
    return move_conjuncts(node, lambda c, tree: _carried(c, tree, ctx) if orders(c) or _tests_flag(c) else None)


def _tests_flag(conjunct: Scalar) -> bool:
    """Whether a conjunct is a column, or compares one with a literal for equality, as tests of flags do."""
    if conjunct.plans or conjunct.known is None:
        return False
    tree = without_parentheses(conjunct.known)
    if isinstance(tree, exp.EQ | exp.Is):
        sides = [tree.this, tree.expression]
        return any(map(is_reference, sides)) and any(isinstance(s, exp.Literal | exp.Boolean) for s in sides)
    return is_reference(tree)


def _pairs_and_more(relation: Logical) -> bool:
    """Whether a subquery makes all pairs of tables, and more of them than a condition could pass."""
    block = read_block(relation.query) if isinstance(relation, Derived) and not relation.lateral else None
    if block is None or not isinstance(block.tree, Join) or block.tree.kind != "cross" or block.condition:
        return False
    return bool(block.clauses) or not all(map(_is_of_one_row, block.project.items))


def _is_of_one_row(item: Scalar) -> bool:
    """Whether an item of a select list is computed from one row, and is the same wherever it is computed."""
    tree = item.tree.unalias()
    return not item.plans and (is_star(tree) or not (volatile(tree) or tree.find(exp.Window, exp.AggFunc, *GENERATORS)))


def _joined(relation: Logical, ctx: Context) -> QueryBlock | None:
    """The SELECT of a subquery that joins relations and does nothing that a condition could not pass."""
    query = relation.query if isinstance(relation, Derived) and not relation.lateral else None
    if isinstance(relation, Scan) and relation.cte:
        query = definition_of(relation, ctx)
    block = read_block(query) if isinstance(query, Project) else None
    if block is None or not block.is_plain:
        return None
    if not isinstance(block.tree, Join) or block.tree.kind in ("semi", "anti"):
        return None
    try:
        return block if all(map(_is_of_one_row, block.project.items)) else None
    except Unsupported:
        return None


def _carried(conjunct: Scalar, tree: Logical, ctx: Context) -> Logical | None:
    """The FROM tree with the conjunct in the one subquery whose columns it names; None where there is no such."""
    try:
        check_deterministic(conjunct)
        scope = ctx.scope(tree)
        bound, from_items = scope.bind(conjunct), read_from_items(tree, INNER)
        if len(bound.relations) != 1 or len(from_items.found) != len(scope.sources):
            return None
        (at,) = bound.relations
        relation = from_items.relations[at]
        block = _joined(relation, ctx)
        if block is None:
            return None
        shown = columns_inside(block, scope.sources[at], ctx, computed=True)

        def inside(found: BoundColumn) -> str:
            return ".".join((operand(shown[found.name]), *map(quote, found.column.field)))

        moved = bound.substitute(inside)
        if not any(map(looks_like_band, normal_form((moved,)))) or len(ctx.scope(block.tree).bind(moved).relations) < 2:
            return None
        inner = block.over(where(block.tree, (*block.condition, moved)))
    except (Refused, KeyError):
        return None
    return from_items.rebuilt({at: over_subquery(relation, inner, ctx)}, lambda c: c, keeps_on=True)[0]
