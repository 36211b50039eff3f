"""Recognizes self-joins on a unique key: in ``t x JOIN t y ON x.id = y.id``, y is the same row as x."""

from __future__ import annotations

from dataclasses import replace

from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import Scalar, quote
from dovetail.planner.hints.blocks import names_of, read_hints
from dovetail.planner.logical import Join, Logical, Nested, Project
from dovetail.planner.logical.self_join import SameRowTest
from dovetail.planner.sql.to_sql import refuse_stars
from dovetail.planner.types.try_expressions import UnsafeSpeculation
from dovetail.rules.analysis.same_source import RelationLineage, rewrite_over_output
from dovetail.rules.context import Context
from dovetail.rules.query.char_columns import check_values
from dovetail.rules.query.correlation import check_not_correlated
from dovetail.rules.query.from_items import FromItems, read_from_items
from dovetail.rules.query.operands import as_operand, conjoined
from dovetail.rules.query.query_block import read_block, where
from dovetail.rules.query.tables import scans
from dovetail.rules.rule import rule
from dovetail.rules.self_join.removed_relations import RemovedRelation, RemovedRelations, Residual, raising_last
from dovetail.rules.self_join.row_tests import RowTest, row_test


@rule(Project)
def self_join_elimination(project: Project, ctx: Context) -> Logical | None:
    """Remove a self-join on a unique key, where each row matches only itself.

    The second relation becomes a LATERAL subquery that returns one row, which Spark plans as plain columns.  Its
    conditions move to WHERE, and the comparison of the keys becomes IS NOT NULL.  Behind LEFT JOIN, columns are
    NULL where the condition does not hold; of a semi or anti join, EXISTS or IN, only the condition stays.  Right
    and full joins stay, because they keep rows without a match.  (PostgreSQL 18 removes inner self-joins in the
    same way.)
    """
    block = read_block(project)
    if block is None:
        return None
    from_items = block.from_items
    tests: list[RowTest] = []
    for conjunct in block.condition:
        if test := row_test(conjunct, len(from_items.found) + len(tests)):
            tests.append(test)
    for from_item in from_items.found:
        _report_other_joins(from_item.relation, ctx)
    if not _reads_twice(from_items, tests, ctx):
        return None
    rows = RemovedRelations(from_items.found, tuple(tests), block.conjuncts, ctx)
    gone = rows.find(fixed=_has_stars(project))
    if not gone:
        return None
    try:
        check_not_correlated(ctx)
        _check_hint(project, rows, gone)
        check_values((g.from_item.relation for g in gone if g.row is not None), project, ctx)
        tree, condition = _rewritten(from_items, block.condition, rows, gone)
    except Refused as no:
        return ctx.decline(str(no), no.place, no.code)
    tested = ", ".join(g.description for g in gone if g.row is None)
    if tested:
        return block.over(SameRowTest(tree, condition or (Scalar("true"),), "WHERE", tested))
    return block.over(where(tree, condition))


def _reads_twice(from_items: FromItems, tests: list[RowTest], ctx: Context) -> bool:
    """Whether two relations read a table of one name; looks nothing up."""
    seen: set[str] = set()
    for relation in (*(s.relation for s in from_items.found), *(t.from_item.relation for t in tests)):
        own = {ctx.names.fold(scan.name[-1]) for scan in scans(relation, ctx.definitions)}
        if own & seen:
            return True
        seen |= own
    return False


def _report_other_joins(relation: Logical, ctx: Context) -> None:
    """Decline for a join that is looked at as a whole, and would pair each row with itself alone."""
    join = relation.child if isinstance(relation, Nested) and relation.alias is None else relation
    if not isinstance(join, Join):
        return
    condition = join.condition
    if join.using:
        names = [ctx.names.sources(side) for side in (join.left, join.right)]
        if any(len(n) != 1 or not n[0].names for n in names):
            return
        left, right = (".".join(map(quote, n[0].names)) for n in names)
        condition = tuple(Scalar(f"{left}.{quote(c)} = {right}.{quote(c)}") for c in join.using)
    from_items = read_from_items(replace(join, kind="inner", using=(), condition=condition))
    if _reads_twice(from_items, [], ctx) and RemovedRelations(from_items.found, (), from_items.conjuncts, ctx).find(
        fixed=True
    ):
        kept = f"a {join.kind} join keeps rows of its right side that have no match"
        using = "USING merges the columns that the rows are joined by; write ON"
        ctx.decline(using if join.using else kept, None, "using" if join.using else None)


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
        for source in () if one.from_item.number in rows.tests else rows.ctx.names.sources(one.from_item.relation):
            if source.names and source.names[-1].lower() in named:
                raise Refused(f"a hint names {source.names[-1]}, which the rewriting would remove")


