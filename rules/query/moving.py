"""Conditions that leave a subquery for the ON of a join: what a column means inside, and how it is said outside.

Inside, a column belongs to the subquery's own relations if they have it, and else to those around it.  In ON all of
them are side by side, so that a bare name may come to mean two columns, and has to be qualified.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlglot import exp

from planner.band.comparisons import looks_like_band
from planner.expr import ColumnRef, Scalar, column_ref, quote, sql
from planner.expr.calls import volatile
from planner.expr.rewording import reworded
from planner.logical import (
    Aggregate,
    Filter,
    Join,
    LateralView,
    Limit,
    Logical,
    Nested,
    OneRow,
    Opaque,
    Project,
    Sort,
    Verbatim,
    Windows,
    With,
    Wrapped,
)
from planner.sql.names import NoSuchColumn, Resolver, Source, Unresolved
from planner.tree import Node
from rules.query.correlation import correlated, leans_on_left

Sources = tuple[Source, ...]

_SIMPLE = (
    exp.Column,
    exp.Identifier,
    exp.Dot,
    exp.Star,
    exp.Literal,
    exp.Null,
    exp.Boolean,
    exp.Alias,
    exp.Paren,
    exp.Neg,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Abs,
    exp.Coalesce,
    exp.Greatest,
    exp.Least,
    exp.Cast,
    exp.DataType,
    exp.DataTypeParam,
    exp.Interval,
    exp.Var,
    exp.TimestampTrunc,
)


class SelectBlock(NamedTuple):
    """One SELECT of a subquery: its list, the conjuncts of WHERE, its FROM tree, and what else it has."""

    project: Project
    condition: tuple[Scalar, ...]
    tree: Logical
    more: tuple[Logical, ...]


def block_of(query: Node) -> SelectBlock | None:
    """The SELECT … FROM … WHERE at the heart of a query; None where there is none, or more than one."""
    more: list[Logical] = []
    node = query
    while isinstance(node, With | Sort | Limit | Wrapped):
        if not isinstance(node, Wrapped):
            more.append(node)
        node = node.child
    if not isinstance(node, Project):
        return None
    project, node = node, node.child
    while isinstance(node, Aggregate | Windows) or (isinstance(node, Filter) and node.clause != "WHERE"):
        more.append(node)
        node = node.child
    condition: tuple[Scalar, ...] = ()
    if isinstance(node, Filter):
        condition, node = node.condition, node.child
    return None if isinstance(node, OneRow) else SelectBlock(project, condition, node, tuple(more))


def more_than_a_block(node: Logical) -> str:
    """Why a query is not plain, where it has such a node."""
    what = f"a {node.clause} clause" if isinstance(node, Filter) else f"its own {node.label}"
    return f"the subquery is more than SELECT … FROM … WHERE: it has {what}"


def bounds(conjuncts: tuple[Scalar, ...]) -> int:
    """How many bounds these conjuncts could set: a band needs two.  Cheap, and never looks anything up."""
    count = 0
    for conjunct in filter(looks_like_band, conjuncts):
        twice = conjunct.tree.find(exp.Between, exp.Abs)
        count += 2 if twice else len(list(conjunct.tree.find_all(exp.LT, exp.LTE, exp.GT, exp.GTE)))
    return count


def why_not_simple(tree: exp.Expression) -> str:
    """Why an item of a select list is more than columns and arithmetic; nothing when it is not."""
    if all(isinstance(node, _SIMPLE) for node in tree.walk()):
        return ""
    return "its select list holds more than columns, literals and arithmetic"


def check_deterministic(conjunct: Scalar) -> None:
    """Raise ``Unresolved`` unless a conjunct has the same value wherever it stands."""
    if conjunct.plans:
        raise Unresolved(f"{conjunct.shown} contains another subquery")
    if found := volatile(conjunct.tree):
        raise Unresolved(f"{sql(found)} is not known to be deterministic")


def check_inner(tree: Logical, names: Resolver) -> None:
    """Raise ``Unresolved`` unless the FROM tree of a subquery can stand beside the relations around it."""
    if leans_on_left(tree) or has_lateral_view(tree):
        raise Unresolved("its FROM has a LATERAL item")
    for node in tree.walk():
        if isinstance(node, Verbatim) or (isinstance(node, Opaque) and not node.text.text.upper().startswith("VALUES")):
            raise Unresolved("its FROM holds something that Dovetail does not parse")
    if correlated(Project(tree, ()), names):
        raise Unresolved("its FROM uses columns of the outer query, or of an unknown relation")


def has_lateral_view(tree: Node) -> bool:
    """Whether a LATERAL VIEW stands in a FROM tree, behind which no join can be written."""
    if isinstance(tree, LateralView):
        return True
    return isinstance(tree, Join | Nested) and any(has_lateral_view(child) for child in tree.children)


class Home(NamedTuple):
    """Where a column comes from: the number of the scope, counted outward, of the relation in it, and its name.

    ``field``: a name means a field of the column, not the column.
    """

    scope: int
    relation: int
    column: str
    field: bool = False


def home(ref: ColumnRef, scopes: tuple[Sources, ...], names: Resolver) -> Home:
    """What a column means in nested scopes, the innermost first.  Raises ``Unresolved``."""
    for number, sources in enumerate(scopes[:-1]):
        try:
            index, column = names.resolve(ref, sources)
            return Home(number, index, column.name, bool(column.field))
        except NoSuchColumn:
            continue
    index, column = names.resolve(ref, scopes[-1])
    return Home(len(scopes) - 1, index, column.name, bool(column.field))


def homes(scalar: Scalar, scopes: tuple[Sources, ...], names: Resolver) -> set[int]:
    """The scopes whose columns an expression names.  Raises ``Unresolved``, ``Unsupported``."""
    return {home(c, scopes, names).scope for c in scalar.columns}


def moved(
    scalar: Scalar,
    scopes: tuple[Sources, ...],
    after: Sources,
    target: Callable[[Home], tuple[int, str]],
    names: Resolver,
) -> Scalar:
    """An expression as it must be written over ``after``, so that every column keeps its meaning.

    ``target`` tells the relation in ``after`` and the column there.  Raises ``Unresolved`` where there is no such way.
    """

    def say(column: exp.Expression) -> str | None:
        ref = column_ref(column)
        origin = home(ref, scopes, names)
        index, name = target(origin)
        if _means(ref, after, index, name, names):
            return None
        source = scopes[origin.scope][origin.relation]
        path = tuple(map(names.fold, (*source.names, origin.column)))
        if origin.field or tuple(map(names.fold, ref.parts)) != path[-len(ref.parts) :]:
            raise Unresolved(f"{ref.text} would not be the same column in a join")
        new = ColumnRef((*after[index].names[-1:], name), ".".join(map(quote, (*after[index].names[-1:], name))))
        if not _means(new, after, index, name, names):
            raise Unresolved(f"{ref.text} would be ambiguous in a join")
        return new.text

    return reworded(scalar, say)


def _means(ref: ColumnRef, sources: Sources, index: int, name: str, names: Resolver) -> bool:
    try:
        found, column = names.resolve(ref, sources)
    except Unresolved:
        return False
    return found == index and names.fold(column.name) == names.fold(name)
