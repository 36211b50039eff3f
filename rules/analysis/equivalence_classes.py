"""Finds relations of one source that are joined on a unique key: each row matches only itself in the other.

Each row of two relations of one source matches only itself if a unique key of the source is equal on both sides.  The
equality may also be implied: x.id = z.k AND z.k = y.id, or x.id = 5 AND y.id = 5.  The conditions are those of
PostgreSQL's self-join elimination; unlike there a filter may stand on either side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from networkx.utils import UnionFind
from sqlglot import exp

from dovetail.planner.bind.names import Resolver
from dovetail.planner.bind.scope import BoundColumn, Scope
from dovetail.planner.conditions.compared import compared
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, canonical, quote
from dovetail.planner.logical import Derived, Logical, Scan
from dovetail.planner.types.schema import INTEGRAL, SqlType
from dovetail.rules.analysis.same_source import RelationLineage, base_value, reading
from dovetail.rules.analysis.unique import Unique, unique_keys
from dovetail.rules.context import Context
from dovetail.rules.query.from_items import FromItem

Value = tuple[int | str, str]  # a relation's number and a value of its base, or "" and a literal


@dataclass(frozen=True)
class Equality:
    """``left = right``, or ``<=>`` unless ``strict``; ``plain``: both have one type, so that equality is transitive."""

    left: Value
    right: Value
    strict: bool
    plain: bool


class EqualityReader:
    """Reads the equalities of one SELECT over the bases of its relations."""

    def __init__(self, from_items: Iterable[FromItem], ctx: Context):
        self.ctx = ctx
        self.from_items = list(from_items)
        self.scope = ctx.scope(*(from_item.relation for from_item in self.from_items))
        self._joined = [item.number for item in self.from_items if item.kind in ("inner", "left")]
        self._readings: dict[int, RelationLineage | str] = {}

    def reading(self, number: int) -> RelationLineage | str:
        """Return the lineage of a relation, or the reason why it is unknown."""
        if number not in self._readings:
            try:
                self._readings[number] = reading(self.from_items[number].relation, self.ctx)
            except Refused as no:
                self._readings[number] = str(no)
        return self._readings[number]

    def path(self, number: int) -> tuple[str, ...]:
        """Return the name that distinguishes a relation's columns from all others.  Raises ``Refused``."""
        own = self.scope.sources[self.scope.items.index(number)]
        names = [source.folded_names for source in self.scope.sources]
        if self.scope.items.count(number) != 1 or not own.names or names.count(own.folded_names) > 1:
            raise Refused("one of its relations has no name of its own")
        return own.names

    @cached_property
    def visible(self) -> Scope:
        """The scope of WHERE: the relations of inner and left joins."""
        return self.scope.only(self._joined)

    def visible_in_on(self, item: FromItem) -> Scope:
        """The scope of the condition by which a relation is joined."""
        if item.kind == "inner":
            return self.visible
        return self.scope.only([*(n for n in self._joined if item.first <= n < item.number), item.number])

    def substitute(self, scalar: Scalar, visible: Scope, columns: Callable[[BoundColumn], str | None]) -> Scalar:
        """Replace columns of relations in an expression with SQL; None keeps a column that is qualified.

        A column without one gets the name of its relation.  Raises ``Refused``.
        """

        def text(found: BoundColumn) -> str | None:
            new = columns(found.check_no_field())
            if new is not None or len(found.ref.parts) > 1:
                return new
            return ".".join(map(quote, (*self.path(self.scope.item(found)), found.column.name)))

        return visible.bind(scalar).substitute(text)

    def value(self, column: BoundColumn) -> Value:
        """Return the base value of a relation's column, or the column itself if the base is unknown."""
        number = self.scope.item(column)
        found = self.reading(number)
        return number, column.name if isinstance(found, str) else found.value(column)

    def equality(self, conjunct: Scalar, visible: Scope) -> Equality | None:
        """Read a conjunct that compares two columns, or a column and a literal."""
        try:
            found = compared(conjunct)
            if found is None or not found.equal:
                return None
            return self.compared(found.left, found.right, found.sign == "=", visible)
        except Refused:
            return None

    def _bare(self, tree: exp.Expression, visible: Scope) -> exp.Expression:
        """The column of ``x.id + 0`` and of a cast that changes no value of it; any other operand as it is."""
        if isinstance(tree, exp.Add | exp.Sub) and tree.expression == exp.Literal.number(0):
            inner: exp.Expression = tree.this.unnest()
        elif isinstance(tree, exp.Cast) and not tree.args.get("safe"):
            inner = tree.this.unnest()
        else:
            return tree
        type_ = visible.column(inner).check_no_field().column.type if isinstance(inner, exp.Column) else None
        if type_ is None:
            return tree
        wider = self.ctx.names.type_of(tree, ()) or type_ if isinstance(tree, exp.Cast) else type_
        if isinstance(tree, exp.Cast) and wider == type_:
            return inner
        kept = type_.integral and wider.integral and INTEGRAL.index(wider.name) >= INTEGRAL.index(type_.name)
        return inner if kept else tree

    def compared(self, left: exp.Expression, right: exp.Expression, strict: bool, visible: Scope) -> Equality | None:
        """Two operands of ``=`` as an equality.  Raises ``Refused``, ``Unsupported``."""
        left, right = self._bare(left, visible), self._bare(right, visible)
        if not isinstance(left, exp.Column):
            left, right = right, left
        if not isinstance(left, exp.Column):
            return None
        column = visible.column(left).check_no_field()
        value, type_ = self.value(column), column.column.type
        if isinstance(right, exp.Column):
            other = visible.column(right).check_no_field()
            return Equality(value, self.value(other), strict, type_ is not None and type_ == other.column.type)
        alike = type_ is not None and is_literal_of(right, type_, self.ctx.names)
        return Equality(value, ("", canonical(right)), strict, True) if strict and alike else None


