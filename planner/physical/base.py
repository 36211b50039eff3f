"""The base of physical operators, and the operator that runs a clause in Spark unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal, get_args

from dovetail.planner.logical import Logical
from dovetail.planner.tree import Node, plan_node


class Physical(Node):
    """The base of physical nodes: data and properties, no pyspark."""

    rewritten: ClassVar[bool] = True

    @property
    def output(self) -> tuple[str, ...]:
        """The output columns, as for logical nodes."""
        return tuple(name for child in self.children for name in child.output)  # type: ignore[attr-defined]


@plan_node
class Spark(Physical):
    """An operator that Spark runs as written; ``op`` holds its physical inputs in the place of the logical ones."""

    op: Logical

    @property
    def label(self) -> str:  # type: ignore[override]
        return self.op.label

    @property
    def rewritten(self) -> bool:  # type: ignore[override]
        return self.op.rewritten

    @property
    def required(self) -> bool:  # type: ignore[override]
        return self.op.required

    @property
    def printed(self) -> Node:
        return self.op

    @property
    def detail(self) -> str:
        return self.op.detail

    @property
    def notes(self) -> tuple[str, ...]:
        return self.op.notes

    @property
    def children(self) -> tuple[Node, ...]:
        return self.op.children

    @property
    def subplans(self) -> tuple[Node, ...]:
        return self.op.subplans

    @property
    def output(self) -> tuple[str, ...]:
        return self.op.output

    def map_nodes(self, fn: Callable[[Node], Node]) -> Node:
        op = self.op.map_nodes(fn)
        return self if op is self.op else Spark(op)  # type: ignore[arg-type]


RewritingName = Literal[
    "BandWindow",
    "ExtremeSemiJoin",
    "MergedScalarAggregates",
    "NearestSubquery",
    "NearestTies",
    "NearestVersions",
    "SelfWindow",
]


@plan_node
class Rewriting(Physical):
    """A query block that a rule substituted for another: ``name`` and ``description`` describe it.

    ``shown`` is the output of the original block.
    """

    child: Node
    name: RewritingName
    description: str
    shown: tuple[str, ...]

    @classmethod
    def labels(cls) -> tuple[str, ...]:
        """All names of such nodes."""
        return get_args(RewritingName)

    @property
    def label(self) -> str:  # type: ignore[override]
        return self.name

    @property
    def detail(self) -> str:
        return self.description

    @property
    def output(self) -> tuple[str, ...]:
        return self.shown

    @property
    def printed(self) -> Node:
        return self.child
