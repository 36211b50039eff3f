"""The user's own words with other columns in them, and expressions over a base said over what shows it."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.errors import Unsupported
from planner.expr import ColumnRef, Scalar, column_ref, quote, sql, uncommented
from planner.expr.rewording import put, reworded
from planner.sql.names import Unresolved
from planner.types.schema import SqlType
from planner.types.trying import may_raise
from rules.analysis.same_source import SourceRows


def respelt(scalar: Scalar, say: Callable[[ColumnRef], str | None]) -> str:
    """An expression, without comments, with every column that ``say`` has other words for said in these.

    Raises ``Unsupported`` where a column cannot be found in the text.
    """
    whole = Scalar(uncommented(scalar.text).strip(), (), scalar.place)
    return reworded(whole, lambda column: say(column_ref(column))).text


def over(shown: SourceRows, path: tuple[str, ...], value: str) -> str:
    """A value of the base, as ``shown.columns`` spell it, said over a relation of this name that shows columns of it.

    Raises ``Unresolved`` where the relation does not show what it takes, or another spelling could mean another thing.
    """
    if (name := shown.named(value)) is not None:
        return ".".join(map(quote, (*path, name)))

    def say(node: exp.Expression) -> exp.Expression:
        name = shown.named(sql(node))
        if name is None:
            raise Unresolved(f"{'.'.join(path)} does not show {sql(node)}")
        return exp.Column(
            this=_named(name), **dict(zip(("table", "db", "catalog"), map(_named, path[::-1]), strict=False))
        )

    return sql(put(Scalar(value).tree, say))


def never_raises(tree: exp.Expression, known: Callable[[exp.Expression], SqlType | None], *, ansi: bool) -> bool:
    """Whether a condition or value certainly has a value on every row; ``known`` tells types of columns."""
    try:
        return may_raise(tree, known, ansi=ansi) is None
    except (Unresolved, Unsupported):
        return False


def _named(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=quote(name) != name)
