"""Removes relations whose rows match only themselves in another relation, and replaces their join."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from sqlglot import exp

from dovetail.planner.bind.scope import BoundColumn, Scope
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, quote
from dovetail.planner.logical import Join, OneRow, Project
from dovetail.planner.logical.self_join import SameRow
from dovetail.rules.analysis.equivalence_classes import (
    Equality,
    EqualityReader,
    EquivalenceClasses,
    covered,
    keys_of,
    why_not_the_same_row,
)
from dovetail.rules.analysis.same_source import RelationLineage, rewrite_over_output, same_source
from dovetail.rules.analysis.speculation import check_speculation, may_raise
from dovetail.rules.context import Context
from dovetail.rules.query.char_columns import check_aliases
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.query.from_items import FromItem
from dovetail.rules.query.operands import as_operand, conjoined


class MissingKey(Refused):
    """A self-join by columns of which no unique key is known."""

    code = "no_key"


@dataclass(frozen=True)
class Residual:
    """A condition; ``may_raise`` where it might raise on rows that the join would have left out."""

    scalar: Scalar
    may_raise: bool = False


@dataclass(frozen=True)
class RemovedRelation:
    """A relation that is no longer read: ``row`` is its row, ``parts`` what remains of its condition.

    ``behind`` is the relation that comes to its place, where the row has to stand behind that one.
    """

    from_item: FromItem
    match: int
    row: SameRow
    parts: tuple[Residual, ...]
    behind: FromItem | None = None


@dataclass(frozen=True)
class _Match:
    """Two relations of which a row of ``y`` matches its own row in ``x`` only, and the lineages of both."""

    x: FromItem
    y: FromItem
    shown: RelationLineage
    other: RelationLineage


class RemovedRelations:
    """Finds relations whose rows match only themselves in another, and their replacements."""

    def __init__(self, from_items: tuple[FromItem, ...], everywhere: tuple[Scalar, ...], ctx: Context):
        self.ctx, self.from_items = ctx, from_items
        self.reader = EqualityReader(self.from_items, ctx)
        self.conjuncts = everywhere
        found = (self.reader.equality(c, self.reader.visible) for c in everywhere)
        self.everywhere = tuple(e for e in found if e)
        self.stands_for = {s.number: s.number for s in from_items}  # relations joined for certain, by the first of them

    def find(self, *, fixed: bool) -> list[RemovedRelation]:
        """All relations that can go, in the order of FROM; ``fixed``: relations may not change places."""
        gone: list[RemovedRelation] = []
        joined = [item for item in self.from_items if item.kind in ("inner", "left")]
        for y in joined:
            for x in joined:
                if not y.first <= x.number < y.number:
                    continue
                try:
                    found = self.unique_match(
                        x, y, fixed or any(x.number in (g.from_item.number, g.match) for g in gone)
                    )
                except Refused as no:
                    self.ctx.decline(str(no), y.on[0].place if y.on else None, no.code)
                    continue
                if found:
                    gone.append(found)
                    if y.kind == "inner":
                        self.stands_for[found.from_item.number] = self.stands_for[found.match]
                    break
        return gone

    def unique_match(self, x: FromItem, y: FromItem, fixed: bool) -> RemovedRelation | None:
        """Return the replacement of ``y`` if its row is that of ``x``, or vice versa.  Raises ``Refused``."""
        shown, other = self.reader.reading(x.number), self.reader.reading(y.number)
        equal = EquivalenceClasses.of(self.equalities(y))
        if isinstance(shown, str) or isinstance(other, str):
            if (
                isinstance(other, str)
                and not isinstance(y.relation, Join)
                and any({e.left[0], e.right[0]} == {x.number, y.number} for e in self.equalities(y))
            ):
                raise Refused(f"a relation is joined with itself, but {other}")
            return None
        if shown.key != other.key:
            if shown.key[:2] == other.key[:2] and any(
                equal.between((x.number, c.value), (y.number, c.value)) for c in shown.columns
            ):
                raise Refused(f"{shown.key[1]} is joined with another version of itself")
            return None
        key = self.key(x, y, shown, equal)
        if key is None:
            pair, only = (x.number, y.number), self.by_equals_only(x, y)
            if why := why_not_the_same_row(pair, shown, equal, self.ctx, only=only):
                raise MissingKey(why)
            return None
        if same_source(x.relation, y.relation, self.ctx) is None:
            return None
        if not y.free:
            raise Refused("the relation to remove is the first in parentheses, where LATERAL cannot see the other")
        return self.either_removal(_Match(x, y, shown, other), key, fixed=fixed)

    def either_removal(self, match: _Match, key: frozenset[str], *, fixed: bool) -> RemovedRelation:
        """The removal of ``y``; that of ``x`` where it shows less, and may change places with ``y``."""
        x, y = match.x, match.y
        try:
            return self.removal(match, key)
        except Refused as no:
            if fixed or x.kind != "inner" or y.kind != "inner" or y.number != x.number + 1:
                raise
            with suppress(Refused):
                return replace(self.removal(_Match(y, x, match.other, match.shown), key), behind=y)
            raise no from None

    def equalities(self, y: FromItem) -> tuple[Equality, ...]:
        """The equalities that hold of the rows that ``y`` is joined to, and of its match."""
        if y.kind == "inner":
            return self.everywhere
        around = tuple(e for e in self.everywhere if y.number not in (e.left[0], e.right[0]))
        own = [self.reader.equality(c, self.reader.visible_in_on(y)) for c in y.on]
        return (*around, *(e for e in own if e))

    def by_equals_only(self, x: FromItem, y: FromItem) -> bool:
        """Whether nothing but equal columns compares two relations."""
        visible = self.reader.visible_in_on(y)
        for conjunct in self.conjuncts if y.kind == "inner" else y.on:
            try:
                both = {x.number, y.number} <= visible.bind(conjunct).items
            except Refused:
                return False
            e = self.reader.equality(conjunct, visible) if both else None
            if both and (e is None or e.left[1] != e.right[1]):
                return False
        return True

    def key(self, x: FromItem, y: FromItem, shown: RelationLineage, equal: EquivalenceClasses) -> frozenset[str] | None:
        """A unique key of the source that is equal on both sides, the shortest."""
        keys, nulls = keys_of(shown, self.ctx)
        for key in sorted(keys | nulls, key=lambda k: (len(k), sorted(k))):
            how = covered(key, x.number, y.number, equal, self.ctx)
            if how is None or (how != {"="} and (key not in nulls or x.kind != "inner")):
                continue
            return key
        return None

    def removal(self, match: _Match, key: frozenset[str]) -> RemovedRelation:
        """Replace ``y`` by the row of ``x``.  Raises ``Refused`` where ``x`` does not show a column of it."""
        x, y = match.x, match.y
        path = self.reader.path(x.number)
        kept = self.filters(match)
        by = f", by {', '.join(sorted(key))}" if key else ""
        description = f"{self.reader.path(y.number)[-1]} is {'.'.join(path)}{by}"
        if y.kind == "inner":
            return RemovedRelation(y, x.number, self.row(match, None, description), kept)
        parts = (*kept, *self.conditions(match))
        when = conjoined([p.scalar for p in raising_last(parts)])
        return RemovedRelation(y, x.number, self.row(match, when, f"{description}, else NULL"), parts)

    def row(self, match: _Match, when: str | None, description: str) -> SameRow:
        """The columns of ``y`` from the row of ``x``, or NULL unless ``when``."""
        (source,) = self.ctx.names.sources(match.y.relation)
        columns, alias = source.known_columns(len(match.other.columns)), source.only_name
        items = []
        for column in match.other.columns:
            text = self.value_of(match, column.value)
            text = text if when is None else f"if({when}, {text}, NULL)"
            plain = when is None and text.rsplit(".", 1)[-1] == quote(column.name)
            items.append(Scalar(text if plain else f"{text} AS {quote(column.name)}"))
        check_aliases(tuple(items), self.ctx.names)
        query = Project(OneRow(), tuple(items))
        return SameRow(query, alias, (), f"AS {quote(alias)}", True, columns, description)

    def value_of(self, match: _Match, value: str) -> str:
        """A value of the base over the columns of ``x``.  Raises ``Refused``."""
        number = match.x.number
        text = rewrite_over_output(match.shown, self.reader.path(number), value)
        if match.shown.output_name(value) is None:
            check_speculation((Scalar(text),), self.reader.scope.only((number,)).type_of, self.ctx)
        return text

    def may_raise(self, scalar: Scalar, visible: Scope) -> bool:
        """Whether an expression could raise an error on some row."""
        return may_raise(scalar, visible.type_of, self.ctx)

    def filters(self, match: _Match) -> tuple[Residual, ...]:
        """The filters of ``y`` that ``x`` has not, over its columns."""
        path, shown = self.reader.path(match.x.number), match.shown
        return tuple(Residual(Scalar(rewrite_over_output(shown, path, f))) for f in match.other.filters_beyond(shown))

    def conditions(self, match: _Match) -> tuple[Residual, ...]:
        """Rewrite the condition of an outer join with ``y`` over the row of ``x``."""
        x, y = match.x, match.y
        visible = self.reader.visible_in_on(y)
        members = {n for n, first in self.stands_for.items() if first == self.stands_for[x.number]} | {y.number}

        def own(e: Equality | None) -> Residual | None:
            """Replace an equality of a value with itself by IS NOT NULL."""
            if e is None or e.left[1] != e.right[1]:
                return None
            both = {e.left[0], e.right[0]}
            if y.number not in both or both - members:
                return None
            if not e.strict:
                return Residual(Scalar("true"))
            return Residual(Scalar(f"{as_operand(self.value_of(match, e.left[1]))} IS NOT NULL"))

        def value(column: BoundColumn) -> str | None:
            is_own = self.reader.scope.item(column) == y.number
            return self.value_of(match, self.reader.value(column)[1]) if is_own else None

        found: list[Residual] = []
        for conjunct in y.on:
            part = own(self.reader.equality(conjunct, visible))
            if part is None:
                check_deterministic(conjunct)
                alone = visible.bind(conjunct).items <= {y.number}
                part = Residual(
                    self.reader.substitute(conjunct, visible, value),
                    not alone and self.may_raise(conjunct, visible),
                )
            found.append(part)
        return tuple(dict.fromkeys(p for p in found if p.scalar.text != "true"))


def raising_last(parts: tuple[Residual, ...]) -> list[Residual]:
    """Conditions with those last that others may keep from raising, equalities first among them."""
    return sorted(parts, key=lambda p: 0 if not p.may_raise else 1 if isinstance(p.scalar.tree, exp.EQ) else 2)
