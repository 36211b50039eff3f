"""Whether a query would run code of the user: functions in Python, Scala or Java."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from pyspark.sql import DataFrame

_PATTERNS = ("PYTHON_UDF", "SCALA_UDF")
_OPERATORS = re.compile(r"\b(?:BatchEvalPython|ArrowEvalPython|\w*InPandas\w*|\w*InArrow\w*|\w*EvalPythonUDTF)\b")


def calls_user_function(frame: DataFrame) -> bool:
    """Whether a query of a classic session calls a function of the user's when it runs.

    Columns that it does not read do not count, nor do rows that are cached.
    """
    query = frame._jdf.queryExecution()
    patterns = _patterns(frame.sparkSession._jvm)
    return any(query.analyzed().containsPattern(pattern) for pattern in patterns) and any(
        query.optimizedPlan().containsPattern(pattern) for pattern in patterns
    )


def runs_user_function(explained: str) -> bool:
    """The same on Spark Connect, by the text of EXPLAIN, which shows functions in Python alone."""
    return _OPERATORS.search(explained.partition("== Physical Plan ==")[2] or explained) is not None


@lru_cache(maxsize=1)
def _patterns(jvm: Any) -> tuple[Any, ...]:
    tree_pattern = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    return tuple(getattr(tree_pattern, name)() for name in _PATTERNS)
