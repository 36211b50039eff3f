"""A join of streams as a plan: what is built in an epoch, and which half-joins probe it.

    A ⋈ B, both streams            A ⋈ A, one stream

      new A ◁ all of B               new A ◁ all of A
      A before ◁ new B               A before ◁ new A

*New* is what arrived in the epoch, *before* what was kept of earlier ones, *all* both.  Each pair is found once: in the
epoch in which the later of its rows arrives.  A row that an outer or anti join returns without a match waits for the
epoch in which the watermark makes it *final*; a semi join returns a row in the epoch of its first match.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from planner.physical.base import Physical
from planner.state.spec import Input, StreamJoin
from planner.tree import plan_node

Version = Literal["new", "before", "all", "final"]


_WORDS: dict[Version, str] = {
    "new": "what is new of",
    "before": "what was there before of",
    "all": "all of",
    "final": "what nothing can match any more of",
}


@plan_node
class Build(Physical):
    """A stream whose rows become part of its arrangement; ``notes`` say which, and for how long."""

    label: ClassVar[str] = "Build"
    name: str
    said: tuple[str, ...]

    @property
    def detail(self) -> str:
        return self.name

    @property
    def notes(self) -> tuple[str, ...]:
        return self.said


@plan_node
class Arrangement(Physical):
    """A version of an arrangement."""

    label: ClassVar[str] = "Arrangement"
    version: Version
    name: str

    @property
    def detail(self) -> str:
        return f"{_WORDS[self.version]} {self.name}"


@plan_node
class HalfJoin(Physical):
    """Rows of one version that probe another."""

    label: ClassVar[str] = "HalfJoin"
    left: Physical
    right: Physical
    kind: str
    condition: str

    @property
    def detail(self) -> str:
        return f"◁ {self.kind}, on {self.condition}"


@plan_node
class Epoch(Physical):
    """What is done in each epoch: builds first, then the half-joins, whose rows together are the answer."""

    label: ClassVar[str] = "Epoch"
    steps: tuple[Physical, ...]


def epoch_of(join: StreamJoin) -> Epoch:
    """The plan of an epoch of a join."""
    names = [join.inputs[side.input].name for side in join.sides]
    steps: list[Physical] = [_build(join, n) for n in range(len(join.inputs))]

    def half(version: Version, other: Version, side: int, kind: str) -> HalfJoin:
        left, right = Arrangement(version, names[side]), Arrangement(other, names[1 - side])
        return HalfJoin(left, right, kind, join.condition)

    if join.kind == "semi":
        first = HalfJoin(half("before", "new", 0, "semi"), Arrangement("before", names[1]), "anti", join.condition)
        steps += [half("new", "all", 0, "semi"), first]
    elif join.kind != "anti":
        steps += [half("new", "all", 0, "inner"), half("before", "new", 0, "inner")]
    steps += [half("final", "all", side, "anti") for side in (0, 1) if join.finals[side]]
    return Epoch(tuple(steps))


def _build(join: StreamJoin, number: int) -> Build:
    input_ = join.inputs[number]
    said = [f"keeps {', '.join(c.name for c in input_.columns)}"]
    if input_.keep:
        said.append(f"of rows where {input_.keep}")
    said.append(_lasting(input_))
    if sum(side.input == number for side in join.sides) > 1:
        said.append("one arrangement for both sides")
    return Build(input_.name, tuple(said))


def _lasting(input_: Input) -> str:
    if not input_.expires:
        return "for good: no watermark says when a row can match no more"
    return f"until the watermark has passed {input_.lasts}"
