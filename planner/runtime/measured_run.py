"""Runs a query to its last row, and reads the time and the rows of each operator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from time import perf_counter
from typing import Any

from pyspark.sql import DataFrame

from planner.explain.measured import MeasuredOperator, MeasuredRun
from planner.runtime.batch import classic

_LONGEST = 160  # characters of a detail
_FIELDS = 25  # of a list in a detail
_ROWS = ("numOutputRows", "shuffleRecordsWritten")
_WRAPPERS = {"AdaptiveSparkPlanExec": "executedPlan", "WholeStageCodegenExec": "child", "InputAdapter": "child"}
"""Nodes that are no operators, and the name of what they hold; stages of adaptive execution hold a ``plan``."""
_SHAPES = frozenset({"AQEShuffleReadExec", "ColumnarToRowExec", "RowToColumnarExec"})
"""Operators that return the rows that they read."""


def measure(frame: DataFrame) -> MeasuredRun:
    """Compute every row of a DataFrame and keep none.  Raises what Spark raises.

    The rows of operators are those of the plan that adaptive execution ended with.
    """
    if not classic(frame.sparkSession):
        start = perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        return MeasuredRun(perf_counter() - start)
    execution = frame._jdf.queryExecution()
    start = perf_counter()
    execution.toRdd().count()
    seconds = perf_counter() - start
    return MeasuredRun(seconds, tuple(_operators(execution.executedPlan(), 0)))


def _operators(node: Any, depth: int) -> Iterator[MeasuredOperator]:
    kind = node.getClass().getSimpleName()
    if inside := "plan" if kind.endswith("QueryStageExec") else _WRAPPERS.get(kind):
        yield from _operators(getattr(node, inside)(), depth)
        return
    if kind not in _SHAPES:
        name = node.nodeName().strip()
        detail = re.sub(r"#\d+L?", "", node.simpleString(_FIELDS)).strip().removeprefix(name).strip()
        short = detail if len(detail) <= _LONGEST else f"{detail[:_LONGEST]} …"
        yield MeasuredOperator(depth, name, short, _rows(node))
        depth += 1
    for below in (node.subqueries(), node.children()):
        for position in range(below.size()):
            yield from _operators(below.apply(position), depth)


def _rows(node: Any) -> int | None:
    metrics = node.metrics()
    found = next((name for name in _ROWS if metrics.contains(name)), None)
    return int(metrics.apply(found).value()) if found else None
