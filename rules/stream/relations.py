"""Resolves the relations of a join to streams, and finds those that read the same stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dovetail.planner.bind.scope import Scope
from dovetail.planner.errors import ClauseAboveJoin, Refused
from dovetail.planner.expr import Scalar, sql
from dovetail.planner.logical import Logical, Scan, With
from dovetail.planner.state.stream import Stream
from dovetail.rules.analysis.same_source import NOT_OF_A_ROW, RelationLineage, over_base, reading
from dovetail.rules.context import Context
from dovetail.rules.stream.stream_blocks import Shape

Find = Callable[[tuple[str, ...]], Stream | None]


@dataclass(frozen=True)
class Relation:
    """A relation of FROM with the stream that it reads; ``number`` is its side."""

    number: int
    node: Logical
    read: RelationLineage
    stream: Stream
    name: str
    scope: Scope

    def over_base(self, text: str) -> str:
        """Rewrite an expression over the relation over its stream.  Raises ``Refused``, ``Unsupported``."""
        return over_base(self.scope.bind(Scalar(text)), (self.read,) * len(self.scope.sources))


def relation_of(number: int, relation: Logical, ctx: Context, find: Find) -> Relation | None:
    """Resolve a relation of FROM to its stream; None if it reads none.

    Raises ``Refused``, ``Unsupported``.
    """
    read = reading(relation, ctx)
    base = read.base
    if read.key[0] != "table" or not isinstance(base, Scan):
        streams = any(isinstance(n, Scan) and find(n.name) for n in relation.walk())
        if streams:
            raise Refused("a subquery does more than filter and rename the rows of a stream")
        return None
    stream = find(base.name)
    if stream is None:
        return None
    if len(read.key) > 2:
        raise Refused(f"{base.text} is read with options in the query; set them where the stream is defined")
    return Relation(number, relation, read, stream, ".".join(base.name), ctx.scope(relation))


def inputs_of(relations: tuple[Relation, ...]) -> tuple[int, ...]:
    """Return the input that each relation reads; relations of one deterministic stream share an input."""
    found: list[int] = []
    for n, relation in enumerate(relations):
        same = (m for m in range(n) if relations[m].read.key == relation.read.key and relation.stream.deterministic)
        found.append(next((found[m] for m in same), max(found, default=-1) + 1))
    return tuple(found)


def check_block(shape: Shape, ctx: Context) -> None:
    """Raise ``Refused`` for a query that returns no row for each row of its join; other reasons go into the trace."""
    found = list(_block_refusals(shape))
    for no in found[1:]:
        ctx.decline(no.reason, no.place, no.code)
    if found:
        raise found[0]


def _block_refusals(shape: Shape) -> Iterator[Refused]:
    """Yield all reasons why a query does not return a row for each row of its join."""
    block = shape.block
    for clause in block.clauses:
        if not isinstance(clause, With):
            yield ClauseAboveJoin(f"{clause.label} stands above the join")
    if block.project.quantifier.upper() == "DISTINCT":
        yield ClauseAboveJoin("DISTINCT stands above the join")
    for item in (*block.project.items, *shape.on, *shape.where):
        if item.plans:
            yield Refused(f"{item.shown} holds a subquery", item.place)
    for item in block.project.items:
        if found := item.tree.find(*NOT_OF_A_ROW):
            yield Refused(f"{sql(found)} is not computed row by row", item.place)
