"""The parts of a RowLookupJoin: the relations of its left side, and its condition on a fetched row."""

from __future__ import annotations

from dovetail.planner.bind.from_columns import from_columns
from dovetail.planner.bind.names import Source
from dovetail.planner.errors import NoSuchColumn, Place, Refused, UnknownName
from dovetail.planner.expr import ColumnRef, Scalar, quote
from dovetail.planner.expr.references import replace_references
from dovetail.planner.logical.lookup import LookupJoin
from dovetail.planner.physical.row_lookup_join import FOUND
from dovetail.rules.context import Context

Rows = tuple[tuple[str, tuple[str, ...]], ...]


def row_parts(join: LookupJoin, why: str, ctx: Context) -> tuple[Rows, tuple[Scalar, ...]]:
    """The relations of the left side with their columns, and the condition over ``FOUND``.

    Raises ``QueryError`` where the columns are not known or merged, or the condition cannot be moved.
    """
    place = join.scan.as_of.place if join.scan.as_of else None
    _check_names(join, why, place, ctx)
    try:
        both = from_columns(ctx.names, join)
    except UnknownName as no:
        ctx.fail(f"{no}, and the left side can be read only once ({why})", place)
    if both.merged:
        ctx.fail(f"USING or NATURAL merges columns, and the left side can be read only once ({why}); write ON", place)
    left = _rows(ctx.names.sources(join.left), why, place, ctx)
    return left, tuple(_over_found(c, join, why, ctx) for c in join.condition)


def _check_names(join: LookupJoin, why: str, place: Place | None, ctx: Context) -> None:
    """Raise ``QueryError`` for columns of the table that only their case distinguishes: they are fields of a struct."""
    for source in ctx.names.sources(join.scan):
        for columns in source.columns_by_name.values():
            one, *others = dict.fromkeys(column.name for column in columns)
            if others:
                names = f"{quote(one)} and {quote(others[0])}, which differ by case alone"
                once = f"the left side can be read only once ({why})"
                ctx.fail(
                    f"{join.scan.name[-1]} has the columns {names}, and {once}; set spark.sql.caseSensitive to true",
                    place,
                )


def _rows(left: tuple[Source, ...], why: str, place: Place | None, ctx: Context) -> Rows:
    found = []
    for source in left:
        if not source.names or source.columns is None:
            name = ".".join(source.names) or "a relation without a name"
            ctx.fail(f"the columns of {name} are not known, and it can be read only once ({why})", place)
        if not source.names[-1].startswith("__dt_"):  # the ends of versions: the join below has compared them
            found.append((source.names[-1], tuple(c.name for c in source.columns)))
    return tuple(found)


def _over_found(conjunct: Scalar, join: LookupJoin, why: str, ctx: Context) -> Scalar:
    """A conjunct with ``FOUND`` in the place of the table's name."""
    if conjunct.plans:
        reason = f"{conjunct.shown}: a subquery cannot be compared where the left side can be read only once ({why})"
        ctx.fail(f"{reason}; move it to WHERE", conjunct.place)
    scope = ctx.scope(join.left, join.scan)
    known = conjunct.known is not None
    columns = set() if not known else {column.parts for column in conjunct.columns}

    def over_found(ref: ColumnRef) -> str | None:
        if len(ref.parts) == 1 and known and ref.parts not in columns:
            return None  # a type, a unit, a keyword
        try:
            found = scope.column(ref)
        except NoSuchColumn:
            return None  # as before, in what only Spark reads; Spark's analysis refuses what is a column
        except Refused as no:
            ctx.fail(f"{no}, and the left side can be read only once ({why})", conjunct.place)
        if not scope.item(found):
            return None
        return ".".join((FOUND, *map(quote, ref.parts[-1 - len(found.column.field) :])))

    text = replace_references(conjunct.text, over_found)
    return conjunct if text == conjunct.text else Scalar(text, (), conjunct.place)
