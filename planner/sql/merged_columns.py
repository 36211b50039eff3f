"""Columns that USING or NATURAL merged, in a RowLookupJoin, which returns the columns of all its relations.

Over ``a JOIN b USING (id)`` both ``a.id`` and ``b.id`` can be named, and ``id`` is not ambiguous.  Relations side by
side cannot have all three: ``b.id`` is shown where a query names it or ``b.*``, and then ``id`` becomes ``a.id``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from dovetail.planner.errors import Unsupported
from dovetail.planner.expr import Scalar, quote
from dovetail.planner.expr.references import column_refs
from dovetail.planner.logical import Join, LateralView, Limit, Project, Sort, clauses_of, expressions, nodes_of_from
from dovetail.planner.physical.base import Spark
from dovetail.planner.physical.row_lookup_join import Named, RowLookupJoin
from dovetail.planner.sql.qualified_names import check_can_qualify, qualify
from dovetail.planner.sql.to_sql import to_sql
from dovetail.planner.tree import Node, transform_up, unwrap

Fold = Callable[[str], str]


@dataclass(frozen=True)
class Uses:
    """The merged columns that a query names with a qualifier, and the names of those that it names without one, too."""

    qualified: tuple[Named, ...]
    both: frozenset[str]


Needed = dict[str, Uses]  # by the view of a lookup


def with_qualified(plan: Node, fold: Fold) -> Node:
    """The plan with the merged columns that its queries name with a qualifier.

    Raises ``Unsupported`` where a query names one in both ways, and the name alone cannot be given a qualifier, and
    where its relation has the name of a column.
    """
    if not any(isinstance(node, RowLookupJoin) and node.qualified_only for node in plan.walk()):
        return plan
    needed: Needed = {}
    _visit(plan, (), needed, fold)

    def settle(node: Node) -> Node:
        if isinstance(node, RowLookupJoin):
            found = needed.get(node.view)
            return replace(node, qualified=found.qualified) if found else node
        if isinstance(node, Spark) and isinstance(node.op, Project):
            return replace(node, op=settled(node.op))
        return settled(node) if isinstance(node, Project) else node

    def settled(project: Project) -> Project:
        for join in map(unwrap, nodes_of_from(clauses_of(project)[1])):
            if isinstance(join, RowLookupJoin) and (found := needed.get(join.view)) and found.both:
                return qualify(project, join, found.both, fold)
        return project

    return transform_up(plan, settle)


def _visit(plan: Node, above: tuple[Scalar, ...], needed: Needed, fold: Fold) -> None:
    """Look at every block of a query; ``above``: clauses around the block at hand that can name its columns."""
    node = unwrap(plan)
    if isinstance(node, Sort | Limit):
        _visit(node.child, (*above, *expressions(node)), needed, fold)
        return
    if isinstance(node, Project):
        _block(node, above, needed, fold)
        above = ()
    for below in (*node.children, *node.subplans):
        _visit(below, above, needed, fold)


def _block(project: Project, above: tuple[Scalar, ...], needed: Needed, fold: Fold) -> None:
    clauses, node = clauses_of(project)
    scalars = [*above, *project.items, *(scalar for clause in clauses for scalar in expressions(clause))]
    joins = list(map(unwrap, nodes_of_from(node)))
    for join in joins:
        if isinstance(join, Join | LateralView):
            scalars += join.condition if isinstance(join, Join) else (join.text,)
    for join in joins:  # the outermost first: what it takes to Python, those below have to show
        if isinstance(join, RowLookupJoin):
            found = _find(join, [*scalars, *join.matched], fold)
            _check_shadowed(join, found, project, fold)
            if found.both:
                lookups = sum(isinstance(node, RowLookupJoin) for node in joins)
                check_can_qualify(project, above, found.both, fold, alone=lookups == 1)
            needed[join.view] = found
            scalars += [*(k.value for k in join.keys), *join.only, *join.matched]
            scalars += [Scalar(f"{quote(r)}.{quote(c)}") for r, c in found.qualified]


def _check_shadowed(join: RowLookupJoin, found: Uses, project: Project, fold: Fold) -> None:
    """Raise ``Unsupported`` for a merged column of the left side whose relation has the name of a column.

    Spark reads ``c.id`` as the field of a column ``c`` before it looks for a merged column, and only ``c.*`` shows it.
    """
    columns = {fold(column) for _, columns in join.rows for column in columns}
    for relation, column in found.qualified:
        if relation != join.alias and fold(relation) in columns:
            raise Unsupported(
                f"{quote(relation)}.{quote(column)}, which USING or NATURAL merged, cannot be read by its name, since "
                f"a column has the name {quote(relation)} as well; give the relation another alias",
                project.items[0].place,
            )


def _find(join: RowLookupJoin, scalars: list[Scalar], fold: Fold) -> Uses:
    """How these expressions name merged columns."""
    found: dict[Named, None] = {}
    alone: set[str] = set()
    for scalar in scalars:
        if scalar.text == "*":
            continue  # spelled out by relation
        for ref in column_refs(scalar.render(to_sql)):
            parts = tuple(map(fold, ref.parts))
            alone.add(parts[0])
            pairs = list(pairwise(parts))
            for relation, column in join.qualified_only:
                if any(one == fold(relation) and two in (fold(column), "*") for one, two in pairs):
                    found[relation, column] = None
    return Uses(tuple(found), frozenset(fold(column) for _, column in found if fold(column) in alone))
