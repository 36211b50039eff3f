"""The user's own words with others in the place of some columns, so that all of them keep their meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from planner.errors import Unsupported
from planner.expr.precedence import holds_together
from planner.expr.scalar import Scalar, column_ref, columns_in, parse, sql
from planner.expr.spark_sql import BEFORE
from planner.expr.tokens import tokenize


def reworded(scalar: Scalar, say: Callable[[exp.Expression], str | None]) -> Scalar:
    """An expression with every column said in the words that ``say`` has for it; None keeps those it has.

    Words are put in parentheses where they are more than one operand.  Raises ``Unsupported`` where a column cannot be
    found in the text, or a variable of a lambda would catch the new words.
    """
    text, at = scalar.text, len(scalar.text)
    for column in sorted(columns_in(scalar.tree), key=lambda c: span(c)[0], reverse=True):
        start, end = span(column)
        ref = column_ref(column)
        if end > at or "".join(ref.parts) != _bare(text[start:end]):
            raise Unsupported(f"{ref.text} cannot be found in {scalar.shown}", scalar.place)
        at = start
        if (new := say(column)) is not None:
            check_free(column, parse(new))
            text = text[:start] + operand(new) + text[end:]
    return scalar if text == scalar.text else Scalar(text, scalar.plans, scalar.place)


def put(tree: exp.Expr, say: Callable[[exp.Expression], exp.Expression]) -> exp.Expression:
    """A copy of an expression with each column outside subqueries replaced by what ``say`` makes of it.

    Raises ``Unsupported`` where a variable of a lambda would catch a column of that.
    """

    def replaced(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        new = say(node)
        if new is not node:
            check_free(node, new)
        return new

    return tree.copy().transform(replaced)  # type: ignore[return-value]


def check_free(node: exp.Expr, new: exp.Expr) -> None:
    """Raise ``Unsupported`` where a column of ``new`` would be a variable of a lambda in the place of ``node``."""
    taken = {name.lower() for name in variables(node)}
    caught = [c for c in new.find_all(exp.Column) if c.parts[0].name.lower() in taken] if taken else []
    if caught:
        raise Unsupported(f"{sql(caught[0])} would be a variable of a lambda where {sql(node)} stands")


def variables(node: exp.Expr) -> Iterator[str]:
    """The variables of all lambdas around a piece of an expression."""
    around = node.find_ancestor(exp.Lambda)
    while around is not None:
        yield from (variable.name for variable in around.expressions)
        around = around.find_ancestor(exp.Lambda)


def operand(text: str) -> str:
    """An expression that can be an operand: in parentheses unless it holds together by itself."""
    try:
        return text if holds_together(parse(text)) else f"({text})"
    except Unsupported:
        return f"({text})"


def span(column: exp.Expression) -> tuple[int, int]:
    """Where a column stands in the text that it was parsed from."""
    ids = list(column.find_all(exp.Identifier))
    if not ids or any("start" not in i.meta for i in ids):
        raise Unsupported(f"{sql(column)} has no place in the text")
    before = len(BEFORE)
    return min(i.meta["start"] for i in ids) - before, max(i.meta["end"] for i in ids) - before + 1


def _bare(text: str) -> str:
    """Names with dots between them, without the dots, quotes and blanks."""
    t = tokenize(text)
    return "".join(t[i].text for i in range(len(t)) if t[i].word != ".")