def is_literal_of(tree: exp.Expression, column: SqlType, names: Resolver) -> bool:
    """Whether a literal has the type of a column, or a wider integer's."""
    literal = tree.this if isinstance(tree, exp.Cast) else tree
    if not isinstance(literal, exp.Literal):
        return False
    if tree is literal:
        return column.name == "string" if literal.is_string else column.integral and literal.is_int
    return names.type_of(tree, ()) == column


@dataclass
class EquivalenceClasses:
    """Equivalence classes of values, and single equalities; the sides of ``nullsafe`` ones may both be NULL.

    PostgreSQL (src/backend/optimizer/README, EquivalenceClasses) collects equalities in the same way.
    """

    classes: UnionFind = field(default_factory=UnionFind)
    direct: set[frozenset[Value]] = field(default_factory=set)
    nullsafe: set[frozenset[Value]] = field(default_factory=set)

    @classmethod
    def of(cls, equalities: Iterable[Equality]) -> EquivalenceClasses:
        """Collect equalities that all hold."""
        found = cls()
        for e in equalities:
            (found.direct if e.strict else found.nullsafe).add(frozenset((e.left, e.right)))
            if e.strict and e.plain:
                found.classes.union(e.left, e.right)
        return found

    def between(self, left: Value, right: Value) -> str | None:
        """How two values are known to be equal: ``=``, ``<=>``, or None."""
        pair = frozenset((left, right))
        if pair in self.direct or self.classes[left] == self.classes[right]:
            return "="
        return "<=>" if pair in self.nullsafe else None


def covered(key: frozenset[str], x: int, y: int, equal: EquivalenceClasses, ctx: Context) -> set[str] | None:
    """How the columns of a key are equal between two readings of a base; None where one is not."""
    found: set[str] = set()
    for name in key:
        value = base_value(name, ctx.names)
        how = equal.between((x, value), (y, value))
        if how is None:
            return None
        found.add(how)
    return found


def keys_of(found: RelationLineage, ctx: Context) -> tuple[Unique, Unique]:
    """The unique keys of a reading's base: those without NULL in them, and those where a NULL is equal to another."""
    base: Logical = found.base
    if isinstance(base, Derived):
        base = base.query
    elif isinstance(base, Scan) and base.cte:
        base = ctx.definitions[base.cte].query
    elif len(found.key) > 2:
        return frozenset(), frozenset()
    return unique_keys(base, ctx), unique_keys(base, ctx, nulls=True)


def why_not_the_same_row(
    pair: tuple[int, int], found: RelationLineage, equal: EquivalenceClasses, ctx: Context, *, only: bool
) -> str:
    """Why a row of one reading may have other matches than itself in the other, where a column of theirs is equal.

    No reason is given where they are not compared by equal columns ``only``: other rules know such self-joins.
    """
    x, y = pair
    shared = [c for c in found.columns if equal.between((x, c.value), (y, c.value))]
    if not shared:
        return ""
    what = found.key[1] if found.key[0] == "table" else "the subquery"
    by = ", ".join(dict.fromkeys(c.name for c in shared))
    if len(found.key) > 2:
        return f"{what} is joined with itself by {by}, and a key does not hold for a version or sample of it"
    keys, nulls = keys_of(found, ctx)
    if any(covered(key, x, y, equal, ctx) for key in keys):
        return f"{what} is joined with itself by {by} with <=>, and its key may be NULL in several rows"
    if isinstance(found.base, Scan) and not found.base.cte:
        for key in ctx.catalog.keys(found.base.name):
            if covered(frozenset(key.columns), x, y, equal, ctx):
                return f"nobody enforces that {by} is unique in {what}; trust_informational_keys=True would trust it"
    known = sorted(", ".join(sorted(key)) for key in keys | nulls)
    if not only:
        return ""
    known_keys = f"its unique key is {' or '.join(known)}" if known else "it has no known unique key"
    return f"{what} is joined with itself by {by}, and {known_keys}"
