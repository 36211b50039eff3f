"""Operators above the part of a DataFrame that is written as SQL: Spark runs them as they are, over the rewriting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dovetail.executor.dataframes.jvm_plan import PlanNode, frame_of
from dovetail.planner.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEPT = frozenset(
    (
        *("Project", "Filter", "Aggregate", "Window", "Generate", "Expand", "Sort", "Distinct", "Deduplicate"),
        *("Repartition", "RepartitionByExpression", "RebalancePartitions", "ResolvedHint", "SubqueryAlias", "View"),
        *("GlobalLimit", "LocalLimit", "Offset", "Tail", "Join", "Union", "Intersect", "Except", "Pivot", "Unpivot"),
        *("FlatMapGroupsInPandas", "FlatMapGroupsInArrow", "ArrowWindowPython", "WindowInPandas"),
    )
)


@dataclass(frozen=True)
class KeptOperators:
    """Operators from the outermost in, and the part of the plan below them."""

    session: SparkSession
    operators: tuple[PlanNode, ...]
    part: PlanNode

    def over(self, frame: DataFrame) -> DataFrame:
        """Put the operators over a DataFrame that has the rows and columns of the part."""
        plan, below = self._with_columns(frame, self.part), self.part
        for operator in reversed(self.operators):
            children = [plan if child is below else child.java for child in operator.children]
            plan, below = operator.java.withNewChildren(self._sequence(children)), operator
        return frame_of(self.session, plan)

    def _with_columns(self, frame: DataFrame, part: PlanNode) -> Any:
        """Give the columns of a DataFrame the IDs by which the operators know them."""
        catalyst: Any = self.session._jvm.org.apache.spark.sql.catalyst  # type: ignore[union-attr]
        fresh = frame.toDF(*(f"c{n}" for n in range(len(frame.columns))))._jdf.queryExecution().analyzed()
        some, none = self.session._jvm.scala.Some, self._sequence([])  # type: ignore[union-attr]
        new, old = fresh.output(), part.java.output()
        aliases = [
            catalyst.expressions.Alias(new.apply(n), a.name(), a.exprId(), a.qualifier(), some(a.metadata()), none)
            for n, a in ((n, old.apply(n)) for n in range(old.size()))
        ]
        return catalyst.plans.logical.Project(self._sequence(aliases), fresh)

    def _sequence(self, items: Sequence[Any]) -> Any:
        return self.session._jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(items))  # type: ignore[union-attr]


def keep_above(session: SparkSession, plan: PlanNode, part: PlanNode) -> KeptOperators:
    """Return the operators of a plan above a part of it.  Raises ``Refused`` for one that cannot stay.

    An operator stays if its rows depend on the rows below it only, and not on their order or place.
    """
    operators = _path(plan, part)
    is_sure = bool(plan.java.deterministic())  # of all operators, in one call
    for operator in operators:
        if operator.name not in _KEPT:
            raise Refused(f"the joins of the DataFrame are below {operator.name}, which is not written as SQL")
        if not is_sure and not _is_deterministic(operator):
            raise Refused(f"{operator.name} above the joins has other values in another plan, even with a seed")
    return KeptOperators(session, operators, part)


def _path(plan: PlanNode, part: PlanNode) -> tuple[PlanNode, ...]:
    """Return the operators from the top of a plan to the one above its part."""
    waiting: list[tuple[PlanNode, tuple[PlanNode, ...]]] = [(plan, ())]
    while waiting:
        node, above = waiting.pop()
        if node is part:
            return above
        waiting += [(child, (*above, node)) for child in node.children]
    raise AssertionError("the part is not of the plan")


def _is_deterministic(operator: PlanNode) -> bool:
    expressions = operator.java.expressions()
    return all(expressions.apply(n).deterministic() for n in range(expressions.size()))
