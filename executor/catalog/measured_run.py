"""Runs a query to its last row, and reads the rows and the time of each operator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

from pyspark.sql import DataFrame

from dovetail.executor.catalog.measurement_cache import items
from dovetail.executor.session.batch import classic
from dovetail.planner.explain.measured import MeasuredOperator, MeasuredRun

_LONGEST = 160  # characters of a detail
_FIELDS = 25  # of a list in a detail
_ROWS = ("numOutputRows", "shuffleRecordsWritten")
_WRAPPERS = {"AdaptiveSparkPlanExec": "executedPlan", "WholeStageCodegenExec": "child", "InputAdapter": "child"}
"""Nodes that are no operators, and the name of what they hold; stages of adaptive execution hold a ``plan``."""
_TIMES = {"timing": 1e3, "nsTiming": 1e9}
"""Kinds of metrics that are times, and their units in a second."""
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
    operators = list(_operators(execution.executedPlan(), 0))
    plain = _names_of({column for node, *_ in operators for column in node.output().mkString("\n").splitlines()})
    return MeasuredRun(seconds, tuple(_described(*operator, plain) for operator in operators))


def _operators(node: Any, depth: int, around: float | None = None) -> Iterator[tuple[Any, int, float | None]]:
    """The operators of Spark's plan with their depth, top down, and the seconds of the generated code they begin."""
    kind = node.getClass().getSimpleName()
    if inside := "plan" if kind.endswith("QueryStageExec") else _WRAPPERS.get(kind):
        yield from _operators(getattr(node, inside)(), depth, _add(around, _seconds(node)))
        return
    if kind not in _SHAPES:
        yield node, depth, around
        depth += 1
    for below in (node.subqueries(), node.children()):
        for position in range(below.size()):
            yield from _operators(below.apply(position), depth)


def _described(node: Any, depth: int, around: float | None, plain: Callable[[str], str]) -> MeasuredOperator:
    name = node.nodeName().strip()
    detail = plain(node.simpleString(_FIELDS)).strip().removeprefix(name).strip()
    short = detail if len(detail) <= _LONGEST else f"{detail[:_LONGEST]} …"
    return MeasuredOperator(depth, name, short, _rows(node), _add(around, _seconds(node)))


def _names_of(columns: set[str]) -> Callable[[str], str]:
    """Replaces the columns of a plan (``price#12L``) by their names; a literal such as ``Brand#23`` stays."""
    names = {column: column.rpartition("#")[0] for column in columns if "#" in column}
    if not names:
        return lambda text: text
    longest_first = sorted(names, key=len, reverse=True)
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")
    return lambda text: pattern.sub(lambda found: names[found.group()], text)


def _rows(node: Any) -> int | None:
    metrics = node.metrics()
    found = next((name for name in _ROWS if metrics.contains(name)), None)
    return int(metrics.apply(found).value()) if found else None


def _seconds(node: Any) -> float | None:
    """The times that Spark has measured of an operator, over all tasks; None if there are none."""
    metrics = items(node.metrics().values().toSeq())
    times = [int(m.value()) / unit for m in metrics if (unit := _TIMES.get(m.metricType())) and int(m.value()) >= 0]
    return sum(times) if times else None


def _add(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else a + b
