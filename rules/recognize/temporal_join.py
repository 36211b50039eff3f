"""Recognize temporal joins: ``JOIN Rates FOR SYSTEM_TIME AS OF p.paid AS r ON p.currency = r.currency``."""

from dataclasses import replace

from sqlglot import exp

from planner.catalog.declared import Versions
from planner.conditions.compared import compared
from planner.errors import Unsupported
from planner.expr import Scalar, column_ref, quote
from planner.logical import Join, Logical, Scan
from planner.logical.stand_in import alias_of
from planner.logical.versions import AsofJoin, Validity, VersionedTable
from planner.sql.names import Unresolved
from planner.types.schema import Column
from rules.context import Context
from rules.rule import rule

_NOW = ("PROCTIME()", "CURRENT_TIMESTAMP")
_PROCESSING_TIMES = ("proctime", "processingtime", "processtime")


@rule(Join, streams="any")
def temporal_join(join: Join, ctx: Context) -> Logical | None:
    """Join each row with the version of a table that is valid at the row's time.

    A version is valid from its own time until the next version of the same key begins.  So this is a join on the
    key, with the time in the interval between; if the session has Spark's own as-of join, that is used.
    """
    scan = join.right
    if not isinstance(scan, Scan) or scan.as_of is None or scan.cte:
        return None
    declared = ctx.catalog.declaration(scan.name)
    versions = declared.versions
    time = _time(scan, join, ctx) if versions else None
    if versions is None or time is None:
        return None
    place = scan.as_of.place
    if declared.lapsed:
        ctx.fail(f"{scan.text} is not what it was when its versions were declared; declare them again", place)
    if join.kind not in ("inner", "left", "semi", "anti") or join.natural or join.using:
        kind = "a join with USING" if join.using else f"a {join.keyword.upper()}"
        ctx.fail(f"{scan.text} has versions, and {kind} cannot join with them; write JOIN or LEFT JOIN … ON", place)
    columns = ctx.catalog.columns(scan.name)
    if columns is None:
        ctx.fail(f"the columns of {scan.text} are not known", place)
    keys = _key_equalities(join, versions, columns, ctx)
    missing = [c for c in versions.key if c not in keys]
    if missing:
        alias = scan.alias or scan.name[-1]
        reason = f"the versions of {scan.text} are those of ({', '.join(versions.key)})"
        ctx.fail(f"{reason}; compare {', '.join(f'{alias}.{quote(c)}' for c in missing)} with = in ON", place)
    alias = scan.alias or scan.name[-1]
    if ctx.catalog.settings.asof_join and len(join.condition) == len(versions.key) and join.kind in ("inner", "left"):
        shown = dict(zip((c.name for c in columns), scan.renames or tuple(c.name for c in columns), strict=True))
        right = replace(scan, suffix=alias_of(scan), plain=True, as_of=None)
        since = f"{quote(alias)}.{quote(shown[versions.valid_from])}"
        return AsofJoin(join.left, right, join.kind, time, since, join.condition)
    since_column = next(c for c in columns if c.name == versions.valid_from)
    names = scan.renames or tuple(c.name for c in columns)
    validity = Validity(scan.text, alias, columns, names, versions.key, since_column)
    low, high = (Scalar(text, (), place) for text in validity.holds(time))
    return replace(join, right=VersionedTable(validity, alias, scan.renames), condition=(*join.condition, low, high))


def _time(scan: Scan, join: Join, ctx: Context) -> str | None:
    """The time as SQL; None for a constant, which is Spark's own time travel."""
    assert scan.as_of is not None
    said = scan.as_of.text
    if scan.as_of.shown.upper().replace(" ", "") in _NOW:
        return "current_timestamp()"
    try:
        columns = scan.as_of.columns
    except Unsupported as no:
        ctx.fail(no.reason, scan.as_of.place)
    if not columns:
        return None
    sources = ctx.names.sources(join.left)
    for column in columns:
        try:
            ctx.names.resolve(column, sources)
        except Unresolved as no:
            if len(columns) == 1 and column.parts[-1].lower().replace("_", "") in _PROCESSING_TIMES:
                return "current_timestamp()"
            ctx.fail(f"{scan.as_of.shown}: {no}", scan.as_of.place)
    return said


def _key_equalities(join: Join, versions: Versions, columns: tuple[Column, ...], ctx: Context) -> set[str]:
    """The columns of the key that ON compares with the left side."""
    left = ctx.names.sources(join.left)
    sources = (*left, *ctx.names.sources(join.right))
    shown = [ctx.names.fold(c.name) for c in sources[-1].columns or ()]
    found: set[str] = set()
    for conjunct in join.condition:
        try:
            comparison = compared(conjunct)
            if comparison is None or comparison.sign != "=":
                continue
            sides = {ctx.names.resolve(c, sources)[0] < len(left) for c in conjunct.columns}
            for end in comparison.operands:
                if sides == {True, False} and isinstance(end, exp.Column):
                    index, column = ctx.names.resolve(column_ref(end), sources)
                    if index == len(left) and ctx.names.fold(column.name) in shown:
                        found.add(columns[shown.index(ctx.names.fold(column.name))].name)
        except (Unsupported, Unresolved):
            continue
    return found & set(versions.key)
