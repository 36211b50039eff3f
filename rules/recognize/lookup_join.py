"""Recognizes lookup joins: ``JOIN Customers FOR SYSTEM_TIME AS OF o.proc_time AS c ON o.customer_id = c.id``."""

from dovetail.planner.catalog.declared import LookupTable
from dovetail.planner.errors import UnknownName
from dovetail.planner.hints.blocks import names_of
from dovetail.planner.logical import Join, Logical, Scan
from dovetail.planner.logical.lookup import LookupJoin
from dovetail.planner.logical.relations import references_left
from dovetail.rules.context import Context
from dovetail.rules.lookup.lookup_keys import read_condition
from dovetail.rules.query.time_travel import is_now, is_processing_time
from dovetail.rules.rule import rule

_WRITE = "write FOR SYSTEM_TIME AS OF PROCTIME()"


@rule(Join, needs=("as_of",), streams="any")
def lookup_join(join: Join, ctx: Context) -> Logical | None:
    """Recognize a join with an external table that is looked up by key when a row is processed.

    The lookup keys are the columns of the table that ON compares with expressions over the left side.  Equalities
    with constants go to the fetch as well.  Rows that fail a condition on the left side alone are not looked up.
    The whole condition stays in the join, as written.  Plain Spark cannot read such a table, so a lookup join that
    cannot be planned is an error.
    """
    scan = join.right
    if not isinstance(scan, Scan) or (table := ctx.names.lookup(scan)) is None:
        return None
    place = scan.as_of.place if scan.as_of else None
    _check_kind(join, table, ctx)
    _check_time(join, scan, table, ctx)
    if references_left(join.left):
        ctx.fail(f"the left side of the lookup join with {table.name} is LATERAL; put it into a subquery", place)
    found = read_condition(join, table, ctx)
    return LookupJoin(
        join.left,
        scan,
        join.kind if join.kind != "cross" else "inner",
        join.keyword,
        join.condition,
        join.using,
        table.name,
        found.keys,
        found.constants,
        found.only,
    )


def _check_kind(join: Join, table: LookupTable, ctx: Context) -> None:
    assert isinstance(join.right, Scan)
    place = join.right.as_of.place if join.right.as_of else None
    if join.kind in ("right", "full"):
        ctx.fail(
            f"a {join.kind.upper()} JOIN would need every row of {table.name}, which is fetched by key only; "
            "write JOIN or LEFT JOIN",
            place,
        )
    if join.natural:
        ctx.fail(f"a NATURAL lookup join hides its keys; write ON … = {join.right.alias}.…", place)


def _check_time(join: Join, scan: Scan, table: LookupTable, ctx: Context) -> None:
    """Fail unless the join reads the table as of PROCTIME()."""
    assert scan.as_of is not None
    time, place = scan.as_of.shown, scan.as_of.place
    if is_now(scan.as_of):
        return
    column = names_of(scan.as_of)
    if not column:
        ctx.fail(f"{table.name} is a lookup and knows only its present rows, not those as of {time}; {_WRITE}", place)
    scope = ctx.scope(join.left)
    if not any(source.is_named(ctx.names.folded(column[-2:-1])) for source in scope.sources):
        ctx.fail(f"{time}: {column[-2]} is not a relation to the left of {table.name}; {_WRITE}", place)
    if is_processing_time(column[-1]):
        return
    try:
        found = scope.column(scan.as_of.columns[0]).column
    except UnknownName:
        ctx.fail(f"{time} is not a known time; {_WRITE}, or name the column proc_time", place)
    type_ = f" ({found.type})" if found.type else ""
    ctx.fail(
        f"{time}{type_} is a time in the data, and {table.name}, a lookup, has only its present rows; {_WRITE}",
        place,
    )
