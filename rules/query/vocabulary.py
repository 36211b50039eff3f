"""What the names in a join's condition mean: their side, their type, one spelling for each."""

from typing import Literal

from sqlglot import exp

from planner.band.linear import NotABand, Side, Vocabulary
from planner.errors import Unsupported
from planner.expr import canonical as spelling
from planner.expr import column_ref, columns_in, sql
from planner.logical import BandJoin, Join
from planner.sql.names import Unresolved
from planner.types.schema import SqlType
from rules.context import Context


def vocabulary(join: Join | BandJoin, ctx: Context) -> Vocabulary:
    """The vocabulary of a condition over both sides of a join."""
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
        except (Unresolved, Unsupported) as no:
            raise NotABand(str(no)) from no

    def canonical(tree: exp.Expression) -> str:
        def named(node: exp.Expression) -> exp.Expression:
            if not isinstance(node, exp.Column):
                return node
            try:
                index, column = ctx.names.resolve(column_ref(node), sources)
            except Unresolved:
                return node
            return exp.column(".".join((ctx.names.fold(column.name), *column.field)), str(index), quoted=True)

        return spelling(tree.transform(named))

    settings = ctx.catalog.settings
    return Vocabulary(side, type_of, canonical, settings.ansi, settings.fixed_zone)
