"""Which relations of a DataFrame read a table that another of its relations reads, too."""

from __future__ import annotations

from itertools import combinations

from dovetail.executor.dataframes.jvm_plan import PlanNode
from dovetail.executor.frame_sql.shape import PlanShape


class TablesReadAgain:
    """The relations of a plan, each with its table; ``any``: whether a table is read more than once."""

    def __init__(self, shape: PlanShape[PlanNode]) -> None:
        self._is_cached = shape.is_cached
        self._tables = [(relation, table) for relation in shape.relations() if (table := self._table_of(relation))]
        self.any = any(one.has_rows_of(other) for (_, one), (_, other) in combinations(self._tables, 2))

    def has_columns(self, node: PlanNode) -> bool:
        """Whether the columns of a table are written, since there is a table that is read again."""
        return self.any and self._table_of(node) is not None and not self._is_cached(node)

    def has_other_rows(self, node: PlanNode) -> bool:
        """Whether another relation reads other rows or columns of the table below a relation."""
        table = self._table_of(node)
        return table is not None and any(
            table.has_rows_of(other) and not node.has_rows_of(relation) for relation, other in self._tables
        )

    def _table_of(self, node: PlanNode) -> PlanNode | None:
        """The leaf below filters, columns and aggregates; None if there is another operator, or rows are cached."""
        while not self._is_cached(node):
            if not node.children:
                return node
            if node.kind not in ("alias", "filter", "aggregate", "select"):
                return None
            node = node.child
        return None
