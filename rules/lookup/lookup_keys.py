"""Reads the condition of a lookup join: its keys, its constants, and conditions that make a request unnecessary."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from sqlglot import exp

from dovetail.planner.band.linear import Side
from dovetail.planner.bind.from_columns import FromColumns, from_columns, using_reference
from dovetail.planner.bind.scope import Scope
from dovetail.planner.catalog.declared import LookupTable
from dovetail.planner.conditions.compared import Comparison, compared
from dovetail.planner.conditions.equality import equality_operands
from dovetail.planner.errors import Place, Refused, UnknownName, Unsupported
from dovetail.planner.expr import Scalar, quote, sql, without_parentheses
from dovetail.planner.logical import Join, Scan
from dovetail.planner.logical.lookup import LookupKey
from dovetail.planner.logical.lookup_spec import Constant
from dovetail.planner.types.schema import SqlType
from dovetail.rules.context import Context
from dovetail.rules.lookup.unread_keys import unread_equality
from dovetail.rules.query.decorrelation import check_deterministic

_TEXTS = ("string", "char", "varchar")
_NO_KEYS = ("array", "map", "struct", "variant", "interval")


@dataclass
class LookupRequest:
    """A request to the table: keys, constants, and filters on the left rows."""

    keys: tuple[LookupKey, ...] = ()
    constants: tuple[tuple[str, Constant], ...] = ()
    only: tuple[Scalar, ...] = ()


@dataclass
class _Read:
    """The conjuncts read so far; ``no`` has the reasons why equalities are not keys."""

    keys: list[LookupKey] = field(default_factory=list)
    constants: list[tuple[str, Constant]] = field(default_factory=list)
    only: list[Scalar] = field(default_factory=list)
    no: list[tuple[str, Place | None]] = field(default_factory=list)


def read_condition(join: Join, table: LookupTable, ctx: Context) -> LookupRequest:
    """Read ON or USING of a lookup join.  Raises ``QueryError`` if it has no equality with a key."""
    read = _Read()
    reader = _Reader(join, table, ctx)
    for name in join.using:
        reader.using(name, read)
    for conjunct in join.condition:
        try:
            reader.conjunct(conjunct, read)
        except Refused as no:
            read.no.append((str(no), conjunct.place))
    place = join.right.as_of.place if isinstance(join.right, Scan) and join.right.as_of else None
    if not read.keys:
        if read.no:
            ctx.fail(*read.no[0])
        known = " or ".join(f"({', '.join(k)})" for k in table.unique_keys)
        unique = f"; its unique key is {known}" if known else ""
        ctx.fail(
            f"the lookup join with {table.name} has no equality between its left side and a column of {table.name}"
            f"{unique}; add ON … = {reader.alias}.…",
            place,
        )
    keys, constants = _fetchable(read, table, ctx, place)
    return LookupRequest(keys, constants, tuple(read.only))


def _fetchable(
    read: _Read, table: LookupTable, ctx: Context, place: Place | None
) -> tuple[tuple[LookupKey, ...], tuple[tuple[str, Constant], ...]]:
    """Return the keys and constants by which the table can be fetched."""
    keys = tuple(read.keys)
    constants = tuple((column, value) for column, value in read.constants if column not in {k.column for k in keys})
    if table.fetch_keys is None:
        return keys, constants
    named, fixed = {k.column for k in keys}, {c for c, _ in constants}
    possible = [s for s in table.fetch_keys if set(s) <= named | fixed and set(s) & named]
    if not possible:
        known = " or ".join(f"({', '.join(s)})" for s in table.fetch_keys)
        ctx.fail(
            f"{table.name} can be fetched by {known}, but this join compares {', '.join(sorted(named | fixed))}",
            place,
        )
    chosen = max(possible, key=len)
    if set(chosen) & fixed:  # the source takes just these columns; what else there is, ON compares
        constants = tuple((column, value) for column, value in constants if column in chosen)
    return tuple(k for k in keys if k.column in chosen), constants


class _Reader:
    def __init__(self, join: Join, table: LookupTable, ctx: Context):
        self.join, self.table, self.ctx = join, table, ctx
        self.scope = _left_scope(join, ctx)
        self.left = self.scope.sources
        (self.right,) = ctx.names.sources(join.right)
        self.sides = Scope(ctx.names, (*self.left, self.right), (*(0 for _ in self.left), 1))
        assert isinstance(join.right, Scan)
        self.alias = join.right.alias or table.name

    def using(self, name: str, read: _Read) -> None:
        try:
            column = self._own(exp.column(Scalar(name).tree.name, self.alias, quoted=True))
            if column is None:
                self.ctx.fail(f"{self.table.name} has no column {name}")
            value = Scalar(using_reference(self.ctx.names, self.scope, name) if self.scope.star else name)
            self._key(value, value.tree, column, read)
        except Refused as no:
            read.no.append((str(no), None))

    def conjunct(self, conjunct: Scalar, read: _Read) -> None:
        if conjunct.plans:
            reason = "a key cannot contain a subquery; join the subquery to the left side, and compare with its column"
            read.no.append((f"{conjunct.shown}: {reason}", conjunct.place))
            return
        if conjunct.known is None:
            self._unread(conjunct, read)
            return
        tree = without_parentheses(conjunct.tree)
        side = self.side(tree)
        if side == "left":
            with suppress(Refused):
                check_deterministic(conjunct)
                read.only.append(conjunct)
        if side != "both" and side != "right":
            return
        comparison = compared(tree)
        if comparison and comparison.sign == "<=>":
            read.no.append((f"{conjunct.shown}: a key that is NULL is never asked for; write =", conjunct.place))
        if comparison and comparison.sign == "=":
            self._equality(conjunct, comparison, read)

    def _equality(self, conjunct: Scalar, equality: Comparison, read: _Read) -> None:
        ends = [equality.operands, equality.turned.operands]
        for own, other in ends:
            column = self._own(own)
            if column is None:
                continue
            side = self.side(other)
            if side is None and (value := _constant(other, self._type(column))) is not None:
                if column not in dict(read.constants):
                    read.constants.append((column, value))
                return
            if side == "left":
                operands = equality_operands(conjunct)
                if operands is None:
                    raise Unsupported(f"{conjunct.shown} is not one equality", conjunct.place)
                text = operands[other is equality.right]
                check_deterministic(text)
                self._key(text, other, column, read)
                return
        for own, other in ends:
            if self.side(own) == "right" and self.side(other) == "left":
                reason = (
                    f"{sql(own)} is an expression, and {self.table.name} is asked by its columns; "
                    f"leave the column alone and move the rest to the other side"
                )
                read.no.append((f"{conjunct.shown}: {reason}", conjunct.place))

    def _unread(self, conjunct: Scalar, read: _Read) -> None:
        """Add the key of an equality that only Spark reads."""
        found = unread_equality(conjunct, self.sides)
        own = ".".join(quote(part) for part in found.own.parts)
        if (column := self._own(Scalar(own).tree)) is None:
            raise Refused(f"{conjunct.shown}: {own} is not a column of {self.table.name}", conjunct.place)
        self._key(found.other, None, column, read)

    def _type_of(self, value: Scalar, tree: exp.Expression | None) -> SqlType | None:
        if tree is not None:
            return self.ctx.names.type_of(tree, self.left) or self.ctx.spark_type(value.text, self.join.left)
        try:
            columns = self.ctx.catalog.schema(self.ctx.query(self.join.left, value.text))
        except Unsupported:
            return None
        return columns[0].type if columns else None

    def _key(self, value: Scalar, tree: exp.Expression | None, column: str, read: _Read) -> None:
        """Add a key, unless its column has one already, or the two cannot be compared by asking."""
        if any(k.column == column for k in read.keys):
            return
        mine = self._type_of(value, tree)
        theirs = self._type(column)
        if theirs is not None and not _comparable(mine, theirs):
            name = f"{self.table.name}.{column}"
            if theirs.name in _NO_KEYS:
                reason = f"{name} is {theirs}, which no table can be asked by"
            else:
                rounds = _may_round(mine, theirs)
                cast = f"{'try_cast' if rounds else 'CAST'}({value.shown} AS {theirs})"
                exact = f" AND {cast} = {value.shown}" if rounds else ""
                reason = (
                    f"{value.shown} is {mine} and {name} is {theirs}, and a lookup finds only values of its own type; "
                    f"write {cast} = {self.alias}.{quote(column)}{exact}"
                )
            read.no.append((reason, value.place))
            return
        read.keys.append(LookupKey(value, column))

    def side(self, tree: exp.Expression) -> Side | Literal["both"] | None:
        """Which sides an expression names columns of; None for neither.  Raises ``Refused``."""
        return self.sides.bind(tree).side

    def _own(self, tree: exp.Expression) -> str | None:
        """Return the name of the table's column if an expression is just that column; else None."""
        tree = without_parentheses(tree)
        if not isinstance(tree, exp.Column):
            return None
        found, shown = self.sides.column(tree), [column.name for column in self.right.columns or ()]
        if found.column.field or not self.sides.item(found) or found.column.name not in shown:
            return None  # the left side's, or a field of a struct
        return self.table.columns[shown.index(found.column.name)].name

    def _type(self, column: str) -> SqlType | None:
        return next(c.type for c in self.table.columns if c.name == column)


