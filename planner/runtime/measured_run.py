"""Runs a query to its last row, and reads the time and the rows of each operator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
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
    operators = list(_operators(execution.executedPlan(), 0))
    plain = _names_of({column for node, _ in operators for column in node.output().mkString("\n").splitlines()})
    return MeasuredRun(seconds, tuple(_described(node, depth, plain) for node, depth in operators))


def _operators(node: Any, depth: int) -> Iterator[tuple[Any, int]]:
    """The operators of Spark's plan with their depth, top down."""
    kind = node.getClass().getSimpleName()
    if inside := "plan" if kind.endswith("QueryStageExec") else _WRAPPERS.get(kind):
        yield from _operators(getattr(node, inside)(), depth)
        return
    if kind not in _SHAPES:
        yield node, depth
        depth += 1
    for below in (node.subqueries(), node.children()):
        for position in range(below.size()):
            yield from _operators(below.apply(position), depth)


def _described(node: Any, depth: int, plain: Callable[[str], str]) -> MeasuredOperator:
    name = node.nodeName().strip()
    detail = plain(node.simpleString(_FIELDS)).strip().removeprefix(name).strip()
    short = detail if len(detail) <= _LONGEST else f"{detail[:_LONGEST]} …"
    return MeasuredOperator(depth, name, short, _rows(node))


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
