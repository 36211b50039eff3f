"""Which relation of FROM has, for every row of another, that very row as its only partner.

Two relations of one source meet row by row where a unique key of the source is equal on both sides.  That it is equal
may also follow: x.id = z.k AND z.k = y.id, or x.id = 5 AND y.id = 5.  The conditions are those of PostgreSQL's
self-join elimination; unlike there a filter may stand on either side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from networkx.utils import UnionFind
from sqlglot import exp

from planner.conditions.compared import compared
from planner.errors import Unsupported
from planner.expr import ColumnRef, Scalar, canonical, column_ref, sql
from planner.logical import Derived, Logical, Scan
from planner.sql.names import NoSuchColumn, Resolver, Source, Unresolved
from planner.types.schema import INTEGRAL, Column, SqlType
from rules.analysis.same_source import SourceRows, reading
from rules.analysis.unique import Unique, unique_keys
from rules.context import Context
from rules.query.from_items import FromItem

Value = tuple[int | str, str]  # a relation's number and a value of its base, or "" and a literal


@dataclass(frozen=True)
class Equality:
    """``left = right``, or ``<=>`` unless ``strict``; ``plain``: both have one type, so that equality is transitive."""

    left: Value
    right: Value
    strict: bool
    plain: bool


class FromScope:
    """What names mean among the relations of one SELECT, and what each relation reads."""

    def __init__(self, from_items: Iterable[FromItem], ctx: Context):
        self.ctx = ctx
        self.from_items = list(from_items)
        self.sources: list[Source] = []
        self.owner: list[int] = []
        for from_item in self.from_items:
            found = ctx.names.sources(from_item.relation)
            self.sources += found
            self.owner += [from_item.number] * len(found)
        self._readings: dict[int, SourceRows | str] = {}

    def reading(self, number: int) -> SourceRows | str:
        """What a relation reads, or why that cannot be told."""
        if number not in self._readings:
            try:
                self._readings[number] = reading(self.from_items[number].relation, self.ctx)
            except (Unresolved, Unsupported) as no:
                self._readings[number] = str(no)
        return self._readings[number]

    def path(self, number: int) -> tuple[str, ...]:
        """The name by which a relation's columns can be told from all others.  Raises ``Unresolved``."""
        own = [s for s, n in zip(self.sources, self.owner, strict=True) if n == number]
        fold = self.ctx.names.fold
        names = [tuple(map(fold, s.names)) for s in self.sources]
        if len(own) != 1 or not own[0].names or names.count(tuple(map(fold, own[0].names))) > 1:
            raise Unresolved("one of its relations has no name of its own")
        return own[0].names

    def resolve(self, ref: ColumnRef, scopes: tuple[frozenset[int], ...]) -> tuple[int, Column]:
        """The relation and the column that a name means, looked for in one scope after the other.

        Raises ``Unresolved``, also for a field of a column.
        """
        for last, scope in enumerate(scopes, 1 - len(scopes)):
            at = [i for i, owner in enumerate(self.owner) if owner in scope]
            try:
                index, column = self.ctx.names.resolve(ref, tuple(self.sources[i] for i in at))
            except NoSuchColumn:
                if not last:
                    raise
                continue
            if column.field:
                raise Unresolved(f"{ref.text} is a field of a column")
            return self.owner[at[index]], column
        raise NoSuchColumn(ref.text)

    def relations_of(self, scalar: Scalar, scopes: tuple[frozenset[int], ...]) -> set[int]:
        """The relations whose columns an expression names.  Raises ``Unresolved``, ``Unsupported``."""
        return {self.resolve(c, scopes)[0] for c in scalar.columns}

    def value(self, number: int, column: str) -> Value:
        """What a column of a relation is: a value of its base, or itself where the base is not known."""
        found = self.reading(number)
        if isinstance(found, str):
            return number, self.ctx.names.fold(column)
        return number, found.value(column, self.ctx.names.fold)

    def known(self, scopes: tuple[frozenset[int], ...]) -> Callable[[exp.Expression], SqlType | None]:
        """The types of columns and literals, for those who look at an expression."""

        def of(tree: exp.Expression) -> SqlType | None:
            if isinstance(tree, exp.Column):
                return self.resolve(column_ref(tree), scopes)[1].type
            return self.ctx.names.type_of(tree, ())

        return of

    def equality(self, conjunct: Scalar, scopes: tuple[frozenset[int], ...]) -> Equality | None:
        """Read a conjunct that compares two columns, or a column and a literal."""
        try:
            found = compared(conjunct)
            if found is None or not found.equal:
                return None
            return self.compared(found.left, found.right, found.sign == "=", scopes)
        except (Unresolved, Unsupported):
            return None

    def _bare(self, tree: exp.Expression, scopes: tuple[frozenset[int], ...]) -> exp.Expression:
        """The column of ``x.id + 0`` and of a cast that changes no value of it; any other operand as it is."""
        if isinstance(tree, exp.Add | exp.Sub) and tree.expression == exp.Literal.number(0):
            inner: exp.Expression = tree.this.unnest()
        elif isinstance(tree, exp.Cast) and not tree.args.get("safe"):
            inner = tree.this.unnest()
        else:
            return tree
        type_ = self.resolve(column_ref(inner), scopes)[1].type if isinstance(inner, exp.Column) else None
        if type_ is None:
            return tree
        wider = self.ctx.names.type_of(tree, ()) or type_ if isinstance(tree, exp.Cast) else type_
        if isinstance(tree, exp.Cast) and wider == type_:
            return inner
        kept = type_.integral and wider.integral and INTEGRAL.index(wider.name) >= INTEGRAL.index(type_.name)
        return inner if kept else tree

    def compared(
        self, left: exp.Expression, right: exp.Expression, strict: bool, scopes: tuple[frozenset[int], ...]
    ) -> Equality | None:
        """Two operands of ``=`` as an equality.  Raises ``Unresolved``, ``Unsupported``."""
        left, right = self._bare(left, scopes), self._bare(right, scopes)
        if not isinstance(left, exp.Column):
            left, right = right, left
        if not isinstance(left, exp.Column):
            return None
        number, column = self.resolve(column_ref(left), scopes)
        value = self.value(number, column.name)
        if isinstance(right, exp.Column):
            other, second = self.resolve(column_ref(right), scopes)
            same = column.type is not None and column.type == second.type
            return Equality(value, self.value(other, second.name), strict, same)
        alike = column.type is not None and is_literal_of(right, column.type, self.ctx.names)
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
        value = sql(exp.column(ctx.names.fold(name), quoted=True))
        how = equal.between((x, value), (y, value))
        if how is None:
            return None
        found.add(how)
    return found


def keys_of(found: SourceRows, ctx: Context) -> tuple[Unique, Unique]:
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
    x: int, y: int, found: SourceRows, equal: EquivalenceClasses, ctx: Context, *, only: bool
) -> str:
    """Why a row of one reading may have other partners than itself in the other, where a column of theirs is equal.

    Nothing is said where they are not compared by equal columns ``only``: other rules know such self-joins.
    """
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
    said = f"its unique key is {' or '.join(known)}" if known else "it has no known unique key"
    return f"{what} is joined with itself by {by}, and {said}"
