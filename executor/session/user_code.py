"""Whether a query would run code of the user: functions in Python, Scala or Java."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from pyspark.sql import DataFrame

from dovetail.executor.session.batch import classic

_PATTERNS = ("PYTHON_UDF", "SCALA_UDF")
_OPERATORS = re.compile(r"\b(?:BatchEvalPython|ArrowEvalPython|\w*InPandas\w*|\w*InArrow\w*|\w*EvalPythonUDTF)\b")


def calls_user_function(frame: DataFrame) -> bool:
    """Whether a query calls a function of the user's when it runs.  Columns that it does not read do not count.

    Nor do rows that are cached.  On Spark Connect only functions in Python are found.
    """
    if not classic(frame.sparkSession):
        return _OPERATORS.search(frame._explain_string()) is not None  # type: ignore[operator]
    query = frame._jdf.queryExecution()
    patterns = _patterns(frame.sparkSession._jvm)
    return any(query.analyzed().containsPattern(pattern) for pattern in patterns) and any(
        query.optimizedPlan().containsPattern(pattern) for pattern in patterns
    )


@lru_cache(maxsize=1)
def _patterns(jvm: Any) -> tuple[Any, ...]:
    tree_pattern = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    return tuple(getattr(tree_pattern, name)() for name in _PATTERNS)
