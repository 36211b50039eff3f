"""Recognize band joins: ``p.x BETWEEN i.lo AND i.hi``, ``c.ts BETWEEN v.ts AND v.ts + INTERVAL 10 MINUTES``."""

from typing import Literal

from sqlglot import exp

from planner.band import is_or_of_comparisons, looks_like_band, read_bands
from planner.errors import NotCarried
from planner.expr import column_ref, columns_in, sql
from planner.linear import NotABand, Side, Vocabulary
from planner.logical import BandJoin, Join, Logical
from planner.names import Unresolved
from planner.schema import SqlType
from rules.correlation import correlated, leans_on_left
from rules.rule import Context, rule


@rule(Join)
def band_join(join: Join, ctx: Context) -> Logical | None:
    """Name a join whose condition keeps a value of one side between two values of the other.

    Spark plans such a join by its equality keys alone, or as a nested loop when it has none.  Once the band has a name,
    lowering can cut it into bins.  This rule chooses nothing, and the condition stays whole, as written: the join
    means exactly what it meant before.
    """
    candidates = [c for c in join.condition if looks_like_band(c)]
    for conjunct in join.condition:
        if is_or_of_comparisons(conjunct):
            ctx.decline(f"{conjunct.shown}: it is an OR; bins can follow only what must always hold", conjunct.place)
    if not candidates:
        return None
    place = candidates[0].place
    if leans_on_left(join.right):
        return ctx.decline("the right side is LATERAL: it is made anew for each left row", place)
    if any(correlated(query, ctx.names) for query in ctx.enclosing):
        return ctx.decline("it stands in a subquery that names columns of the query around it", place)
    bands, refusals = read_bands(join.condition, _vocabulary(join, ctx))
    if not bands:
        for no in refusals:
            ctx.decline(no.reason, no.place)
        return None
    return BandJoin(join.left, join.right, join.kind, bands[0], join.condition)


def _vocabulary(join: Join, ctx: Context) -> Vocabulary:
    left = ctx.names.sources(join.left)
    sources, middle = left + ctx.names.sources(join.right), len(left)
    both = Join(join.left, join.right, "cross", "CROSS JOIN")  # ON of a semi join sees both sides, too

    def side(tree: exp.Expression) -> Side | Literal["both"] | None:
        found: set[Side] = set()
        for column in columns_in(tree):
            try:
                index, _ = ctx.names.resolve(column_ref(column), sources)
            except Unresolved as no:
                raise NotABand(str(no)) from no
            found.add("left" if index < middle else "right")
        return "both" if len(found) > 1 else next(iter(found), None)

    def type_of(tree: exp.Expression) -> SqlType | None:
        try:
            return ctx.names.type_of(tree, sources) or ctx.type_of(sql(tree), both)
        except (Unresolved, NotCarried) as no:
            raise NotABand(str(no)) from no

    def canonical(tree: exp.Expression) -> str:
        def named(node: exp.Expression) -> exp.Expression:
            if not isinstance(node, exp.Column):
                return node
            try:
                index, column = ctx.names.resolve(column_ref(node), sources)
            except Unresolved:
                return node
            rest = node.parts[-1].name if ctx.names.fold(node.parts[-1].name) != ctx.names.fold(column.name) else ""
            return exp.column(".".join((ctx.names.fold(column.name), rest)), str(index), quoted=True)

        return sql(tree.transform(named))

    settings = ctx.catalog.settings
    return Vocabulary(side, type_of, canonical, settings.ansi, settings.fixed_zone)
