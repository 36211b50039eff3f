"""Reports the counters of lookup tasks through accumulators."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from dovetail.executor.connectors.metrics import Counters


def is_connect(session: SparkSession) -> bool:
    """Whether a session is a client of Spark Connect, which has no SparkContext."""
    return type(session).__module__.startswith("pyspark.sql.connect")


class _Sum(AccumulatorParam[Counters]):
    def zero(self, value: Counters) -> Counters:
        return Counters()

    def addInPlace(self, value1: Counters, value2: Counters) -> Counters:  # noqa: N802 - Spark's name
        return value1 + value2


class LookupMetrics:
    """The counts of all runs of a lookup so far, from completed tasks.

    A task that Spark runs twice counts twice.  A session on Spark Connect has no accumulators: ``counters`` is None.
    """

    def __init__(self, session: SparkSession) -> None:
        self.accumulator: Accumulator[Counters] | None = None
        if not is_connect(session):
            self.accumulator = session.sparkContext.accumulator(Counters(), _Sum())

    @property
    def counters(self) -> Counters | None:
        """A copy of the current counts; None if they are not available."""
        return None if self.accumulator is None else Counters(*astuple(self.accumulator.value))

    def __repr__(self) -> str:
        counters = self.counters
        return "not available on Spark Connect" if counters is None else repr(counters)

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("metrics stay on the driver; tasks get the accumulator")