def _left_scope(join: Join, ctx: Context) -> FromColumns:
    """The scope of the left side, merged columns known as such where they can be."""
    try:
        return from_columns(ctx.names, join.left)
    except UnknownName:
        return FromColumns(ctx.names.sources(join.left), None)


def _may_round(mine: SqlType | None, theirs: SqlType) -> bool:
    """Whether a cast to the type of the column may make another value, where Spark's ``=`` compares without it."""
    if mine is None or theirs.name in _TEXTS:
        return False
    return mine.approximate or (mine.name.startswith("timestamp") and theirs.name == "date")


def _comparable(mine: SqlType | None, theirs: SqlType) -> bool:
    """Whether values of one type find all those of another that Spark takes for equal.

    A number that does not fit is never sent: it could be equal to none.  What is not known is left to Spark's analysis.
    """
    if theirs.name in _NO_KEYS:
        return False
    if mine is None or mine == theirs or (mine.name in _TEXTS and theirs.name in _TEXTS):
        return True
    return all(t.exact_numeric for t in (mine, theirs))


def _constant(tree: exp.Expression, type_: SqlType | None) -> Constant | None:
    """Return the value of a literal that has exactly the column's type; None for any other."""
    negative = isinstance(tree, exp.Neg)
    literal = tree.this if negative else tree
    match literal:
        case exp.Boolean() if not negative and type_ and type_.name == "boolean":
            return bool(literal.this)
        case exp.Literal() if literal.is_string and not negative and type_ and type_.name == "string":
            return None if set(literal.this) & set("\\'\"") else str(literal.this)
        case exp.Literal() if not literal.is_string and type_ and type_.integral and literal.name.isdigit():
            return -int(literal.name) if negative else int(literal.name)
        case exp.Cast() if not negative and type_ and type_.name == "date" and isinstance(literal.this, exp.Literal):
            with suppress(ValueError):
                return date.fromisoformat(literal.this.name) if sql(literal.to).upper() == "DATE" else None
    return None
