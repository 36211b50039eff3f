"""The relations of a join as streams: what each reads, and which of them read the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from planner.expr import sql
from planner.logical import Logical, Scan, With
from planner.state.stream import Stream
from rules.analysis.same_source import SourceRows, reading
from rules.context import Context
from rules.stream.stream_blocks import NotTaken, Shape

Find = Callable[[tuple[str, ...]], Stream | None]

_OF_MORE_THAN_A_ROW = (exp.AggFunc, exp.Window, exp.UDTF, exp.Explode, exp.Posexplode, exp.Inline, exp.Stack)


@dataclass(frozen=True)
class Relation:
    """A relation of FROM down to the stream it reads; ``number`` says which side it is."""

    number: int
    node: Logical
    read: SourceRows
    stream: Stream
    name: str


def relation_of(number: int, relation: Logical, ctx: Context, find: Find) -> Relation | None:
    """Read a relation of FROM down to its stream; None where it reads none.

    Raises ``NotTaken``, ``Unresolved``, ``Unsupported``.
    """
    read = reading(relation, ctx)
    base = read.base
    if read.key[0] != "table" or not isinstance(base, Scan):
        streams = any(isinstance(n, Scan) and find(n.name) for n in relation.walk())
        if streams:
            raise NotTaken("a subquery does more than filter and rename the rows of a stream")
        return None
    stream = find(base.name)
    if stream is None:
        return None
    if len(read.key) > 2:
        raise NotTaken(f"{base.text} is read with options of its own")
    return Relation(number, relation, read, stream, ".".join(base.name))


def inputs_of(relations: tuple[Relation, ...]) -> tuple[int, ...]:
    """The input that each relation reads: those of one stream, whose readings are the same, share one."""
    found: list[int] = []
    for n, relation in enumerate(relations):
        same = (m for m in range(n) if relations[m].read.key == relation.read.key and relation.stream.deterministic)
        found.append(next((found[m] for m in same), max(found, default=-1) + 1))
    return tuple(found)


def check_block(shape: Shape) -> None:
    """Raise ``NotTaken`` for a query that returns no row for each row of its join."""
    block = shape.block
    if more := next((n for n in block.more if not isinstance(n, With)), None):
        raise NotTaken(f"{more.label} stands above the join")
    if block.project.quantifier.upper() == "DISTINCT":
        raise NotTaken("DISTINCT stands above the join")
    for item in (*block.project.items, *shape.on, *shape.where):
        if item.plans:
            raise NotTaken(f"{item.shown} holds a subquery")
    for item in block.project.items:
        if found := item.tree.find(*_OF_MORE_THAN_A_ROW):
            raise NotTaken(f"{sql(found)} is not computed row by row")
