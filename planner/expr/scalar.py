"""Scalar: an immutable SQL expression as written; the only access to sqlglot's mutable trees."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlglot import exp

from dovetail.planner.errors import Place, Unsupported
from dovetail.planner.expr.dialect import RAW
from dovetail.planner.expr.mask_functions import HOLE as HOLE
from dovetail.planner.expr.printing import plain_form, print_sql
from dovetail.planner.expr.spark_sql import read
from dovetail.planner.tree import Holder, Node

_COMMENTS = re.compile(r"('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`)|--[^\n]*|/\*(?!\+).*?\*/", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
HOLES = re.compile(HOLE + r"(\d+)")  # subquery placeholders


@dataclass(frozen=True)
class ColumnRef:
    """A column as written: ``parts`` are its names from the outermost in, unquoted; ``text`` is SQL."""

    parts: tuple[str, ...]
    text: str


@dataclass(frozen=True, eq=False)
class Whole:
    """A conjunct as written that rules replaced by ``parts`` conjuncts of the same meaning, or by one.

    It is printed if all of them still stand side by side.
    """

    written: Scalar
    parts: int


@dataclass(frozen=True)
class Scalar(Holder):
    """An SQL expression, clause or list item, exactly as written.

    The text of each subquery is replaced by ``__plan_0``, ``__plan_1`` …, and ``plans`` holds its plan.  Two scalars
    are equal when text and plans are; the place does not count, nor does the ``whole`` that it is a part of.
    """

    text: str
    plans: tuple[Node, ...] = ()
    place: Place | None = field(default=None, compare=False)
    whole: Whole | None = field(default=None, compare=False, repr=False)

    def with_plans(self, plans: tuple[Node, ...]) -> Scalar:
        """Return the same expression over other subqueries."""
        return replace(self, plans=plans)

    def render(self, print_query: Callable[[Node], str]) -> str:
        """Return the text, with every subquery printed by ``print_query``."""
        if not self.plans:
            return self.text
        return HOLES.sub(lambda m: print_query(self.plans[int(m.group(1))]), self.text)

    @property
    def shown(self) -> str:
        """The text on one line, for plans, without comments: a subquery is shown by its number."""
        return self.show()

    def show(self, before: int = 0) -> str:
        """The same where ``before`` subqueries have been counted already."""
        shown = HOLES.sub(lambda m: f"subquery {int(m.group(1)) + 1 + before}", self.text)
        return " ".join(_COMMENTS.sub(lambda m: m.group(1) or " ", shown).split())

    @cached_property
    def tree(self) -> exp.Expression:
        """The parsed expression.  Callers do not change it.  Raises ``Unsupported`` when sqlglot cannot read it."""
        return parse(self.text, self.place)

    @property
    def known(self) -> exp.Expression | None:
        """The parsed expression; None if only Spark can parse it."""
        try:
            return self.tree
        except Unsupported:
            return None

    @cached_property
    def columns(self) -> tuple[ColumnRef, ...]:
        """The columns it mentions outside subqueries, each once, in order.  Raises ``Unsupported``."""
        return tuple(dict.fromkeys(column_ref(c) for c in columns_in(self.tree)))

    @property
    def without_comments(self) -> Scalar:
        """The same without comments, which would end at the end of another line, and without blanks around it."""
        return Scalar(_COMMENTS.sub(lambda m: m.group(1) or " ", self.text).strip(), self.plans, self.place)

    def __str__(self) -> str:
        return self.shown


def show_all(scalars: tuple[Scalar, ...]) -> list[str]:
    """Every one on a line, with subqueries numbered through."""
    shown, before = [], 0
    for scalar in scalars:
        shown.append(scalar.show(before))
        before += len(scalar.plans)
    return shown


def parse(text: str, place: Place | None = None) -> exp.Expression:
    """Parse one Spark expression, to a tree that nobody changes.

    Raises ``Unsupported`` when sqlglot cannot read it, or reads another expression than Spark.
    """
    try:
        return read(text)  # type: ignore[return-value]
    except Unsupported as no:
        raise Unsupported(no.reason, place) from no


def sql(tree: exp.Expr) -> str:
    """Print a tree as Spark SQL, with the parentheses that it needs.  Raises ``Unsupported``."""
    return print_sql(tree)


def canonical(tree: exp.Expr) -> str:
    """Return the canonical SQL of an expression, equal for equivalent syntax.  Raises ``Unsupported``."""
    return print_sql(plain_form(tree))


_NO_NAMES = frozenset(
    "all alter and any as between case create cross current_date current_time current_timestamp current_user distinct "
    "drop else except false fetch for from full glob grant group having ilike in inner insert intersect interval into "
    "is join lateral left like minus natural not notnull null on or order outer partitioned_by qualify regexp "
    "returning revoke right rlike rollback select serdeproperties session_user table tablesample then true uncache "
    "union using values when where with xor".split()
)
"""Words that are read as something else than a name where they stand without quotes."""


def quote(name: str) -> str:
    """Quote a name for Spark if needed."""
    if _PLAIN.fullmatch(name) and name.lower() not in _NO_NAMES:
        return name
    return "`" + name.replace("`", "``") + "`"


def column_ref(column: exp.Expression) -> ColumnRef:
    """The reference a sqlglot column (or a dotted chain over one) makes.  Raises ``Unsupported`` for anything else."""
    if isinstance(column, exp.Dot):
        inner = column_ref(column.this)
        return ColumnRef((*inner.parts, column.expression.name), sql(column))
    if not isinstance(column, exp.Column):
        raise Unsupported(f"{sql(column)} is not a column")
    names = [_name(part) for part in column.parts]
    return ColumnRef(tuple(p.name for p in column.parts), sql(column) if None in names else ".".join(names))  # type: ignore[arg-type]


def _name(part: exp.Expr) -> str | None:
    """How a plain name of a column is printed, without the printer, which takes most of planning; else None."""
    if type(part) is not exp.Identifier or RAW in part.meta:
        return None
    if part.args.get("quoted"):
        return "`" + part.name.replace("`", "``") + "`"
    return part.name if _PLAIN.fullmatch(part.name) else None


def columns_in(tree: exp.Expression) -> Iterator[exp.Expression]:
    """The columns of an expression, with the fields behind them, outside subqueries."""
    if isinstance(tree, exp.Column) and not tree.name.startswith(HOLE):
        yield tree
        return
    if isinstance(tree, exp.Dot) and is_reference(tree):
        yield tree
        return
    for child in tree.iter_expressions():
        yield from columns_in(child)


def is_star(tree: exp.Expr | None) -> bool:
    """Whether an item of a select list is ``*`` or ``relation.*``, also with EXCEPT or REPLACE behind it."""
    return isinstance(tree, exp.Star) or (isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star))


def name_of_item(tree: exp.Expr | None) -> str:
    """The name of the column that an item of a select list returns; empty where Spark makes it of the text."""
    return tree.alias_or_name if isinstance(tree, exp.Alias | exp.Column) else ""


def output_name(item: Scalar) -> str:
    """The name of the column that an item returns.  Raises ``Unsupported`` where Spark makes it of the text."""
    if name := name_of_item(item.tree):
        return name
    raise Unsupported(f"{item.shown} has no name; give it one with AS", item.place)


def has_star(tree: exp.Expr) -> bool:
    """Whether ``*`` stands for columns in an expression: anywhere but in ``count(*)``."""
    return any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star))


def is_reference(tree: exp.Expr) -> bool:
    """Whether an expression is a column, or a field of one: names with dots between them."""
    while isinstance(tree, exp.Dot) and isinstance(tree.expression, exp.Identifier):
        tree = tree.this
    return isinstance(tree, exp.Column)


def without_parentheses(tree: exp.Expr) -> exp.Expression:
    """Return an expression without the parentheses around it."""
    return tree.unnest()  # type: ignore[return-value]
