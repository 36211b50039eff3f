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
from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import Scalar, is_reference
from dovetail.planner.logical import Logical, Nested, Scan
from dovetail.planner.logical.lookup import LookupJoin
from dovetail.planner.logical.lookup_spec import LookupSpec
from dovetail.planner.physical.lookup_join import LookupJoin as LookupPhysical
from dovetail.planner.physical.row_lookup_join import RowLookupJoin
from dovetail.rules.context import Context
from dovetail.rules.lookup.row_lookup import row_parts
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
