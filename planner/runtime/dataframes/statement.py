"""A DataFrame as a statement, with its proof: Spark optimizes both to the same plan."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from planner.errors import Refused
from planner.runtime.batch import classic, run
from planner.runtime.dataframes.connect_statement import write_connect_frame
from planner.runtime.dataframes.jvm_plan import PlanNode
from planner.runtime.dataframes.plan_writer import PlanWriter
from planner.runtime.dataframes.written_frame import WrittenFrame
from planner.runtime.named_frames import NamedFrames
from planner.runtime.schemas import fields_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def written_frames(session: SparkSession, frame: DataFrame) -> Iterator[WrittenFrame]:
    """Yield the ways to write a DataFrame as a statement; most have one.

    Raises ``Refused`` if the DataFrame cannot be written.
    """
    if not classic(session):
        yield write_connect_frame(session, frame)
        return
    if not hasattr(frame, "_jdf") or not frame.sparkSession._jsparkSession.equals(session._jsparkSession):
        raise Refused("the DataFrame belongs to another session than the optimizer")
    if frame.isStreaming:
        raise Refused("the DataFrame is a stream; opt.stream() runs joins of streams")
    if PlanNode(frame._jdf.queryExecution().analyzed()).contains("CollectMetrics"):
        raise Refused("the DataFrame observes metrics, and planning may read it before your action does")
    for coerced in (True, False):
        writer = PlanWriter(frame, coerced)
        named = NamedFrames.of_views(writer.write(), writer.frames)
        yield WrittenFrame(named, partial(_difference, session, frame, named))
        if not writer.left_out:
            return


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
