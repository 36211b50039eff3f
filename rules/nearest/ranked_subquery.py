"""Rankings of the rows of a subquery that joins.

SELECT *, row_number() OVER (PARTITION BY id ORDER BY d) AS n FROM (SELECT t.id, abs(t.x - q.x) AS d FROM t JOIN q …)
WHERE d < 5
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.planner.bind.scope import Scope
from dovetail.planner.expr import Scalar
from dovetail.planner.expr.ranking import Ranking
from dovetail.planner.logical import Join, Logical, Scan
from dovetail.rules.context import Context
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.query.definitions import definition_of
from dovetail.rules.query.from_items import INNER, read_from_items
from dovetail.rules.query.query_block import QueryBlock, read_block
from dovetail.rules.query.subquery_columns import columns_inside, expression_inside


@dataclass(frozen=True)
class RankedSubquery:
    """The subquery of which a block ranks the rows, its block, and the ranking over the relations inside it.

    ``scope`` and ``columns``: the columns that the subquery shows, and the expressions inside it that they are.
    """

    relation: Logical
    block: QueryBlock
    ranking: Ranking
    scope: Scope
    columns: dict[str, str]

    def conditions(self, condition: tuple[Scalar, ...], ctx: Context) -> tuple[Scalar, ...]:
        """Conditions on the rows of the subquery over the relations inside it.

        Raises ``Refused`` for one that cannot be written so.
        """
        for conjunct in condition:
            check_deterministic(conjunct, lambda tree: ctx.volatile_call(tree, self.relation))
        return tuple(expression_inside(conjunct, self.scope, self.columns) for conjunct in condition)


def ranked_subquery(block: QueryBlock, ranking: Ranking, ctx: Context) -> RankedSubquery | None:
    """The subquery of a block that reads nothing else; None where the block or the subquery does more.

    Raises ``Refused`` where the ranking cannot be written over the relations inside.
    """
    relation, *others = read_from_items(block.tree, INNER).relations
    if others:
        return None
    query = definition_of(relation, ctx)
    inner = None if query is None else read_block(query)
    if inner is None or not inner.is_plain or not isinstance(inner.tree, Join):
        return None
    for item in inner.project.items:
        check_deterministic(item, lambda tree: ctx.volatile_call(tree, inner.tree))
    if isinstance(relation, Scan) and ctx.nonrepeatable_reason(inner.tree):
        return None  # other readers of the name would see other rows
    scope = ctx.scope(block.tree)
    if len(scope.sources) != 1:
        return None
    columns = columns_inside(inner, scope.sources[0], ctx, computed=True)
    partition = tuple(expression_inside(part, scope, columns) for part in ranking.partition)
    order = tuple(replace(key, expression=expression_inside(key.expression, scope, columns)) for key in ranking.order)
    return RankedSubquery(relation, inner, replace(ranking, partition=partition, order=order), scope, columns)
