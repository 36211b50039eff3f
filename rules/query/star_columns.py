"""Writes ``*`` in a select list as the columns that it shows."""

from __future__ import annotations

from sqlglot import exp

from dovetail.planner.bind.from_columns import FromColumns, ShownColumn, from_columns
from dovetail.planner.bind.names import Resolver, check_distinct_names
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, column_ref, is_star, sql
from dovetail.planner.logical import Logical


def expand_items(items: tuple[Scalar, ...], tree: Logical, names: Resolver) -> tuple[Scalar, ...]:
    """A select list over a FROM tree with columns in the place of ``*``, ``a.*`` and ``* EXCEPT (…)``.

    Raises ``Refused`` where the columns of a relation are not known.
    """
    scope = from_columns(names, tree)
    return tuple(column for item in items for column in _expand(item, scope, names))


def _expand(item: Scalar, scope: FromColumns, names: Resolver) -> tuple[Scalar, ...]:
    tree = item.known
    if tree is None or not is_star(tree):
        return (item,)
    columns = [column for column in _shown(tree, scope, names) if column not in _excepted(tree, scope, names)]
    found = [scope.sources[column.source].reference(column.name) for column in columns]
    check_distinct_names(scope.sources, item.place)
    for text in found:
        names.resolve(column_ref(Scalar(text).tree), scope.sources)
    return tuple(Scalar(text, (), item.place) for text in found)


def _shown(tree: exp.Expr, scope: FromColumns, names: Resolver) -> tuple[ShownColumn, ...]:
    """The columns that a star shows, EXCEPT aside, in order."""
    if not isinstance(tree, exp.Column):
        return scope.known_star
    qualifier = names.folded(part.name for part in tree.parts[:-1])
    found = [number for number, source in enumerate(scope.sources) if source.is_named(qualifier)]
    if len(found) != 1:
        raise Refused(f"{sql(tree)} is not one relation")
    return tuple(c for c in (*scope.hidden, *scope.known_star) if c.source == found[0])


def _excepted(tree: exp.Expr, scope: FromColumns, names: Resolver) -> tuple[ShownColumn, ...]:
    """The columns that EXCEPT leaves out."""
    star = tree.this if isinstance(tree, exp.Column) else tree
    if any(value for key, value in star.args.items() if key not in ("except_", "except")):
        raise Refused(f"{sql(tree)} is more than columns")
    found = []
    for one in star.args.get("except_") or star.args.get("except") or ():
        if isinstance(one, exp.Column) and len(one.parts) > 1:
            raise Refused(f"{sql(tree)} leaves out a column of one relation")
        hits = [c for c in _shown(tree, scope, names) if names.is_same(c.name, one.name)]
        if len(hits) != 1:
            raise Refused(f"{one.name} in {sql(tree)} is not one column")
        found.append(hits[0])
    return tuple(found)
