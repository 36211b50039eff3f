"""What physical nodes share, and the operator that leaves a clause to Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from planner.logical import Logical
from planner.tree import Node, plan_node


class Physical(Node):
    """The base of physical nodes: data and properties, no pyspark."""

    label: ClassVar[str] = ""
    rewritten: ClassVar[bool] = True

    @property
    def detail(self) -> str:
        """What distinguishes this node from others of its kind, as one line."""
        return ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Further lines for a reader; nothing volatile."""
        return ()

    @property
    def output(self) -> tuple[str, ...]:
        """What comes out, symbolically, as for logical nodes."""
        return tuple(name for child in self.children for name in child.output)  # type: ignore[attr-defined]


@plan_node
class Spark(Physical):
    """An operator that Spark runs as the user wrote it; its inputs stand in ``op`` where the logical ones stood."""

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


@plan_node
class Rewriting(Physical):
    """A query block that a rule put in the place of another: ``name`` and ``said`` tell what it does.

    ``shown`` is what the block that was written has as its output.
    """

    child: Node
    name: str
    said: str
    shown: tuple[str, ...]

    @property
    def label(self) -> str:  # type: ignore[override]
        return self.name

    @property
    def detail(self) -> str:
        return self.said

    @property
    def output(self) -> tuple[str, ...]:
        return self.shown

    @property
    def printed(self) -> Node:
        return self.child
