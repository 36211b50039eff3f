"""Joins over keys: a scheme gives the rows of both sides keys, Spark joins on them, and the original condition filters.

Every pair that satisfies the condition has exactly one key in common.

A side is *copied* when its rows go to several bins.  A preserved side must come out once whatever its rows match, so
one that is copied is *matched* first: the inner join finds the keys under which a row has a match, and the row goes
only there.  Of a semi or anti join a semi join finds the rows with a match.

    left ⟕ right, left copied        left ⟕ (SELECT DISTINCT left's values, bin FROM left ⋈ right)
                                       ⟕ right  ON the bin AND the condition

A left row without a match meets no bin and comes out once; one with matches meets each of them in its one bin.  The
values are the columns that the condition names: rows equal in them match the same rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from dovetail.planner.band.condition import Band, leaves_of, map_leaves
from dovetail.planner.band.linear import Leaf, Side
from dovetail.planner.expr import Scalar, quote
from dovetail.planner.expr.substitution import replace_expressions
from dovetail.planner.hints.blocks import SideHint, repeated
from dovetail.planner.logical import JOIN_KEYWORDS, JoinKind, conjunction, hint_name
from dovetail.planner.physical.base import Physical
from dovetail.planner.rendered import NameGenerator, Rendered
from dovetail.planner.tree import Node, plan_node

RenderConjunction = Callable[[tuple[Scalar, ...]], str]
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Method:
    """A join method for Spark, where its own choice would be slower, the side that the hint names, and why."""

    strategy: Literal["SHUFFLE_HASH", "MERGE"]
    side: Side
    why: str = ""

    def __str__(self) -> str:
        if self.strategy == "MERGE":
            return f"sort-merge join; {self.why}"
        return f"hash join, built of the {self.side} side"


@dataclass(frozen=True)
class Keyed:
    """The SQL of both sides with added columns, and their keys: each left key equals the right key at its position.

    The first keys are the bins, BIGINT.  ``also`` are further conditions on left keys of a matching pair.
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
        lines = [", ".join(columns) for columns in zip(*equal, strict=True)]
        left, right = (f"xxhash64({columns}) ^ {bin_}" for columns, bin_ in zip(lines, self.keys[0], strict=True))
        return ((left, right), *self.keys[1:])


class Scheme(ABC):
    """The assignment of rows to keys.  ``label``: the operator's name in plans."""

    label: ClassVar[str]
    unit: ClassVar[str] = "keys"  # what rows are copied to, in notes and reasons

    @property
    def never_raises(self) -> bool:
        """Whether a row on which a conjunct would raise an error has no key, so that it is never evaluated for it."""
        return False

    @property
    @abstractmethod
    def conjuncts(self) -> tuple[Scalar, ...]:
        """The conjuncts of the condition that the keys are made of."""

    @abstractmethod
    def __str__(self) -> str: ...

    @property
    def leaves(self) -> tuple[tuple[Side, Leaf], ...]:
        """The expressions that keys are computed from, each with its side, where one may call a user's function."""
        return ()

    def map_leaves(self, fn: Callable[[Leaf], Leaf]) -> Scheme:
        """The same over other leaves."""
        return self

    @property
    @abstractmethod
    def copied(self) -> tuple[Side, ...]:
        """The sides whose rows may go to several keys."""

    @property
    @abstractmethod
    def note(self) -> str:
        """A note on the keys for plans."""

    @property
    def notes(self) -> tuple[str, ...]:
        """The same in several lines."""
        return (self.note,)

    @abstractmethod
    def keyed(self, sides: tuple[str, ...], names: NameGenerator) -> Keyed:
        """Give both sides their keys."""

    @classmethod
    def labels(cls) -> tuple[str, ...]:
        """The labels of all schemes of this kind."""
        below = cls.__subclasses__()
        return tuple(label for scheme in below for label in scheme.labels()) if below else (cls.label,)


@dataclass(frozen=True)
class BandScheme(Scheme):
    """The assignment of rows to bins of a band."""

    unit: ClassVar[str] = "bins"
    band: Band

    @property
    def never_raises(self) -> bool:
        return True

    @property
    def conjuncts(self) -> tuple[Scalar, ...]:
        return self.band.conjuncts

    def __str__(self) -> str:
        return str(self.band)

    @property
    def leaves(self) -> tuple[tuple[Side, Leaf], ...]:
        return leaves_of(self.band)

    def map_leaves(self, fn: Callable[[Leaf], Leaf]) -> Scheme:
        return replace(self, band=map_leaves(self.band, fn))


