"""Substitutes columns in an expression, and rewrites base-table expressions over a relation's output columns."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.errors import Refused
from planner.expr import ColumnRef, Scalar, column_ref, quote, sql, uncommented
from planner.expr.substitution import replace_columns, substitute_columns
from rules.analysis.same_source import RelationLineage


def rewrite_columns(scalar: Scalar, substitute: Callable[[ColumnRef], str | None]) -> str:
    """Replace each column of an expression with the text that ``substitute`` returns; None keeps the column.

    The result has no comments.  Raises ``Unsupported`` if a column cannot be found in the text.
    """
    whole = Scalar(uncommented(scalar.text).strip(), (), scalar.place)
    return substitute_columns(whole, lambda column: substitute(column_ref(column))).text


def rewrite_over_output(lineage: RelationLineage, path: tuple[str, ...], value: str) -> str:
    """Rewrite a value over base columns as one over the output columns of the relation with the name ``path``.

    Raises ``Refused`` if the relation does not output a column of the value.
    """
    if (name := lineage.output_name(value)) is not None:
        return ".".join(map(quote, (*path, name)))

    def output_column(node: exp.Expression) -> exp.Expression:
        name = lineage.output_name(sql(node))
        if name is None:
            raise Refused(f"{'.'.join(path)} does not return {sql(node)}")
        return exp.Column(
            this=_named(name), **dict(zip(("table", "db", "catalog"), map(_named, path[::-1]), strict=False))
        )

    return sql(replace_columns(Scalar(value).tree, output_column))


def _named(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=quote(name) != name)
