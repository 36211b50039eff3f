"""Counts the operators of a physical plan that an engine runs itself."""

from __future__ import annotations

import re
from typing import Any

# Of the engine, or of Spark's adaptive planning, but no work on rows.
_WRAPPERS = re.compile(
    r"AdaptiveSparkPlan|\w+QueryStage|ReusedExchange|InputAdapter|InputIteratorTransformer|AQEShuffleRead|"
    r"WholeStageCodegen\w*|VeloxResizeBatches|ColumnarInputAdapter|Subquery|ReusedSubquery|CometSparkToColumnar"
)
_TRANSITIONS = re.compile(r"\w*(ColumnarToRow|RowToColumnar|RowToVeloxColumnar|VeloxColumnarToRow|LoadsToColumnar)\w*")
_NATIVE = re.compile(r"Comet\w+|\w+Transformer|Columnar\w*Exchange|ColumnarUnion|Velox\w+")
_LINE = re.compile(r"^[ :+\-|]*(?:[*^!]?\(\d+\) |[*!] )?([A-Za-z]\w*)")


def operators(plan: str) -> tuple[int, int, list[str]]:
    """Return the native operators of a plan, all of them, and the names of those in the JVM, with transitions."""
    text = plan.split("== Final Plan ==")[-1].split("== Initial Plan ==")[0]
    names = [found[1] for line in text.splitlines() if (found := _LINE.match(line))]
    names = [name for name in names if not _WRAPPERS.fullmatch(name)]
    work = [name for name in names if not _TRANSITIONS.fullmatch(name)]
    native = [name for name in work if _NATIVE.fullmatch(name)]
    return len(native), len(work), sorted(set(work) - set(native))


def executed_plan(frame: Any) -> str:
    """Return the text of the physical plan by which a DataFrame ran, with all subqueries."""
    return str(frame._jdf.queryExecution().executedPlan().toString())