@plan_node
class KeyJoin(Rendered, Physical):
    """A join over the keys of a scheme.

    ``named``: the columns of either side that the condition names, as text.  ``hints``: the hints of the query.
    ``before``: conditions of WHERE on a matched side; a row that they drop needs no matches.
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
    before: tuple[Scalar, ...] = ()

    @classmethod
    def labels(cls) -> tuple[str, ...]:
        return Scheme.labels()

    @property
    def label(self) -> str:  # type: ignore[override]
        return self.scheme.label

    @property
    def detail(self) -> str:
        rest = tuple(c for c in self.condition if c not in self.scheme.conjuncts)
        return ", ".join([self.kind, *([conjunction(rest)] if rest else []), str(self.scheme)])

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
    def spark_hint(self) -> str:
        """The hint in its SELECT for ``method``; empty without one."""
        if self.method is None:
            return ""
        name = hint_name(self.sides[self.method.side == "right"])
        return f"{self.method.strategy}({quote(name)})" if name else ""

    @property
    def notes(self) -> tuple[str, ...]:
        lines = [*self.scheme.notes]
        if self.method:
            lines.append(str(self.method))
        if self.equal:
            lines.append("equal columns hashed into the bins, so that rows are sorted by one number")
        if self.matched and self.kind in ("semi", "anti"):
            lines.append(f"a semi join over {self.scheme.unit} finds the rows with a match first")
        elif self.matched:
            who = "both sides stand" if len(self.matched) == 2 else f"{self.matched[0]} side stands"
            lines.append(f"{who} only in {self.scheme.unit} with a match, which the inner join finds first")
        if self.before:
            lines.append(f"matches are looked for among rows with {conjunction(self.before)}")
        return tuple(lines)

    def render(self, sides: tuple[str, ...], names: NameGenerator, conjunction: RenderConjunction) -> str:
        """``left JOIN right ON keys AND condition``, each side with its keys."""
        sides, scheme, conjuncts = self._with_computed(sides, names)
        keyed = scheme.keyed(sides, names)
        condition = conjunction(conjuncts)
        if not self.matched:
            on = [f"{a} = {b}" for a, b in keyed.hashed_with(self.equal)]
            return _join(self.kind, keyed.left, keyed.right, [*on, *keyed.also(_left(keyed)), condition])
        before = [conjunction(self.before)] if self.before else []
        on = [*before, *(f"{a} = {b}" for a, b in keyed.keys), *keyed.also(_left(keyed)), condition]
        if self.kind in ("semi", "anti"):  # one match is enough, under whichever key
            on = [*before, *(f"{a} = {b}" for a, b in keyed.keys), condition]
            inner = _join("semi", keyed.left, keyed.right, on)
            found, equal, _ = self._matches("left", inner, (), names)
            return f"{sides[0]}\n{JOIN_KEYWORDS[self.kind]} {found}\nON {equal}"
        inner = _join("inner", keyed.left, keyed.right, on)
        text, keys = [keyed.left, keyed.right], [_left(keyed), tuple(b for _, b in keyed.keys)]
        for n, side in enumerate(("left", "right")):
            if side in self.matched:
                found, equal, keys[n] = self._matches(side, inner, keys[n], names)
                text[n] = f"{sides[n]}\nLEFT JOIN {found}\nON {equal}"
        if "right" in self.matched:
            text[1] = f"({text[1]})"
        on = [f"{a} = {b}" for a, b in zip(*keys, strict=True)]
        return _join(self.kind, text[0], text[1], [*on, *keyed.also(keys[0]), condition])

    def _with_computed(
        self, sides: tuple[str, ...], names: NameGenerator
    ) -> tuple[tuple[str, ...], Scheme, tuple[Scalar, ...]]:
        """The sides with a column for each call of a user's function, the bins and the condition over these columns."""
        columns: dict[str, str] = {}
        found = list(sides)
        for side, leaf in self.scheme.leaves:
            if leaf.computed and leaf.computed not in columns:
                alias, column = names.new("value")
                columns[leaf.computed] = column
                n = int(side == "right")
                found[n] = f"({found[n]} JOIN LATERAL (SELECT {leaf.text} AS {column}) AS {alias})"
        if not columns:
            return sides, self.scheme, self.condition

        def leaf_over_columns(leaf: Leaf) -> Leaf:
            return replace(leaf, text=columns.get(leaf.computed, leaf.text))

        scheme = self.scheme.map_leaves(leaf_over_columns)
        return tuple(found), scheme, tuple(replace_expressions(c, columns) for c in self.condition)

    def _matches(
        self, side: Side, inner: str, keys: tuple[str, ...], names: NameGenerator
    ) -> tuple[str, str, tuple[str, ...]]:
        """The matches of a side as a relation, the condition that joins a row to them, and the names of their keys."""
        values = self.named[side == "right"]
        name, column = names.new("v")
        columns = [f"{column}{n}" for n in range(1, len(values) + 1)]
        bins = tuple(f"{name}_bin{n}" for n in range(1, len(keys) + 1))
        distinct = f"SELECT {repeated(self.hints)}DISTINCT {', '.join((*values, *keys))}\nFROM {inner}"
        lines = f"({distinct}) AS {name}({', '.join((*columns, *bins))})"
        return lines, " AND ".join(f"{v} <=> {c}" for v, c in zip(values, columns, strict=True)), bins


def preserved_sides(kind: JoinKind) -> tuple[Side, ...]:
    """Return the preserved sides of a join, whose rows are returned also without a match."""
    if kind == "full":
        return ("left", "right")
    return {"left": ("left",), "semi": ("left",), "anti": ("left",), "right": ("right",)}.get(kind, ())  # type: ignore[return-value]


def _left(keyed: Keyed) -> tuple[str, ...]:
    return tuple(a for a, _ in keyed.keys)


def _join(kind: JoinKind, left: str, right: str, on: list[str]) -> str:
    return f"{left}\n{JOIN_KEYWORDS[kind]} {right}\nON {' AND '.join(on)}"
