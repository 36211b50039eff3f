"""The tasks of the stages that have ended: how much longer the longest of a stage is than the median."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StageTasks:
    """Reads the status store of a classic session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.status = spark.sparkContext._jsc.sc().statusStore()

    def stages(self) -> list[tuple[int, int]]:
        """The stages that have ended, with their attempts."""
        spark = self.spark
        doubles = spark.sparkContext._gateway.new_array(spark._jvm.double, 0)
        found = self.status.stageList(None, False, False, doubles, None)
        every = (found.apply(n) for n in range(found.size()))
        return [(one.stageId(), one.attemptId()) for one in every if str(one.status()) == "COMPLETE"]

    def last_stage(self) -> int:
        """The last stage that has ended."""
        return max((stage for stage, _ in self.stages()), default=-1)

    def longest(self, since: int) -> tuple[float, float]:
        """Longest task ÷ median of the stage that read most rows from shuffles: by these rows, and by time."""
        self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(60_000)
        most, ratios = 0, (1.0, 1.0)
        for stage, attempt in self.stages():
            if stage <= since:
                continue
            tasks = self.status.taskList(stage, attempt, 100_000)
            metrics = [tasks.apply(n).taskMetrics() for n in range(tasks.size())]
            read = [one.get().shuffleReadMetrics().recordsRead() for one in metrics if one.isDefined()]
            took = [one.get().executorRunTime() for one in metrics if one.isDefined()]
            if sum(read) > most and len(read) > 2:
                most, ratios = sum(read), (max(read) / max(median(read), 1), max(took) / max(median(took), 1))
        return ratios
