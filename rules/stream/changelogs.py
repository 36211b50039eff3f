"""A join of which some streams are changelogs: its columns without those that say how rows change, and its counts.

SELECT * FROM orders o JOIN customers c ON o.customer = c.id

SELECT `o`.`id`, …, `c`.`name`, `o`.__dt_count * `c`.__dt_count AS __dt_count FROM …
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from planner.errors import Unsupported
from planner.expr import Scalar, column_ref, columns_in, quote, sql
from planner.expr.calls import repeated_otherwise
from planner.expr.of_the_query import of_the_query
from planner.logical import Filter, Join, Logical, Project, Scan
from planner.sql.names import Resolver, Source, Unresolved
from planner.state.changes import COUNT
from planner.state.stream import Stream
from rules.analysis.same_source import SourceRows
from rules.stream.stream_blocks import NotTaken, Shape, alias_of

_COUNTS = "by which Dovetail tells how a row counts"


def without_changes(
    shape: Shape, sources: Sequence[Source], owner: Sequence[int], hidden: dict[int, str], names: Resolver
) -> Shape:
    """The query with ``*`` spelt out, less the ``hidden`` columns, by side; ``owner``: the side of each source.

    Raises ``Unsupported`` where it names one of them, or computes something that may be another value another time.
    """
    every = (*shape.block.project.items, *shape.on, *shape.where)
    for scalar in every:
        for column in columns_in(scalar.tree):
            try:
                index, found = names.resolve(column_ref(column), tuple(sources))
            except Unresolved:
                continue
            if _same(names, hidden.get(owner[index]), found.name):
                raise Unsupported(f"{found.name} says how rows change, and belongs to no row of the result")
        odd = repeated_otherwise(scalar.tree)
        if word := of_the_query(scalar.text) or (odd and sql(odd)):
            raise Unsupported(f"{word} may be another value when a row goes than when it came")
    items = spelt_out(shape.block.project.items, sources, [hidden.get(n) for n in owner], names)
    return replace(shape, block=shape.block._replace(project=replace(shape.block.project, items=items)))


def check_alone(query: Logical, changes: Iterable[str], names: Resolver) -> None:
    """Raise ``NotTaken`` where a query over one stream does not show how its rows change, by the columns ``changes``.

    With tables, or alone, a stream is read as it comes, and so are changes; a lookup tells each by its key.
    """
    nodes = list(query.walk())
    if any(isinstance(n, Scan) and n.as_of for n in nodes):
        return
    said = [
        s for n in nodes for s in (n.items if isinstance(n, Project) else n.condition if isinstance(n, Filter) else ())
    ]
    shown = {names.fold(column.name) for s in said for column in columns_in(s.tree)}
    if any(not isinstance(star.parent, exp.Count) for s in said for star in s.tree.find_all(exp.Star)):
        return
    if hidden := next((c for c in changes if c and names.fold(c) not in shown), None):
        joined = any(isinstance(n, Join) for n in nodes)
        other = "read the other relations as streams too" if joined else "opt.keep tells the rows that are there"
        raise NotTaken(f"no other stream is joined; {other}, or select {hidden} to see the changes as they come")


def hidden_in(read: SourceRows, change: str, names: Resolver) -> str | None:
    """The name under which a relation shows the column that says how its rows change; None where it does not.

    Raises ``Unsupported`` where it does something else with it.
    """
    trees = {c.name: Scalar(c.value).tree for c in read.columns}
    shown = [n for n, tree in trees.items() if isinstance(tree, exp.Column) and _same(names, change, tree.name)]
    used = [c for c in read.columns if c.name not in shown]
    for text in (*(c.value for c in used), *read.filters):
        for column in columns_in(Scalar(text).tree):
            if _same(names, change, column_ref(column).parts[0]):
                raise Unsupported(f"a subquery computes or filters with {change}, which says how rows change")
    if len(shown) > 1:
        raise Unsupported(f"a subquery shows {change} twice, which says how rows change")
    return shown[0] if shown else None


def with_count(shape: Shape, sides: Iterable[int]) -> Shape:
    """The query with one more column: the product of the counts of its ``sides``."""
    counts = [f"{quote(alias_of(shape.relations[side]))}.{COUNT}" for side in sides]
    project = shape.block.project
    items = (*project.items, Scalar(f"{' * '.join(counts)} AS {COUNT}"))
    return replace(shape, block=shape.block._replace(project=replace(project, items=items)))


def why_not(shape: Shape, streams: Iterable[tuple[str, Stream]]) -> str:
    """Why a join of these streams, by name, cannot take changes; nothing where it can."""
    if shape.kind not in ("inner", "cross"):
        said = f"an {shape.kind}" if shape.kind == "anti" else f"a {shape.kind}"
        return f"rows of {said} join do not follow from changes one by one; write an inner or a left join"
    for name, stream in streams:
        if stream.event_time:
            return f"{name} has a watermark, and a change of a row is never too late; read it without withWatermark"
        if any(column.lower() == COUNT for column, _ in stream.columns):
            return f"{name} has a column {COUNT}, {_COUNTS}; name it otherwise in a temporary view over the stream"
    if any(item.tree.alias_or_name.lower() == COUNT for item in shape.block.project.items):
        return f"the query returns a column {COUNT}, {_COUNTS}; name it otherwise"
    return ""


def spelt_out(
    items: Iterable[Scalar], sources: Sequence[Source], hidden: Sequence[str | None], names: Resolver
) -> tuple[Scalar, ...]:
    """A select list with columns in the place of ``*`` and ``relation.*``, less the ``hidden`` one of each source.

    Raises ``Unsupported``.
    """
    found: list[Scalar] = []
    for item in items:
        tree = item.tree
        if not tree.find(exp.Star) or not isinstance(tree, exp.Star | exp.Column):
            found.append(item)
            continue
        of = tree.table if isinstance(tree, exp.Column) else ""
        if not item.text.strip().endswith("*") or (not of and item.text.strip() != "*"):
            raise Unsupported(f"{item.shown} is more than all columns")
        for source, own in zip(sources, hidden, strict=True):
            if of and names.fold(of) != names.fold(source.names[0]):
                continue
            if source.columns is None:
                raise Unsupported(f"the columns of {source.names[0]} are not known")
            shown = (c.name for c in source.columns if not _same(names, own, c.name))
            found += [Scalar(f"{quote(source.names[0])}.{quote(name)}") for name in shown]
    return tuple(found)


def _same(names: Resolver, hidden: str | None, column: str) -> bool:
    return hidden is not None and names.fold(hidden) == names.fold(column)
