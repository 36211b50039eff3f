"""The plan of a join of streams: its inputs and the program of an epoch (``planner/state/program.py``), with names.

Each pair is found once: in the epoch in which the later of its rows arrives.  A row that an outer or anti join returns
without a match waits for the epoch in which the watermark makes it final; a semi join returns a row in the epoch of its
first match.  A row that matches a version of another stream waits until the watermark has reached its time.
"""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.planner.physical.base import Physical
from dovetail.planner.state.program import EpochProgram, Flow, Probe, Read, Version
from dovetail.planner.state.spec import Input, StreamJoin
from dovetail.planner.tree import plan_node

_WORDS = {
    Version.NEW: "what is new of",
    Version.BEFORE: "what was there before of",
    Version.ALL: "all of",
    Version.FINAL: "what nothing can match any more of",
}
_AS_OF_WORDS = {
    Version.FINAL: "what the watermark has reached in this epoch of",
    Version.ALL: "all versions of",
}


@plan_node
class Build(Physical):
    """A stream whose rows become part of its arrangement; ``notes`` describe which, and for how long."""

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
    """A version of an arrangement; ``by`` the values that a lookup finds its rows by.

    ``as_of``: it is joined by the versions that are valid at the times of rows.
    """

    version: Version
    name: str
    by: tuple[str, ...] = ()
    as_of: bool = False

    @property
    def detail(self) -> str:
        by = f", by {', '.join(self.by)}" if self.by else ""
        return f"{(_AS_OF_WORDS if self.as_of else _WORDS)[self.version]} {self.name}{by}"


@plan_node
class HalfJoin(Physical):
    """Rows of one version that probe another."""

    left: Physical
    right: Physical
    kind: str
    condition: str

    @property
    def detail(self) -> str:
        return f"◁ {self.kind}, on {self.condition}"


@plan_node
class AsOfHalfJoin(HalfJoin):
    """Rows that the watermark has reached, each with the version that is valid at its time."""

    time: str

    @property
    def detail(self) -> str:
        return f"{super().detail}, the version valid at {self.time}"


@plan_node
class Epoch(Physical):
    """The steps of each epoch: builds first, then the half-joins, whose rows together are the result."""

    steps: tuple[Physical, ...]
    lines: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        return self.lines


def epoch_of(join: StreamJoin) -> Epoch:
    """The plan of an epoch of a join: its program, with the names of the streams."""
    names = [join.inputs[side.input].name for side in join.sides]
    if join.delta:
        both = zip(names, join.delta.names, strict=True)
        names = [name if name == alias else f"{name} as {alias}" for name, alias in both]
    returned = (_node(step.flow, join.program, names) for step in join.program.returned)
    builds = (_build(join, n) for n in range(len(join.inputs)))
    lines = (f"returns what is added and taken away, by {join.changes}",) if join.changes else ()
    return Epoch((*builds, *returned), (*lines, *(join.delta.lines if join.delta else ())))


def _node(flow: Flow, program: EpochProgram, names: Sequence[str], *, as_of: bool = False) -> Physical:
    """A dataflow as nodes: versions that it computes are replaced by their dataflows, and empty ones left out."""
    match flow:
        case Read() if (defined := program.definition(flow)) != flow:
            return _node(defined, program, names)
        case Read():
            return Arrangement(flow.version, names[flow.side], as_of=as_of)
        case Probe(Read(Version.EMPTY), rows) | Probe(rows, Read(Version.EMPTY)):
            return _node(rows, program, names)
    as_of = bool(flow.time)
    left = _node(flow.left, program, names, as_of=as_of)
    right = Arrangement(flow.right.version, names[flow.right.side], flow.by, as_of)
    if as_of:
        return AsOfHalfJoin(left, right, flow.kind, flow.condition, flow.time)
    return HalfJoin(left, right, flow.kind, flow.condition)


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
