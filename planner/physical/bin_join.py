"""Joins over bins: a scheme gives both sides keys, equal keys meet, and the condition as written decides.

A side is *copied* when its rows go to several bins.  A preserved side must come out once whatever its rows match, so
one that is copied is *matched* first: the inner join says in which bins a row has a match, and the row goes there only.

    left ⟕ right, left copied        left ⟕ (SELECT DISTINCT left's values, bin FROM left ⋈ right)
                                       ⟕ right  ON the bin AND the condition

A left row without a match meets no bin and comes out once; one with matches meets each of them in its one bin.  The
values are the columns that the condition names: rows equal in them match the same rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from planner.band.condition import Band
from planner.band.linear import Side
from planner.expr import Scalar, quote
from planner.hints.blocks import SideHint, repeated
from planner.logical import JOIN_KEYWORDS, JoinKind, Scan, conjunction
from planner.physical.base import Physical
from planner.rendered import Names, Rendered
from planner.tree import Node, plan_node, unwrap

Say = Callable[[tuple[Scalar, ...]], str]
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Method:
    """How Spark is to join over the bins where it would do worse unasked, and the side that its hint names."""

    strategy: Literal["SHUFFLE_HASH", "MERGE"]
    side: Side

    def __str__(self) -> str:
        if self.strategy == "MERGE":
            return f"both sides sorted, since the {self.side} side is larger than its files tell"
        return f"hash join, built of the {self.side} side"


@dataclass(frozen=True)
class Keyed:
    """Both sides with what was added to them, as text; their keys, each left one equal to the right one beside it.

    The first keys are the bins, BIGINT.  ``also`` says of left keys what else must hold for a pair that meets.
    """

    left: str
    right: str
    keys: Pairs
    also: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda keys: ()

    def hashed_with(self, equal: Pairs) -> Pairs:
        """The keys, with columns hashed into the bins that are equal in every pair.

        Beside equal columns such bins are equal where the bins are, so no pair is lost or made; and they differ where
        these columns differ, so that sorting compares one number for most rows.
        """
        if not equal:
            return self.keys
        said = [", ".join(columns) for columns in zip(*equal, strict=True)]
        left, right = (f"xxhash64({columns}) ^ {bin_}" for columns, bin_ in zip(said, self.keys[0], strict=True))
        return ((left, right), *self.keys[1:])


class Scheme(ABC):
    """Which bins the rows of a band join go to.  ``label``: what plans call a join over such bins."""

    label: ClassVar[str]
    band: Band

    @property
    @abstractmethod
    def copied(self) -> tuple[Side, ...]:
        """The sides whose rows may go to several bins."""

    @property
    @abstractmethod
    def note(self) -> str:
        """What a reader is told about the bins."""

    @abstractmethod
    def keyed(self, sides: tuple[str, ...], names: Names) -> Keyed:
        """Give both sides their keys."""


@plan_node
class BinJoin(Rendered, Physical):
    """A join over the bins of a scheme.

    ``named``: the columns of either side that the condition names, as text.  ``hints``: what the user asks for.
    ``method``: how Spark is to join, where it shall not decide.  ``equal``: columns as text that the condition holds
    equal, left and right, whose equal values have one hash; they are hashed into the bins.
    """

    left: Node
    right: Node
    kind: JoinKind
    scheme: Scheme
    condition: tuple[Scalar, ...]
    hints: tuple[SideHint, ...] = ()
    named: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    method: Method | None = None
    equal: Pairs = ()

    @classmethod
    def labels(cls) -> tuple[str, ...]:
        return tuple(scheme.label for scheme in Scheme.__subclasses__())

    @property
    def label(self) -> str:  # type: ignore[override]
        return self.scheme.label

    @property
    def detail(self) -> str:
        rest = tuple(c for c in self.condition if c not in self.scheme.band.conjuncts)
        return ", ".join([self.kind, *([conjunction(rest)] if rest else []), str(self.scheme.band)])

    @property
    def output(self) -> tuple[str, ...]:
        return tuple(name for side in self._kept for name in side.output)  # type: ignore[attr-defined]

    @property
    def _kept(self) -> tuple[Node, ...]:
        return self.sides[:1] if self.kind in ("semi", "anti") else self.sides

    def stars(self, of: Callable[[Node], list[str]]) -> list[str]:
        return [name for side in self._kept for name in of(side)]

    @property
    def matched(self) -> tuple[Side, ...]:
        """The sides that are copied and preserved."""
        return tuple(side for side in preserved_sides(self.kind) if side in self.scheme.copied)

    @property
    def asks(self) -> str:
        """The hint that its SELECT shall have for ``method``; nothing without."""
        if self.method is None:
            return ""
        relation: Any = unwrap(self.sides[self.method.side == "right"])
        name = relation.alias or (relation.name[-1] if isinstance(relation, Scan) else None)
        return f"{self.method.strategy}({quote(name)})" if name else ""

    @property
    def notes(self) -> tuple[str, ...]:
        said = [self.scheme.note]
        if self.method:
            said.append(str(self.method))
        if self.equal:
            said.append("equal columns hashed into the bins, so that rows are sorted by one number")
        if self.matched:
            who = "both sides stand" if len(self.matched) == 2 else f"{self.matched[0]} side stands"
            said.append(f"{who} only in bins with a match, which the inner join finds first")
        return tuple(said)

    def render(self, sides: tuple[str, ...], names: Names, conjunction: Say) -> str:
        """``left JOIN right ON keys AND condition``, each side with its keys."""
        keyed = self.scheme.keyed(sides, names)
        condition = conjunction(self.condition)
        if not self.matched:
            on = [f"{a} = {b}" for a, b in keyed.hashed_with(self.equal)]
            return _join(self.kind, keyed.left, keyed.right, [*on, *keyed.also(_left(keyed)), condition])
        on = [*(f"{a} = {b}" for a, b in keyed.keys), *keyed.also(_left(keyed)), condition]
        inner = _join("inner", keyed.left, keyed.right, on)
        if self.kind in ("semi", "anti"):
            found, equal, _ = self._matches("left", inner, (), names)
            return f"{sides[0]}\n{JOIN_KEYWORDS[self.kind]} {found}\nON {equal}"
        text, keys = [keyed.left, keyed.right], [_left(keyed), tuple(b for _, b in keyed.keys)]
        for n, side in enumerate(("left", "right")):
            if side in self.matched:
                found, equal, keys[n] = self._matches(side, inner, keys[n], names)
                text[n] = f"{sides[n]}\nLEFT JOIN {found}\nON {equal}"
        if "right" in self.matched:
            text[1] = f"({text[1]})"
        on = [f"{a} = {b}" for a, b in zip(*keys, strict=True)]
        return _join(self.kind, text[0], text[1], [*on, *keyed.also(keys[0]), condition])

    def _matches(self, side: Side, inner: str, keys: tuple[str, ...], names: Names) -> tuple[str, str, tuple[str, ...]]:
        """The matches of a side as a relation, how a row of the side finds its own, and the names of their keys."""
        values = self.named[side == "right"]
        name, column = names.new("v")
        columns = [f"{column}{n}" for n in range(1, len(values) + 1)]
        bins = tuple(f"{name}_bin{n}" for n in range(1, len(keys) + 1))
        distinct = f"SELECT {repeated(self.hints)}DISTINCT {', '.join((*values, *keys))}\nFROM {inner}"
        said = f"({distinct}) AS {name}({', '.join((*columns, *bins))})"
        return said, " AND ".join(f"{v} <=> {c}" for v, c in zip(values, columns, strict=True)), bins


def preserved_sides(kind: JoinKind) -> tuple[Side, ...]:
    """The sides whose rows come out, or are judged, once whatever they match."""
    if kind == "full":
        return ("left", "right")
    return {"left": ("left",), "semi": ("left",), "anti": ("left",), "right": ("right",)}.get(kind, ())  # type: ignore[return-value]


def _left(keyed: Keyed) -> tuple[str, ...]:
    return tuple(a for a, _ in keyed.keys)


def _join(kind: JoinKind, left: str, right: str, on: list[str]) -> str:
    return f"{left}\n{JOIN_KEYWORDS[kind]} {right}\nON {' AND '.join(on)}"
