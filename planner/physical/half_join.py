"""The plan of a join of streams: the arrangements that an epoch builds, and the half-joins that probe them.

    A ⋈ B, both streams            A ⋈ A, one stream

      new A ◁ all of B               new A ◁ all of A
      A before ◁ new B               A before ◁ new A

*New* is what arrived in the epoch, *before* what was kept of earlier ones, *all* both.  Each pair is found once: in the
epoch in which the later of its rows arrives.  A row that an outer or anti join returns without a match waits for the
epoch in which the watermark makes it *final*; a semi join returns a row in the epoch of its first match.

Of three streams or more, what is new of each looks up the others one after the other (``planner.state.delta``).  A row
that meets the version of another stream valid at its time waits until the watermark has reached that time; no new row
probes anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from planner.physical.base import Physical
from planner.state.delta import DeltaJoin
from planner.state.spec import Input, StreamJoin
from planner.tree import plan_node

Version = Literal["new", "before", "all", "final", "reached", "versions"]


_WORDS: dict[Version, str] = {
    "new": "what is new of",
    "before": "what was there before of",
    "all": "all of",
    "final": "what nothing can match any more of",
    "reached": "what the watermark has reached in this epoch of",
    "versions": "all versions of",
}


@plan_node
class Build(Physical):
    """A stream whose rows become part of its arrangement; ``notes`` describe which, and for how long."""

    label: ClassVar[str] = "Build"
    name: str
    lines: tuple[str, ...]

    @property
    def detail(self) -> str:
        return self.name

    @property
    def notes(self) -> tuple[str, ...]:
        return self.lines


@plan_node
class Arrangement(Physical):
    """A version of an arrangement; ``by`` the values that a lookup finds its rows by."""

    label: ClassVar[str] = "Arrangement"
    version: Version
    name: str
    by: tuple[str, ...] = ()

    @property
    def detail(self) -> str:
        by = f", by {', '.join(self.by)}" if self.by else ""
        return f"{_WORDS[self.version]} {self.name}{by}"


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
class AsOfHalfJoin(Physical):
    """Rows that the watermark has reached, each with the version that is valid at its time."""

    label: ClassVar[str] = "AsOfHalfJoin"
    left: Physical
    right: Physical
    kind: str
    condition: str
    time: str

    @property
    def detail(self) -> str:
        return f"◁ {self.kind}, on {self.condition}, the version valid at {self.time}"


@plan_node
class Epoch(Physical):
    """The steps of each epoch: builds first, then the half-joins, whose rows together are the result."""

    label: ClassVar[str] = "Epoch"
    steps: tuple[Physical, ...]
    lines: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        return self.lines


def epoch_of(join: StreamJoin) -> Epoch:
    """The plan of an epoch of a join."""
    names = [join.inputs[side.input].name for side in join.sides]
    steps: list[Physical] = [_build(join, n) for n in range(len(join.inputs))]
    lines = (f"returns what is added and taken away, by {join.changes}",) if join.changes else ()
    if join.delta:
        return Epoch((*steps, *_paths(join, join.delta)), (*lines, *join.delta.lines))

    if join.as_of:
        left, right = Arrangement("reached", names[0]), Arrangement("versions", names[1])
        return Epoch((*steps, AsOfHalfJoin(left, right, join.kind, join.condition, join.as_of.time)), lines)

    def half(version: Version, other: Version, side: int, kind: str) -> HalfJoin:
        left, right = Arrangement(version, names[side]), Arrangement(other, names[1 - side])
        return HalfJoin(left, right, kind, join.condition)

    if join.kind == "semi":
        first = HalfJoin(half("before", "new", 0, "semi"), Arrangement("before", names[1]), "anti", join.condition)
        steps += [half("new", "all", 0, "semi"), first]
    elif join.kind != "anti":
        steps += [half("new", "all", 0, "inner"), half("before", "new", 0, "inner")]
    steps += [half("final", "all", side, "anti") for side in (0, 1) if join.finals[side]]
    return Epoch(tuple(steps), lines)


def _paths(join: StreamJoin, delta: DeltaJoin) -> Iterator[Physical]:
    """The half-joins of each path, the first lookup innermost."""
    tables = (join.inputs[side.input].name for side in join.sides)
    names = [table if table == name else f"{table} as {name}" for table, name in zip(tables, delta.names, strict=True)]
    for path, conditions in zip(delta.paths, join.blocks.on, strict=True):
        found: Physical = Arrangement("new", names[path.input])
        for lookup, condition in zip(path.lookups, conditions, strict=True):
            version: Version = "all" if lookup.version == "curr" else "before"
            probed = Arrangement(version, names[lookup.input], lookup.by)
            found = HalfJoin(found, probed, "left" if lookup.left else join.kind, condition)
        yield found


def _build(join: StreamJoin, number: int) -> Build:
    input_ = join.inputs[number]
    lines = [f"keeps {', '.join(c.name for c in input_.columns)}"]
    if input_.keep:
        lines.append(f"of rows where {input_.keep}")
    lines.append(_lasting(input_))
    if input_.change:
        lines.append(f"adds a row or takes it away, by {input_.change}")
    if (sides := sum(side.input == number for side in join.sides)) > 1:
        lines.append(f"one arrangement for {'both' if sides == 2 else sides} sides")
    return Build(input_.name, tuple(lines))


def _lasting(input_: Input) -> str:
    if input_.change:
        return "until a change takes them away"
    if input_.key:
        return f"until the watermark has reached a newer one of its {', '.join(input_.key)}"
    if not input_.expires:
        return "for good: no watermark says when a row can match no more"
    return f"until the watermark has passed {input_.lasts}"
