"""Decorrelation checks: whether FROM and the conditions of a subquery can move into a join."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlglot import exp

from dovetail.planner.band.comparisons import looks_like_band
from dovetail.planner.bind.correlation import is_correlated
from dovetail.planner.bind.names import Resolver
from dovetail.planner.bind.scope import Scope
from dovetail.planner.bind.select_list import items_named
from dovetail.planner.errors import NoSuchColumn, Refused
from dovetail.planner.expr import Scalar, columns_in, is_star, sql
from dovetail.planner.expr.aggregate_calls import has_aggregate
from dovetail.planner.expr.calls import GENERATORS, volatile
from dovetail.planner.keys.read_keys import looks_like_keys
from dovetail.planner.logical import Filter, LateralView, Logical, Opaque, Project, Verbatim, nodes_of_from
from dovetail.planner.logical.relations import references_left
from dovetail.planner.tree import Node
from dovetail.rules.context import Context
from dovetail.rules.query.query_block import read_block


def more_than_a_block(node: Logical) -> str:
    """Return the reason why a query with such a node is more than SELECT … FROM … WHERE."""
    what = f"a {node.clause} clause" if isinstance(node, Filter) else f"its own {node.label}"
    return f"the subquery is more than SELECT … FROM … WHERE: it has {what}"


def bounds(conjuncts: tuple[Scalar, ...]) -> int:
    """How many bounds these conjuncts could set: a band needs two.  Cheap, and never looks anything up."""
    count = 0
    for conjunct in filter(looks_like_band, conjuncts):
        twice = conjunct.tree.find(exp.Between, exp.Abs, exp.EQ, exp.In)
        count += 2 if twice else len(list(conjunct.tree.find_all(exp.LT, exp.LTE, exp.GT, exp.GTE)))
    return count


def may_have_band_or_keys(conjunct: Scalar) -> bool:
    """Whether a conjunct may bound a value, or have keys; cheap, and never looks anything up."""
    return looks_like_band(conjunct) or looks_like_keys(conjunct)


def has_band_or_keys(conjuncts: tuple[Scalar, ...]) -> bool:
    """Whether conjuncts may be a band, or one of them has keys; as cheap."""
    return bounds(conjuncts) >= 2 or any(map(looks_like_keys, conjuncts))


def why_not_rows(items: Iterable[Scalar]) -> str:
    """Return the reason why a select list may not return a row for each row of FROM, as an aggregate does not."""
    for item in items:
        if item.plans:
            return "its select list holds a subquery"
        tree = item.tree
        if volatile(tree) or has_aggregate(tree) or tree.find(exp.Window, *GENERATORS):
            return "its select list holds more than columns, literals and functions of one row"
    return ""


def check_deterministic(
    conjunct: Scalar, volatile_call: Callable[[exp.Expression], exp.Expr | None] = volatile
) -> None:
    """Raise ``Refused`` unless a conjunct has the same value wherever it is evaluated.

    ``volatile_call`` returns its first call that may be volatile: one that looks users' functions up may return None.
    """
    if conjunct.plans:
        raise Refused(f"{conjunct.shown} contains another subquery")
    if found := volatile_call(conjunct.tree):
        raise Refused(f"{sql(found)} is not known to be deterministic")


def check_inner(tree: Logical, names: Resolver) -> None:
    """Raise ``Refused`` unless the FROM tree of a subquery can be joined with the relations of the outer query."""
    if references_left(tree) or has_lateral_view(tree):
        raise Refused("its FROM has a LATERAL item")
    if any(map(is_text, tree.walk())):
        raise Refused("its FROM holds something that Dovetail does not parse")
    if is_correlated(Project(tree, ()), names):
        raise Refused("its FROM uses columns of the outer query, or of an unknown relation")


def outer_relations(query: Node, outer: Scope, ctx: Context) -> frozenset[int]:
    """The numbers of the relations of ``outer`` that a subquery reads.

    Raises ``Refused`` where they are not known, or where the subquery has no fixed result for one row of them.
    """
    block = read_block(query)
    if block is None:
        raise Refused("a subquery is more than one SELECT")
    check_inner(block.tree, ctx.names)
    inner = Scope.of(ctx.names, block.tree, outer=outer)
    found = set()
    for scalar in (*block.condition, *block.project.items, *block.in_clauses):
        check_deterministic(scalar)
        for tree in columns_in(scalar.tree):
            if is_star(tree) and ctx.names.starred(tree, inner.sources):
                continue
            try:
                column = inner.column(tree)
            except NoSuchColumn:
                if items_named(tree, block.project.items, ctx.names):
                    continue
                raise
            if column.level:
                found.add(column.relation)
    return frozenset(found)


def is_text(node: Node) -> bool:
    """Whether a part of a query is only known as text; VALUES is as good as known."""
    return isinstance(node, Verbatim) or (isinstance(node, Opaque) and not node.text.text.upper().startswith("VALUES"))


def has_lateral_view(tree: Node) -> bool:
    """Whether a FROM tree has a LATERAL VIEW, after which no join can be written."""
    return any(isinstance(node, LateralView) for node in nodes_of_from(tree))
