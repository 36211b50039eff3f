"""Turns LATERAL into a join: ``FROM p, LATERAL (SELECT i.lo, i.hi FROM i WHERE p.x BETWEEN i.lo AND i.hi) t``.

Where the subquery does not return what its conditions compare, its rows are joined under a name that no ``*`` shows:

LATERAL (SELECT i.w FROM i WHERE p.x BETWEEN i.lo AND i.hi) t
→
JOIN (SELECT named_struct('c0', i.w) AS row, i.lo AS k0, i.hi AS k1 FROM i) h ON p.x BETWEEN h.k0 AND h.k1,
LATERAL (SELECT h.row.c0 AS w) t
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from dovetail.planner.bind.scope import BoundColumn, Scope
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, is_star, quote
from dovetail.planner.expr.substitution import without_alias
from dovetail.planner.logical import JOIN_KEYWORDS, Derived, Join, JoinKind, Logical, OneRow, Project
from dovetail.planner.logical.relations import alias_clause, subquery_as
from dovetail.planner.logical.self_join import HiddenRows
from dovetail.planner.types.schema import Column
from dovetail.rules.context import Context
from dovetail.rules.query.char_columns import check_aliases, check_value
from dovetail.rules.query.decorrelation import (
    check_deterministic,
    check_inner,
    has_band_or_keys,
    may_have_band_or_keys,
    more_than_a_block,
    why_not_rows,
)
from dovetail.rules.query.query_block import QueryBlock, read_block, where
from dovetail.rules.query.star_columns import expand_items
from dovetail.rules.rule import rule


@rule(Join, needs=("subquery",), streams="one")
def lateral_to_join(join: Join, ctx: Context) -> Logical | None:
    """Turn a LATERAL subquery that filters by the left row into a join.

    Spark does this as well, but later; the rules need to see the band or the keys between the two sides now.  A
    subquery without a possible band and keys is left as it is.
    (Decorrelation: Galindo-Legaria and Joshi, "Orthogonal Optimization of Subqueries and Aggregation", SIGMOD
    2001.)
    """
    right = join.right
    if not isinstance(right, Derived) or not right.lateral or join.kind not in ("inner", "cross", "left"):
        return None
    block = read_block(right.query)
    if not block or join.using or join.natural or not has_band_or_keys((*block.condition, *join.condition)):
        return None
    if block.is_plain and block.is_aggregated:
        return None  # correlated_groups
    place = next(c.place for c in (*block.condition, *join.condition) if may_have_band_or_keys(c))
    try:
        return _Lateral(join, right, block, ctx).as_join()
    except Refused as no:
        return ctx.decline(f"LATERAL stays a subquery: {no}", place)


class _Lateral:
    """A join with a LATERAL subquery that only filters.  Making it raises ``Refused`` where the subquery does more.

    ``rows``: those of the subquery that its own conditions leave; ``across``: its conditions on both sides of the join.
    """

    def __init__(self, join: Join, right: Derived, block: QueryBlock, ctx: Context):
        if block.clauses:
            raise Refused(more_than_a_block(block.clauses[0]))
        if block.project.hint or block.project.quantifier:
            raise Refused("the subquery has a hint, DISTINCT or ALL of its own")
        check_inner(block.tree, ctx.names)
        self.join, self.right, self.block, self.ctx = join, right, block, ctx
        self.kind: JoinKind = "left" if join.kind == "left" else "inner"
        self.outer = ctx.scope(join.left)
        self.inner = ctx.scope(block.tree, outer=self.outer)
        for conjunct in block.condition:
            check_deterministic(conjunct)
        self.across = tuple(c for c in block.condition if not self.inner.bind(c).levels <= {0})
        self.rows = where(block.tree, tuple(c for c in block.condition if c not in self.across))

    def as_join(self) -> Join:
        """A join with the subquery, no longer LATERAL."""
        join, inner = self.join, self.inner
        alone = replace(self.right, query=replace(self.block.project, child=self.rows), lateral=False)
        made = [m for item in self.block.project.items for m in _made(item, self.block.tree, inner)]
        after = self.ctx.scope(join.left, alone)
        columns = after.sources[-1].known_columns(len(made))
        shown = {m: column.name for m, column in zip(made, columns, strict=True) if m}
        compared = {(c.relation, c.column) for one in self.across for c in inner.bind(one).columns if not c.level}
        if compared - {*shown} or any(_reads_outer(item, inner) for item in self.block.project.items):
            return self._hidden_join(after, [column.name for column in columns])

        def beside(origin: BoundColumn) -> tuple[tuple[int, int], str]:
            if origin.level:
                return (0, origin.relation), origin.column.name
            return (0, len(self.outer.sources)), shown[origin.relation, origin.column]

        condition = (*join.condition, *(inner.bind(c).rebind(after, beside) for c in self.across))
        keyword = join.keyword if join.kind == self.kind else JOIN_KEYWORDS["inner"]
        return Join(join.left, alone, self.kind, keyword, condition)

    def _hidden_join(self, after: Scope, names: list[str]) -> Join:
        """A join with the rows of the subquery under a name that no ``*`` shows, behind it the columns it shows.

        Those come from a struct, which is NULL where a left join finds no row, and keeps comments and lengths of CHAR.
        ``after``: the scope of ON, where the subquery is the last relation.
        """
        ctx, hidden = self.ctx, self.ctx.fresh("rows")
        items = expand_items(self.block.project.items, self.block.tree, ctx.names)
        if any(_reads_outer(item, self.inner) for item in items):
            check_aliases(items, ctx.names)
        keys: dict[str, str] = {}

        def key(text: str) -> str:
            return f"{hidden}.{keys.setdefault(text, f'{hidden}_k{len(keys)}')}"

        def beside(column: BoundColumn) -> str | None:
            return None if column.level else key(column.ref.text)

        across = tuple(self.inner.bind(conjunct).substitute(beside) for conjunct in self.across)
        condition = (*self._tests(after, dict(zip(names, items, strict=True)), key), *across)
        found, fields, shown = f"{hidden}.{hidden}_row", [], []
        for n, (item, name) in enumerate(zip(items, names, strict=True)):
            value = f"{found}.c{n}"
            if not _reads_outer(item, self.inner):
                fields.append(f"'c{n}', {without_alias(item).text}")
            else:
                for column in self.inner.bind(item).columns:
                    check_value(column.column)
                value = self.inner.bind(without_alias(item)).substitute(beside).text
                value = f"CASE WHEN {found} IS NOT NULL THEN {value} END" if self.kind == "left" else value
            shown.append(Scalar(f"{value} AS {quote(name)}"))
        ctx.written |= {f"{hidden}.{name}": text for text, name in keys.items()}
        row = ", ".join(fields) or "'found', true"
        compared = (Scalar(f"{text} AS {name}") for text, name in keys.items())
        query = Project(self.rows, (Scalar(f"named_struct({row}) AS {hidden}_row"), *compared))
        relation = HiddenRows(query, hidden, (), alias_clause(hidden))
        below = Join(self.join.left, relation, self.kind, JOIN_KEYWORDS[self.kind], condition)
        lateral = replace(subquery_as(Project(OneRow(), tuple(shown)), self.right.alias or ""), lateral=True)
        return Join(below, lateral, "cross", JOIN_KEYWORDS["cross"])

    def _tests(self, after: Scope, items: dict[str, Scalar], key: Callable[[str], str]) -> tuple[Scalar, ...]:
        """The conditions of ON, with ``key`` of an item in the place of each column of the subquery."""
        on = tuple(c for c in self.join.condition if not isinstance(c.tree, exp.Boolean) or not c.tree.this)
        if on and self.kind == "left":
            raise Refused("ON tests rows of the subquery; move the condition into its WHERE", on[0].place)

        def tested(column: BoundColumn) -> str | None:
            if column.relation < len(after.sources) - 1:
                return None
            one = items[column.check_no_field().column.name]
            if _reads_outer(one, self.inner):
                raise Refused(f"ON tests {one.shown}, which is of both rows; move the condition into WHERE", one.place)
            return key(without_alias(one).text)

        return tuple(after.bind(conjunct).substitute(tested) for conjunct in on)


def _reads_outer(item: Scalar, scope: Scope) -> bool:
    """Whether an item of a subquery reads columns of the query around it."""
    return not is_star(item.tree.unalias()) and bool(scope.bind(item).levels - {0})


def _made(item: Scalar, tree: Logical, scope: Scope) -> list[tuple[int, Column] | None]:
    """For each column that an item of the select list makes, the column that it is; None for one that is computed."""
    if why := why_not_rows((item,)):
        raise Refused(why)
    bare = item.tree.unalias()
    if is_star(bare):
        return list(scope.names.expand_star(bare, scope.sources, tree))
    if _reads_outer(item, scope) or not isinstance(bare, exp.Column):
        return [None]
    column = scope.column(bare)
    return [(column.relation, column.column)]
