"""Gives merged columns that a block names alone the name of their relation: ``id`` becomes ``a.id``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, NoReturn

from sqlglot import exp

from dovetail.planner.catalog.settings import NameCase
from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import Scalar, column_ref, is_star, name_of_item, quote
from dovetail.planner.expr.references import column_refs
from dovetail.planner.expr.substitution import substitute_columns
from dovetail.planner.logical import (
    Aggregate,
    Filter,
    Join,
    LateralView,
    Nested,
    Project,
    Relation,
    Windows,
    clauses_of,
    map_expressions,
)
from dovetail.planner.sql.to_sql import to_sql


def check_can_qualify(project: Project, above: tuple[Scalar, ...], names: frozenset[str], case: NameCase) -> None:
    """Raise ``Unsupported`` where the names of a block cannot be qualified without a change of what they mean.

    ``above``: ORDER BY and the like, whose names are those of the select list first.
    """
    outputs = {"*" if is_star(item.known) else case.fold(name_of_item(item.known)) for item in project.items}
    for scalar in above:
        if missing := _alone(scalar, names, case) - (outputs if "*" not in outputs else names):
            _refuse(scalar, missing)
    for clause in clauses_of(project)[0]:
        for conjunct in clause.condition if isinstance(clause, Filter) and clause.clause != "WHERE" else ():
            if found := _alone(conjunct, names, case) & outputs:
                _refuse(conjunct, found)


def qualify_names(
    project: Project, owners: Mapping[str, Callable[[str], str]], relations: Collection[str], case: NameCase
) -> Project:
    """A block with the name of its relation before each column that ``owners`` has, which writes it before a word.

    ``relations`` are names of relations.  The word stays, since Spark names a column as the query spells it.

    Raises ``Unsupported`` where a column cannot be found in the text.
    """
    names = frozenset(owners)

    def named(column: exp.Expression) -> str | None:
        parts = column_ref(column).parts
        first = case.fold(parts[0])
        if first not in names or (len(parts) > 1 and first in relations):
            return None
        return ".".join([owners[first](parts[0]), *map(quote, parts[1:])])

    def change(scalar: Scalar) -> Scalar:
        found = _alone(scalar, names, case)
        if scalar.text == "*" or not found:
            return scalar
        if scalar.known is None or any(_alone(Scalar(to_sql(plan)), names, case) for plan in scalar.plans):
            _refuse(scalar, found)
        try:
            return substitute_columns(scalar, named)
        except Refused:
            _refuse(scalar, found)

    def visit(node: Any) -> Any:
        match node:
            case Filter() | Aggregate() | Windows() | LateralView():
                return replace(map_expressions(node, change), child=visit(node.child))
            case Join():
                return replace(map_expressions(node, change), left=visit(node.left), right=visit(node.right))
            case Nested() if not node.alias:
                return replace(node, child=visit(node.child))
            case Relation():
                return node
        _refuse(project.items[0], names)

    return replace(project, items=tuple(map(change, project.items)), child=visit(project.child))


def _alone(scalar: Scalar, names: frozenset[str], case: NameCase) -> frozenset[str]:
    """The names among these that begin a reference."""
    return names & set(case.folded(ref.parts[0] for ref in column_refs(scalar.render(to_sql))))


def _refuse(scalar: Scalar, names: frozenset[str]) -> NoReturn:
    name = min(names)
    raise Unsupported(f"{quote(name)}, which USING or NATURAL merged, cannot be named with its relation", scalar.place)
