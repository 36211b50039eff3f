"""Recognizes self-joins on a unique key: in ``t x JOIN t y ON x.id = y.id``, y is the same row as x."""

from __future__ import annotations

from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import Scalar
from dovetail.planner.hints.blocks import names_of, read_hints
from dovetail.planner.logical import Logical, Project
from dovetail.planner.sql.to_sql import refuse_stars
from dovetail.planner.types.try_expressions import UnsafeSpeculation
from dovetail.rules.analysis.same_source import RelationLineage, rewrite_over_output
from dovetail.rules.context import Context
from dovetail.rules.query.char_columns import check_values
from dovetail.rules.query.from_items import FromItems
from dovetail.rules.query.operands import as_operand
from dovetail.rules.query.query_block import QueryBlock, where
from dovetail.rules.query.tables import scans
from dovetail.rules.rule import rule
from dovetail.rules.self_join.removed_relations import RemovedRelation, RemovedRelations, Residual, raising_last


@rule(Project, block=True, needs=("self_join",))
def self_join_elimination(block: QueryBlock, ctx: Context) -> Logical | None:
    """Remove a self-join on a unique key, where each row matches only itself.

    The second relation becomes a LATERAL subquery that returns one row, which Spark plans as plain columns.  Its
    conditions move to WHERE, and the comparison of the keys becomes IS NOT NULL.  Behind LEFT JOIN, columns are
    NULL where the condition does not hold.  Other joins stay.  (PostgreSQL 18 removes inner self-joins the same way.)
    """
    project, from_items = block.project, block.from_items
    if not _reads_twice(from_items, ctx):
        return None
    rows = RemovedRelations(from_items.found, block.conjuncts, ctx)
    gone = rows.find(fixed=_has_stars(project))
    if not gone:
        return None
    try:
        ctx.check_not_correlated()
        _check_hint(project, rows, gone)
        check_values((g.from_item.relation for g in gone), project, ctx)
        tree, condition = _rewritten(from_items, block.condition, rows, gone)
    except Refused as no:
        return ctx.decline(str(no), no.place, no.code)
    return block.over(where(tree, condition))


def _reads_twice(from_items: FromItems, ctx: Context) -> bool:
    """Whether two relations read a table of one name; looks nothing up."""
    seen: set[str] = set()
    for item in from_items.found:
        own = set(ctx.names.folded(scan.name[-1] for scan in scans(item.relation, ctx.definitions)))
        if own & seen:
            return True
        seen |= own
    return False


def _has_stars(project: Project) -> bool:
    """Whether an item returns the relations in the order of FROM."""
    try:
        for item in project.items:
            refuse_stars(item)
    except Unsupported:
        return True
    return False


def _check_hint(project: Project, rows: RemovedRelations, gone: list[RemovedRelation]) -> None:
    """Raise ``Refused`` where a hint of the SELECT names a relation that would not be joined."""
    named = {names[-1].lower() for h in read_hints(project.hint) for a in h.arguments if (names := names_of(a))}
    for one in gone:
        for source in rows.ctx.names.sources(one.from_item.relation):
            if source.names and source.names[-1].lower() in named:
                raise Refused(f"a hint names {source.names[-1]}, which the rewriting would remove")


def _rewritten(
    from_items: FromItems, condition: tuple[Scalar, ...], rows: RemovedRelations, gone: list[RemovedRelation]
) -> tuple[Logical, tuple[Scalar, ...]]:
    """Rebuild FROM and WHERE without the removed relations.  Raises ``Refused``, ``Unsupported``."""
    numbers = {g.from_item.number for g in gone}
    instead: dict[int, Logical] = {}
    for one in gone:
        if one.behind is not None:
            instead |= {one.from_item.number: one.behind.relation, one.behind.number: one.row}
        else:
            instead[one.from_item.number] = one.row
    tree, moved = from_items.rebuilt(instead, lambda c: _own(c, rows))
    parts: list[Residual] = []
    for one in gone:
        if one.from_item.kind == "inner":
            parts += one.parts
    for conjunct in (*condition, *moved):  # WHERE first, as Spark has it: it may keep ON from raising
        if (new := _own(conjunct, rows)) is not None and (new is conjunct or Residual(new) not in parts):
            parts.append(Residual(new, new is conjunct and _risky(new, numbers, rows, must=new in moved)))
    alone = {s.number for s in from_items.found} <= numbers | {g.match for g in gone}
    may_raise = [p for p in (*parts, *(p for g in gone for p in g.parts)) if p.may_raise]
    if may_raise and not alone:
        raise UnsafeSpeculation(may_raise[0].scalar.shown)
    return tree, tuple(p.scalar for p in raising_last(tuple(parts)))


def _own(conjunct: Scalar, rows: RemovedRelations) -> Scalar | None:
    """A conjunct of an inner join or WHERE: that a value is not NULL, where it compares the value with itself."""
    e = rows.reader.equality(conjunct, rows.reader.visible)
    if e is None or e.left[1] != e.right[1] or not isinstance(e.left[0], int) or not isinstance(e.right[0], int):
        return conjunct
    first = rows.stands_for[e.left[0]]
    shown = rows.reader.reading(first)
    if e.left[0] == e.right[0] or first != rows.stands_for[e.right[0]] or not isinstance(shown, RelationLineage):
        return conjunct
    if not e.strict:
        return None
    return Scalar(
        f"{as_operand(rewrite_over_output(shown, rows.reader.path(first), e.left[1]))} IS NOT NULL", (), conjunct.place
    )


def _risky(conjunct: Scalar, gone: set[int], rows: RemovedRelations, *, must: bool) -> bool:
    """Whether a conjunct compares a row with itself and might raise; ``must``: its names have to be known."""
    visible = rows.reader.visible
    try:
        named = visible.bind(conjunct).items
    except Refused:
        if must:
            raise
        return not conjunct.plans
    return len(named) > 1 and bool(named & gone) and rows.may_raise(conjunct, visible)
