"""The plan of a delta join: which inputs a new row of each input looks up, in which version, by which key.

    A ⋈ B ⋈ C        new rows of A look up B by k, then C by j
                     new rows of B look up earlier A by k, then C by j
                     new rows of C look up earlier B by j, then earlier A by k

*earlier* rows were there before the epoch; without this word, new rows are looked up as well.  The path of s reads the
new rows of t exactly when t comes after s among the inputs.  So a joined row is found once: its rows that are new in
the epoch are of some inputs, and the path of the first of these is the only one that sees the new rows of the others
and no new row before its own.  The order of the lookups in a path does not matter for that; RisingWave's notes draw the
versions by place in the path, which finds some rows twice and others never (Materialize: ``half_join``, ties by input).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.planner.logical import JoinKind
from dovetail.planner.state.program import Flow, Probe, Read, Version

Value = tuple[int, str]  # an input, and a column of it or an expression over its columns


def version_of(start: int, probed: int) -> Version:
    """The version of an input that the path of another reads."""
    return Version.ALL if probed > start else Version.BEFORE


@dataclass(frozen=True)
class Lookup:
    """A step of a path: ``input`` probed by ``key``, pairs of its own value and a value found before that is equal.

    ``conditions`` are the numbers of those that can be evaluated from here on, and not before.  ``left``: a row that
    finds nothing is kept.
    """

    input: int
    version: Version
    key: tuple[tuple[str, Value], ...]
    conditions: tuple[int, ...] = ()
    left: bool = False

    @property
    def read(self) -> Read:
        """The version of the input that is probed."""
        return Read(self.version, self.input)

    @property
    def by(self) -> tuple[str, ...]:
        """The key as values of the input that is probed."""
        return tuple(column for column, _ in self.key)


@dataclass(frozen=True)
class DeltaPath:
    """What a new row of ``input`` looks up; ``conditions`` are on this input alone."""

    input: int
    lookups: tuple[Lookup, ...]
    conditions: tuple[int, ...] = ()

    def flow(self, conditions: Sequence[str]) -> Flow:
        """The half-joins of the path, the first lookup innermost; ``conditions``, by lookup, are for a reader."""
        found: Flow = Read(Version.NEW, self.input)
        for lookup, condition in zip(self.lookups, conditions, strict=True):
            kind: JoinKind = "left" if lookup.left else "inner"
            found = Probe(found, lookup.read, kind, condition, lookup.by)
        return found


@dataclass(frozen=True)
class DeltaJoin:
    """The paths of all inputs, in the order of the inputs.

    ``sources``: what each input reads, by number; inputs of one source share what is kept of it.  ``unique``: of inputs
    that left joins look up, the columns in which no two of their rows may agree.
    """

    names: tuple[str, ...]
    sources: tuple[int, ...]
    paths: tuple[DeltaPath, ...]
    unique: tuple[tuple[int, tuple[str, ...]], ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """A line for each path, and one for the state: its own, and that of a cascade of two-way joins."""
        return (*map(self._line, self.paths), self._state())

    def _line(self, path: DeltaPath) -> str:
        steps = ", then ".join(map(self._step, path.lookups))
        return f"new rows of {self.names[path.input]} look up {steps}"

    def _step(self, lookup: Lookup) -> str:
        earlier = "earlier " if lookup.version is Version.BEFORE else ""
        kind = " (left join)" if lookup.left else ""
        return f"{earlier}{self.names[lookup.input]} by {', '.join(lookup.by)}{kind}"

    def _state(self) -> str:
        shared: dict[int, list[str]] = {}
        for name, source in zip(self.names, self.sources, strict=True):
            shared.setdefault(source, []).append(name)
        stored = ", ".join(" = ".join(names) for names in shared.values())
        between = (" ⋈ ".join(self.names[:n]) for n in range(2, len(self.names)))
        return f"state: {stored}; a cascade of two-way joins would keep {', '.join((*self.names, *between))}"
