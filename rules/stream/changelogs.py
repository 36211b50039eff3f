"""Joins of changelogs: removes the columns with the kind of change from the select list, and adds a count of each row.

SELECT * FROM orders o JOIN customers c ON o.customer = c.id

SELECT `o`.`id`, …, `c`.`name`, `o`.__dt_count * `c`.__dt_count AS __dt_count FROM …
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from dovetail.planner.bind.names import Resolver
from dovetail.planner.bind.scope import Scope
from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import Scalar, column_ref, columns_in, has_star, is_star, quote, sql
from dovetail.planner.expr.calls import repeated_otherwise
from dovetail.planner.expr.stable_functions import first_stable_function
from dovetail.planner.logical import Filter, Join, Logical, Project, Scan
from dovetail.planner.state.changes import COUNT
from dovetail.planner.state.stream import Stream
from dovetail.rules.analysis.same_source import RelationLineage
from dovetail.rules.stream.stream_blocks import Shape, alias_of

_COUNTS = "in which Dovetail counts rows"


def without_changes(shape: Shape, scope: Scope, hidden: dict[int, str]) -> Shape:
    """Expand ``*`` in a query and drop the ``hidden`` columns, by side.

    Raises ``Unsupported`` if it names one of them, or calls a function that is not immutable.
    """
    every = (*shape.block.project.items, *shape.on, *shape.where)
    for scalar in every:
        for found in scope.bind(scalar).known_columns:
            name = found.column.name
            if scope.names.is_same(hidden.get(scope.item(found)), name):
                raise Unsupported(f"{name} is the kind of a change, and no column of the result; leave it out")
        odd = repeated_otherwise(scalar.tree)
        if word := first_stable_function(scalar.text) or (odd and sql(odd)):
            raise Unsupported(f"{word} may have another value when a row is deleted than when it was inserted")
    items = expand_items(shape.block.project.items, scope, [hidden.get(n) for n in scope.items])
    return replace(shape, block=replace(shape.block, project=replace(shape.block.project, items=items)))


def check_alone(query: Logical, changes: Iterable[str], names: Resolver) -> None:
    """Raise ``Refused`` if a query over one changelog does not return the kind of change, a column of ``changes``.

    Alone, or with tables, a stream is read as it arrives, and so are changes; a lookup handles each by its key.
    """
    nodes = list(query.walk())
    if any(isinstance(n, Scan) and n.as_of for n in nodes):
        return
    scalars = [
        s for n in nodes for s in (n.items if isinstance(n, Project) else n.condition if isinstance(n, Filter) else ())
    ]
    shown = {column.name for s in scalars for column in columns_in(s.tree)}
    if any(has_star(s.tree) for s in scalars):
        return
    if hidden := next((c for c in changes if c and not names.is_among(c, shown)), None):
        joined = any(isinstance(n, Join) for n in nodes)
        other = "read the other relations as streams too" if joined else "opt.materialize computes the current rows"
        raise Refused(f"no other stream is joined; {other}, or select {hidden} to see the changes as they come")


def find_change_column(read: RelationLineage, change: str, names: Resolver) -> str | None:
    """Return the name under which a relation returns its column of the kind of change; None if it does not.

    Raises ``Unsupported`` if it uses the column in any other way.
    """
    trees = {c.name: Scalar(c.value).tree for c in read.columns}
    shown = [n for n, tree in trees.items() if isinstance(tree, exp.Column) and names.is_same(change, tree.name)]
    used = [c for c in read.columns if c.name not in shown]
    for text in (*(c.value for c in used), *read.filters):
        for column in columns_in(Scalar(text).tree):
            if names.is_same(change, column_ref(column).parts[0]):
                raise Unsupported(
                    f"a subquery computes or filters with {change}, the kind of a change; filter the result instead"
                )
    if len(shown) > 1:
        raise Unsupported(f"a subquery returns {change}, the kind of a change, twice; return it once")
    return shown[0] if shown else None


def with_count(shape: Shape, sides: Iterable[int]) -> Shape:
    """Add a column to the query: the product of the counts of its ``sides``."""
    counts = [f"{quote(alias_of(shape.relations[side]))}.{COUNT}" for side in sides]
    project = shape.block.project
    items = (*project.items, Scalar(f"{' * '.join(counts)} AS {COUNT}"))
    return replace(shape, block=replace(shape.block, project=replace(project, items=items)))


def changes_refusal(shape: Shape, streams: Iterable[tuple[str, Stream]]) -> str:
    """Return why a join of these streams, by name, cannot join changes; empty if it can."""
    if shape.kind not in ("inner", "cross"):
        kind = f"an {shape.kind}" if shape.kind == "anti" else f"a {shape.kind}"
        return f"rows of {kind} join do not follow from changes one by one; write an inner or a left join"
    for name, stream in streams:
        if stream.event_time:
            return f"{name} has a watermark, and changes are never late; read it without withWatermark"
        if any(column.lower() == COUNT for column, _ in stream.columns):
            return f"{name} has a column {COUNT}, {_COUNTS}; rename it in a temporary view over the stream"
    if any(item.tree.alias_or_name.lower() == COUNT for item in shape.block.project.items):
        return f"the query returns a column {COUNT}, {_COUNTS}; rename it"
    return ""


def expand_items(items: Iterable[Scalar], scope: Scope, hidden: Sequence[str | None]) -> tuple[Scalar, ...]:
    """Expand ``*`` and ``relation.*`` in a select list, without the ``hidden`` column of each source.

    Raises ``Unsupported``.
    """
    found: list[Scalar] = []
    for item in items:
        tree = item.tree
        if not is_star(tree):
            found.append(item)
            continue
        for number, column in scope.names.expand_star(tree, scope.sources):
            if not scope.names.is_same(hidden[number], column.name):
                found.append(Scalar(scope.sources[number].reference(column.name)))
    return tuple(found)