def _rewritten(
    from_items: FromItems, condition: tuple[Scalar, ...], rows: RemovedRelations, gone: list[RemovedRelation]
) -> tuple[Logical, tuple[Scalar, ...]]:
    """Rebuild FROM and WHERE without the removed relations.  Raises ``Refused``, ``Unsupported``."""
    numbers = {g.from_item.number for g in gone}
    tests = {rows.tests[g.from_item.number].conjunct: g for g in gone if g.from_item.number in rows.tests}
    instead: dict[int, Logical | None] = {}
    for one in gone:
        if one.behind is not None:
            instead |= {one.from_item.number: one.behind.relation, one.behind.number: one.row}
        elif one.from_item.number not in rows.tests:
            instead[one.from_item.number] = one.row
    tree, moved = from_items.rebuilt(instead, lambda c: _own(c, rows))
    parts: list[Residual] = []
    for one in gone:
        if one.from_item.kind == "inner":
            parts += one.parts
        elif one.from_item.kind != "left" and one.from_item.number not in rows.tests:
            parts += _kept(one)
    for conjunct in (*condition, *moved):  # WHERE first, as Spark has it: it may keep ON from raising
        if conjunct in tests:
            parts += _kept(tests[conjunct])
        elif (new := _own(conjunct, rows)) is not None and (new is conjunct or Residual(new) not in parts):
            parts.append(Residual(new, new is conjunct and _risky(new, numbers, rows, must=new in moved)))
    alone = {s.number for s in from_items.found} <= numbers | {g.match for g in gone}
    may_raise = [p for p in (*parts, *(p for g in gone for p in g.parts)) if p.may_raise]
    if may_raise and not alone:
        raise UnsafeSpeculation(may_raise[0].scalar.shown)
    return tree, tuple(p.scalar for p in raising_last(tuple(parts)))


def _own(conjunct: Scalar, rows: RemovedRelations) -> Scalar | None:
    """A conjunct of an inner join or WHERE: that a value is not NULL, where it compares the value with itself."""
    e = rows.sight.equality(conjunct, (rows.sight.visible,))
    if e is None or e.left[1] != e.right[1] or not isinstance(e.left[0], int) or not isinstance(e.right[0], int):
        return conjunct
    first = rows.stands_for[e.left[0]]
    shown = rows.sight.reading(first)
    if e.left[0] == e.right[0] or first != rows.stands_for[e.right[0]] or not isinstance(shown, RelationLineage):
        return conjunct
    if not e.strict:
        return None
    return Scalar(
        f"{as_operand(rewrite_over_output(shown, rows.sight.path(first), e.left[1]))} IS NOT NULL", (), conjunct.place
    )


def _kept(one: RemovedRelation) -> list[Residual]:
    """Return the conditions of WHERE that replace a semi or anti join."""
    if one.from_item.kind == "semi":
        return list(one.parts)
    may_raise = any(p.may_raise for p in one.parts)
    return [Residual(Scalar(f"({conjoined([p.scalar for p in raising_last(one.parts)])}) IS NOT TRUE"), may_raise)]


def _risky(conjunct: Scalar, gone: set[int], rows: RemovedRelations, *, must: bool) -> bool:
    """Whether a conjunct compares a row with itself and might raise; ``must``: its names have to be known."""
    scopes = (rows.sight.visible,)
    try:
        named = rows.sight.relations_of(conjunct, scopes)
    except Refused:
        if must:
            raise
        return not conjunct.plans
    return len(named) > 1 and bool(named & gone) and rows.may_raise(conjunct, scopes)
