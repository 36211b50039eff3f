"""Substitutes columns in an expression, and keeps the rest of its SQL as written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from dovetail.planner.errors import Unsupported
from dovetail.planner.expr.printing import holds_together
from dovetail.planner.expr.scalar import Scalar, column_ref, columns_in, parse, sql
from dovetail.planner.expr.spark_sql import BEFORE
from dovetail.planner.expr.tokens import tokenize


def substitute_columns(scalar: Scalar, replacement: Callable[[exp.Expression], str | None]) -> Scalar:
    """Replace every column of an expression by the SQL that ``replacement`` returns; None keeps the column.

    The SQL is put in parentheses if needed.  Raises ``Unsupported`` if a column cannot be located in the text, or if a
    lambda variable would capture a new column.
    """
    text, at = scalar.text, len(scalar.text)
    for column in sorted(columns_in(scalar.tree), key=lambda c: span(c)[0], reverse=True):
        start, end = span(column)
        ref = column_ref(column)
        if end > at or "".join(ref.parts) != _bare(text[start:end]):
            raise Unsupported(f"{ref.text} cannot be found in {scalar.shown}", scalar.place)
        at = start
        if (new := replacement(column)) is not None:
            check_free(column, parse(new))
            text = text[:start] + _enclose(new) + text[end:]
    return scalar if text == scalar.text else Scalar(text, scalar.plans, scalar.place)


def replace_columns(tree: exp.Expr, replacement: Callable[[exp.Expression], exp.Expression]) -> exp.Expression:
    """Copy an expression with each column outside subqueries replaced by the result of ``replacement``.

    Raises ``Unsupported`` if a lambda variable would capture a column of the result.
    """

    def replace_column(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        new = replacement(node)
        if new is not node:
            check_free(node, new)
        return new

    return tree.copy().transform(replace_column)  # type: ignore[return-value]


def replace_expressions(scalar: Scalar, columns: Mapping[str, str]) -> Scalar:
    """An expression with columns in the place of its parts, by their SQL; itself where it has none of them."""
    if scalar.plans or not any(sql(node) in columns for node in scalar.tree.walk()):
        return scalar

    def replaced(node: exp.Expr) -> exp.Expr:
        name = columns.get(sql(node))
        return node if name is None else exp.column(name)

    return Scalar(sql(scalar.tree.copy().transform(replaced)), (), scalar.place)


def check_free(node: exp.Expr, new: exp.Expr) -> None:
    """Raise ``Unsupported`` if a lambda variable at ``node`` would capture a column of ``new``."""
    taken = {name.lower() for name in variables(node)}
    caught = [c for c in new.find_all(exp.Column) if c.parts[0].name.lower() in taken] if taken else []
    if caught:
        raise Unsupported(f"{sql(caught[0])} would be a variable of a lambda where {sql(node)} stands")


def variables(node: exp.Expr) -> Iterator[str]:
    """Yield the variables of all lambdas around a node."""
    around = node.find_ancestor(exp.Lambda)
    while around is not None:
        yield from (variable.name for variable in around.expressions)
        around = around.find_ancestor(exp.Lambda)


def without_alias(item: Scalar) -> Scalar:
    """Return a select item without its alias."""
    if not isinstance(item.tree, exp.Alias):
        return item
    t = tokenize(item.text)
    return replace(item, text=t.slice(0, len(t) - (2 if t.word(len(t) - 2) == "AS" else 1)))


def operand(text: str) -> str:
    """Return an expression as an operand, in parentheses if needed."""
    try:
        return text if holds_together(parse(text)) else f"({text})"
    except Unsupported:
        return f"({text})"


def _enclose(text: str) -> str:
    """Enclose an expression that replaces a column; an expression with an alias stays, as a list item."""
    return text if isinstance(parse(text), exp.Alias) else operand(text)


def span(column: exp.Expression) -> tuple[int, int]:
    """Return the position of a column in the text that it was parsed from."""
    ids = list(column.find_all(exp.Identifier))
    if not ids or any("start" not in i.meta for i in ids):
        raise Unsupported(f"{sql(column)} has no known position in the text")
    before = len(BEFORE)
    return min(i.meta["start"] for i in ids) - before, max(i.meta["end"] for i in ids) - before + 1


def _bare(text: str) -> str:
    """Names with dots between them, without the dots, quotes and blanks."""
    t = tokenize(text)
    return "".join(t[i].text for i in range(len(t)) if t[i].word != ".")
