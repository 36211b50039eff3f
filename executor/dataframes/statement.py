"""A DataFrame, or the part with its joins, as a statement, with its proof: Spark optimizes both to the same plan."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from dovetail.executor.connect.statement import write_connect_frame
from dovetail.executor.dataframes.jvm_plan import PlanNode
from dovetail.executor.dataframes.kept_operators import KeptOperators, keep_above
from dovetail.executor.dataframes.plan_reader import PlanReader
from dovetail.executor.frame_sql.shape import operators_of
from dovetail.executor.frame_sql.written_frame import WrittenFrame
from dovetail.executor.session.batch import classic, run
from dovetail.executor.session.named_frames import NamedFrames
from dovetail.executor.session.schemas import fields_of
from dovetail.planner.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
