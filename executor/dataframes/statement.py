"""A DataFrame, or the part with its joins, as a statement, with its proof: Spark optimizes both to the same plan.

Operators above the part that is written as SQL stay: Spark runs them as they are, over the rewriting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from dovetail.executor.connect.statement import write_connect_frame
from dovetail.executor.dataframes.jvm_plan import PlanNode, frame_of
from dovetail.executor.dataframes.plan_reader import PlanReader
from dovetail.executor.frame_sql.shape import operators_of
from dovetail.executor.frame_sql.written_frame import WrittenFrame
from dovetail.executor.session.batch import classic, run
from dovetail.executor.session.named_frames import NamedFrames
from dovetail.executor.session.schemas import fields_of
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


class FramePart:
    """A part of a DataFrame that is written as a statement, and the operators above it, which stay as they are.

    At first the part is the whole.  If that cannot be written, ``below`` is the part under what cannot.
    """

    def __init__(self, session: SparkSession, frame: DataFrame, above: tuple[KeptOperators, ...] = ()) -> None:
        self.session, self.frame, self.above = session, frame, above
        self._reader: PlanReader | None = None
        self._differs = False

    def put_above(self, frame: DataFrame) -> DataFrame:
        """Put the operators above the part over a DataFrame that replaces it."""
        for kept in reversed(self.above):
            frame = kept.over(frame)
        return frame

    def ways(self) -> Iterator[WrittenFrame]:
        """Yield the ways to write the part; most have one.  Raises ``Refused`` if it cannot be written."""
        session, frame = self.session, self.frame
        if not classic(session):
            yield write_connect_frame(session, frame)
            return
        if not hasattr(frame, "_jdf") or not frame.sparkSession._jsparkSession.equals(session._jsparkSession):
            raise Refused("the DataFrame belongs to another session than the optimizer")
        if frame.isStreaming:
            raise Refused("the DataFrame is a stream; opt.stream() runs joins of streams")
        plan = PlanNode(frame._jdf.queryExecution().analyzed())
        if any(node.name == "CollectMetrics" for node in operators_of(plan)):
            raise Refused("the DataFrame observes metrics, and planning may read it before your action does")
        for coerced, groups in ((True, True), (False, True), (True, False)):
            reader = self._reader
            if reader and not (reader.left_out if groups else reader.has_groups and self._differs):
                continue
            self._reader = PlanReader(frame, coerced=coerced, groups=groups)
            blocks = self._reader.blocks
            text = blocks.write(self._reader.read(), frame.columns)
            named = NamedFrames.of_views(text, blocks.frames(session))
            yield WrittenFrame(named, partial(self._compare, named))

    def _compare(self, named: NamedFrames) -> str:
        difference = _difference(self.session, self.frame, named)
        self._differs |= difference != ""
        return difference

    def below(self) -> FramePart | None:
        """Return the part below the operator that could not be written, or, if the whole was, the highest join.

        None if there is no further part.  Raises ``Refused`` if an operator above that part cannot stay.
        """
        if self._reader is None:
            return None
        shape = self._reader.shape
        part = shape.part_below()
        if part is None or part is shape.plan:
            return None
        above = (*self.above, keep_above(self.session, shape.plan, part))
        return FramePart(self.session, part.frame(self.session), above)


def _difference(session: SparkSession, frame: DataFrame, named: NamedFrames) -> str:
    """Return how a statement over views differs from the DataFrame; empty if it does not."""
    try:
        written = run(session, named.text)
        if fields_of(written.schema) != fields_of(frame.schema):
            return "a column has another type"
        plans: list[Any] = [f._jdf.queryExecution().optimizedPlan() for f in (frame, written)]
        return "" if plans[0].sameResult(plans[1]) else "Spark plans it otherwise"
    except (PySparkException, Py4JError) as error:
        return str(error).strip().splitlines()[0]


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
