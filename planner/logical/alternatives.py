"""Two equivalent query blocks, between which the lowering chooses."""

from __future__ import annotations

from dovetail.planner.logical import Logical
from dovetail.planner.tree import plan_node


@plan_node
class Alternatives(Logical):
    """A query block as ``written``, and ``other``, which returns the same rows; a lowering rule takes one of them.

    Both are visited by the rules that follow.  A kind of choice is a subclass of its own, with what its cost is
    decided by; ``description`` is what the other block does, on one line.
    """

    written: Logical
    other: Logical
    description: str

    @property
    def detail(self) -> str:
        return self.description

    @property
    def printed(self) -> Logical:
        return self.written

    @property
    def output(self) -> tuple[str, ...]:
        return self.written.output
