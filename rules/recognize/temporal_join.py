"""Recognizes temporal joins: ``JOIN Rates FOR SYSTEM_TIME AS OF p.paid AS r ON p.currency = r.currency``."""

from dataclasses import replace

from dovetail.planner.catalog.declared import Declaration
from dovetail.planner.errors import Refused, UnknownName, Unsupported
from dovetail.planner.expr import Scalar, quote
from dovetail.planner.expr.substitution import operand
from dovetail.planner.logical import Join, Logical, Scan
from dovetail.planner.logical.nearest_join import NearestJoin
from dovetail.planner.logical.placeholder import alias_of
from dovetail.planner.logical.versions import Validity, VersionedTable
from dovetail.planner.types.schema import Column
from dovetail.rules.context import Context
from dovetail.rules.nearest.pairs import Pairs, Wanted
from dovetail.rules.query.time_travel import can_spark_travel, is_now, is_processing_time
from dovetail.rules.query.version_keys import missing_keys, why_missing
from dovetail.rules.rule import rule


@rule(Join, needs=("as_of",), streams="any")
def temporal_join(join: Join, ctx: Context) -> Logical | None:
    """Join each row with the version of a table that is valid at the row's time.

    A version is valid from its own time until the next version of the same key begins.  So this is a join on the
    key, with the time in the interval between; in a session that has Spark's own as-of join, with the nearest version.
    """
    scan = join.right
    if not isinstance(scan, Scan) or scan.as_of is None or scan.cte:
        return None
    declared = ctx.catalog.declaration(scan.name)
    versions = declared.versions
    time = _time(scan, join, ctx) if versions else None
    if versions is None or time is None:
        return None
    columns = _versioned_columns(scan, join, declared, ctx)
    alias, names = scan.alias or scan.name[-1], scan.renames or tuple(column.name for column in columns)
    since = next(n for n, column in enumerate(columns) if column.name == versions.valid_from)
    if ctx.catalog.settings.asof_join and len(join.condition) == len(versions.key) and join.kind in ("inner", "left"):
        right = replace(scan, suffix=alias_of(scan), plain=True, as_of=None)
        if nearest := _nearest(replace(join, right=right), time, f"{quote(alias)}.{quote(names[since])}", ctx):
            return nearest
    validity = Validity(scan.text, alias, columns, names, versions.key, columns[since])
    low, high = (Scalar(text, (), scan.as_of.place) for text in validity.holds(time))
    return replace(join, right=VersionedTable(validity, alias, scan.renames), condition=(*join.condition, low, high))


def _versioned_columns(scan: Scan, join: Join, declared: Declaration, ctx: Context) -> tuple[Column, ...]:
    """The columns of a table with versions.  Raises ``QueryError`` for a join that cannot be one with its versions."""
    assert scan.as_of is not None
    assert declared.versions is not None
    place, versions = scan.as_of.place, declared.versions
    if declared.expired:
        ctx.fail(f"{scan.text} changed after declare_versions(); call declare_versions() again", place)
    if join.kind not in ("inner", "left", "semi", "anti") or join.natural or join.using:
        kind = "a join with USING" if join.using else f"a {join.keyword.upper()}"
        ctx.fail(f"{scan.text} has versions, and {kind} cannot join with them; write JOIN or LEFT JOIN … ON", place)
    columns = ctx.catalog.columns(scan.name)
    if columns is None:
        ctx.fail(f"the columns of {scan.text} are not known", place)
    if missing := missing_keys(join, versions, columns, ctx.names):
        ctx.fail(why_missing(missing, versions, scan.text, scan.alias or scan.name[-1]), place)
    return columns


def _nearest(join: Join, time: str, since: str, ctx: Context) -> NearestJoin | None:
    """The join with the last version that is not after the time; None where that is not possible."""
    if ctx.generic_plan:  # it may read a stream
        return None
    match = Scalar(f"{operand(time)} >= {since}")
    try:
        pairs = Pairs(join, (match, *join.condition), ctx)
        nearest = pairs.nearest(Wanted(Scalar(since).tree, "backward"), (Scalar("*"),))
    except Refused:
        return None
    kind, keyword = join.kind, "LEFT ASOF JOIN" if join.kind == "left" else "ASOF JOIN"
    return NearestJoin(join.left, join.right, kind, keyword, join.condition, nearest, match=match, foreign=True)


def _time(scan: Scan, join: Join, ctx: Context) -> str | None:
    """The time as SQL; None for a constant, which is Spark's own time travel.

    The present time is a constant as well, for a table that Spark can read as of it.
    """
    assert scan.as_of is not None
    time = scan.as_of.text
    if is_now(scan.as_of):
        return None if can_spark_travel(scan, ctx.catalog) else "current_timestamp()"
    try:
        columns = scan.as_of.columns
    except Unsupported as no:
        if can_spark_travel(scan, ctx.catalog):
            return None
        ctx.fail(no.reason, scan.as_of.place)
    if not columns:
        return None
    scope = ctx.scope(join.left)
    for column in columns:
        try:
            scope.column(column)
        except UnknownName as no:
            if len(columns) == 1 and is_processing_time(column.parts[-1]):
                return "current_timestamp()"
            if can_spark_travel(scan, ctx.catalog):
                return None
            ctx.fail(f"{scan.as_of.shown}: {no}", scan.as_of.place)
    return time
