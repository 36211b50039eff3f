"""The shape of a DataFrame's plan: which joins are written as SQL, and which relations read a table again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from dovetail.executor.dataframes.jvm_plan import PlanNode
from dovetail.executor.dataframes.kept_operators import frame_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRANSPARENT = ("SubqueryAlias", "View")
LIMITS = ("GlobalLimit", "LocalLimit")
SET_OPERATIONS = {"Union": "UNION ALL", "Except": "EXCEPT", "Intersect": "INTERSECT"}
_ABOVE_JOINS = (
    *TRANSPARENT,
    *LIMITS,
    "Project",
    "Filter",
    "Aggregate",
    "Sort",
    "Distinct",
    "Deduplicate",
    "Window",
    *SET_OPERATIONS,
)


class PlanShape:
    """What the operators of an analyzed plan are for its statement; and of its relations.

    ``refused_at``: the operator that has the joins below it, and is not written as SQL.
    """

    def __init__(self, session: SparkSession, plan: PlanNode) -> None:
        self.session, self.plan = session, plan
        self.refused_at: PlanNode | None = None
        self._joins: dict[PlanNode, bool] = {}
        self._has_cached = not session._jsparkSession.sharedState().cacheManager().isEmpty()
        self._tables: list[tuple[PlanNode, PlanNode]] = []  # relations, with the table that each reads
        self.reads_a_table_again = False

    def find_tables(self) -> None:
        """Note which tables the relations read; only then is known which are read again."""
        self._tables = [(r, table) for r in self._relations(self.plan) if (table := self._table_of(r))]
        pairs = combinations((table.java for _, table in self._tables), 2)
        self.reads_a_table_again = any(one.sameResult(other) for one, other in pairs)

    def has_join(self, node: PlanNode) -> bool:
        """Whether there is a join that is written as such."""
        if node not in self._joins:
            above = node.name in _ABOVE_JOINS and not self.is_cached(node) and not _sorts_partitions(node)
            here = node.name == "Join" and not self.is_cached(node)
            self._joins[node] = here or (above and any(map(self.has_join, node.children)))
        return self._joins[node]

    def depth(self, node: PlanNode) -> int:
        """Return how many operators with a join below them follow each other."""
        deepest = max((self.depth(child) for child in node.children if self.has_join(child)), default=0)
        return deepest + (node.name not in TRANSPARENT)

    def is_cached(self, node: PlanNode) -> bool:
        """Whether Spark has the rows of an operator already."""
        if not self._has_cached or node.name in TRANSPARENT:
            return False
        level = frame_of(self.session, node.java).storageLevel
        return bool(level.useMemory or level.useDisk or level.useOffHeap)

    def without_join(self, node: PlanNode) -> str:
        """Return why a plan has no join that is written as such."""
        while not self.is_cached(node) and not _sorts_partitions(node):
            below = next((child for child in node.children if child.contains("Join")), None)
            if node.name not in _ABOVE_JOINS or below is None:
                break
            node = below
        if not node.contains("Join"):
            return "the plan of the DataFrame has no join"
        if self.is_cached(node):
            return "the joins of the DataFrame are cached, so Spark has their rows already"
        self.refused_at = node
        return f"the joins of the DataFrame are below {node.name}, which is not written as SQL"

    def below_refused(self) -> PlanNode | None:
        """Return the part below what was refused; if nothing was, the highest join.  None if there is no such part."""
        if self.refused_at:
            return next((child for child in self.refused_at.children if child.contains("Join")), None)
        return self._highest_join(self.plan) if self.has_join(self.plan) else None  # else the rows are cached

    def _highest_join(self, node: PlanNode) -> PlanNode | None:
        while node.name != "Join":
            below = next((child for child in node.children if self.has_join(child)), None)
            if below is None:
                return None
            node = below
        return node

    def _relations(self, node: PlanNode) -> Iterator[PlanNode]:
        """The largest parts of a plan that have no join."""
        if self.has_join(node):
            for child in node.children:
                yield from self._relations(child)
        else:
            yield node

    def _table_of(self, node: PlanNode) -> PlanNode | None:
        """The leaf below filters, columns and aggregates; None if there is another operator, or rows are cached."""
        while not self.is_cached(node):
            if not node.children:
                return node
            if node.name not in (*TRANSPARENT, "Filter", "Aggregate", "Project"):
                return None
            node = node.child
        return None

    def renames_again(self, node: PlanNode) -> bool:
        """Whether a select list over a table is written, since another relation reads the table, too."""
        return self.reads_a_table_again and self._table_of(node) is not None and not self.is_cached(node)

    def is_read_again(self, node: PlanNode) -> bool:
        """Whether another relation of the DataFrame reads other rows or columns of the table below a relation."""
        table = self._table_of(node)
        return table is not None and any(
            table.java.sameResult(other.java) and not node.java.sameResult(relation.java)
            for relation, other in self._tables
        )


def below_aliases(node: PlanNode) -> PlanNode:
    """Return the first operator that is more than a name."""
    while node.name in TRANSPARENT:
        node = node.child
    return node


def _sorts_partitions(node: PlanNode) -> bool:
    return node.name == "Sort" and not getattr(node.java, "global")()  # Python has no such name
