"""Chooses how a lookup join fetches: by the keys of each task, by keys hashed over tasks, or by splits of the table."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import fields
from math import sqrt
from typing import Any

from dovetail.planner.bind.from_columns import from_columns
from dovetail.planner.catalog.cost import KEY_SAMPLE
from dovetail.planner.catalog.declared import LookupTable
from dovetail.planner.errors import NoSuchColumn, Place, Refused, UnknownName, Unsupported
from dovetail.planner.expr import ColumnRef, Scalar, is_reference, quote
from dovetail.planner.expr.references import replace_references
from dovetail.planner.logical import Logical, Nested, Scan
from dovetail.planner.logical.lookup import LookupJoin
from dovetail.planner.logical.lookup_spec import LookupSpec
from dovetail.planner.logical.versions import VersionedTable
from dovetail.planner.physical.lookup_join import LookupJoin as LookupPhysical
from dovetail.planner.physical.row_lookup_join import FOUND, RowLookupJoin
from dovetail.rules.context import Context
from dovetail.rules.query.tables import scans
from dovetail.rules.rule import rule


@rule(LookupJoin, streams="any")
def lower_lookup_join(join: LookupJoin, ctx: Context) -> LookupPhysical:
    """Fetch the rows for the keys of the left side, and let Spark join with them.

    A hint may put equal keys into one task.  A table that is small, or of which most rows are needed, is read
    whole, a share in each task, where its source can do that.
    """
    table = ctx.names.lookup(join.scan)
    assert table is not None
    known = {f.name for f in fields(LookupSpec)}
    options: dict[str, Any] = {name: value for name, value in join.options if name in known}
    if options.get("shuffle") and (reason := _changes(join, ctx)):
        place = join.scan.as_of.place if join.scan.as_of else None
        ctx.decline(f"{' and '.join(join.hints)}: {reason}", place)
        ctx.warn(f"{' and '.join(join.hints)}: rows are not distributed by key, since some are updates", place)
        del options["shuffle"]
        options.pop("skew", None)
    why = _once(join, ctx)
    full = not join.hints and not why and _read_whole(join, table, ctx)
    spec = LookupSpec(
        table=join.table,
        keys=tuple(k.column for k in join.keys),
        columns=tuple(c.name for c in table.columns),
        constants=join.constants,
        full_load=full,
        in_spark=table.in_spark,
        **options,
    )
    parts = (join.left, join.right, join.kind, join.keyword, join.condition, join.using, join.keys, join.only, spec)
    if why:
        rows, matched = row_parts(join, why, ctx)
        return RowLookupJoin(*parts, why=why, rows=rows, matched=matched)
    return LookupPhysical(*parts, skip=_skipped(join, ctx))


def _once(join: LookupJoin, ctx: Context) -> str:
    """Why the left side can be read only once, so that its rows must go to Python with their keys; or nothing."""
    why = ctx.nonrepeatable_reason(_base(join.left)) or ""
    return "it is a stream" if why.startswith("Streaming") else why


def _skipped(join: LookupJoin, ctx: Context) -> int:
    """How many lookup joins on top of the left side bring nothing that the keys need."""
    skipped, left = 0, join.left
    while isinstance(left, LookupJoin):
        try:
            below = from_columns(ctx.names, left.left).sources
            for scalar in (*(k.value for k in join.keys), *join.only):
                for column in scalar.columns:
                    ctx.names.resolve(column, below)
        except Refused:
            return skipped
        skipped, left = skipped + 1, left.left
    return skipped


def _changes(join: LookupJoin, ctx: Context) -> str | None:
    """Why rows must not be moved to their keys: the changes of one row would go to different tasks (FLIP-204)."""
    for scan in scans(join.left, ctx.definitions):
        change = ctx.catalog.declaration(scan.name).changelog
        if change is None or change.insert_only or scan.cte:
            continue
        keys = [_column_of(k.value, scan, join, ctx) for k in join.keys]
        if not set(keys) <= set(ctx.names.folded(change.key)):
            return (
                f"{scan.text} is a changelog, and its key ({', '.join(change.key)}) does not hold the lookup keys "
                f"({', '.join(k.value.shown for k in join.keys)}): changes of one row would go to different tasks"
            )
    return None


def _column_of(value: Scalar, scan: Scan, join: LookupJoin, ctx: Context) -> str | None:
    """The name, folded, of the column of a table that a key is, or has a field of; None for anything else."""
    scope = ctx.scope(join.left)
    found = scope.find(value.tree) if value.known is not None and is_reference(value.tree) else None
    return found.name if found and scope.source(found) == ctx.names.sources(scan)[0] else None


def _base(left: Logical) -> Logical:
    """The left side without the lookups on top of it, which an estimate knows nothing about."""
    while isinstance(left, LookupJoin) or (isinstance(left, Nested) and not left.alias):
        left = left.left if isinstance(left, LookupJoin) else left.child
    return left


def _read_whole(join: LookupJoin, table: LookupTable, ctx: Context) -> bool:
    """Whether reading shares of the table is cheaper than asking by key."""
    if not table.scans or table.rows is None:
        return False
    keys = _keys(join, ctx)
    few = table.rows <= ctx.thresholds.lookup_full_rows
    most = keys is not None and table.rows <= ctx.thresholds.lookup_rows_per_key * keys
    amount = "an unknown number of" if keys is None else f"about {keys:,.0f}"
    ways = f"read the {table.rows:,} rows of {table.name} whole, by shares", f"ask {table.name} for {amount} keys"
    ctx.choose(*(ways if few or most else ways[::-1]))
    return few or most


def _keys(join: LookupJoin, ctx: Context) -> float | None:
    """About how many distinct keys the left side has; without a sample of them, a tenth of its rows; or unknown.

    From a sample in which f keys occur once, the whole is taken to have √(N/n) for each of these, and the others once:
    the guaranteed-error estimator of Charikar, Chaudhuri, Motwani and Narasayya (2000).
    """
    left = _base(join.left)
    statistics = ctx.statistics(left)
    if statistics.rows is None:
        return None
    known = " AND ".join(f"({k.value.text}) IS NOT NULL" for k in join.keys)
    values = ", ".join(k.value.text for k in join.keys)
    found = None
    if statistics.plain:
        with suppress(Unsupported):
            found = ctx.sample(left, f"CASE WHEN {known} THEN xxhash64({values}) END", KEY_SAMPLE)
    if not found:
        return statistics.rows / 10
    times = Counter(value for value in found if value is not None)
    once = sum(count == 1 for count in times.values())
    return min(sqrt(max(statistics.rows / len(found), 1)) * once + len(times) - once, statistics.rows)


Rows = tuple[tuple[str, tuple[str, ...]], ...]


def row_parts(join: LookupJoin, why: str, ctx: Context) -> tuple[Rows, tuple[Scalar, ...]]:
    """The relations of the left side with their columns, and the condition over ``FOUND``.

    Raises ``QueryError`` where the columns are not known or merged, or the condition cannot be moved.
    """
    place = join.scan.as_of.place if join.scan.as_of else None
    _check_names(join, why, place, ctx)
    try:
        both, left = from_columns(ctx.names, join), _rows(join.left, ctx)
    except UnknownName as no:
        ctx.fail(f"{no}, and the left side can be read only once ({why})", place)
    if both.merged:
        ctx.fail(f"USING or NATURAL merges columns, and the left side can be read only once ({why}); write ON", place)
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


def _rows(left: Logical, ctx: Context) -> Rows:
    ends = {node.validity.hidden for node in left.walk() if isinstance(node, VersionedTable)}
    pairs = ((source.names[-1:], source.known_columns()) for source in ctx.names.sources(left))
    return tuple((name, tuple(c.name for c in columns)) for (name,), columns in pairs if name not in ends)


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
