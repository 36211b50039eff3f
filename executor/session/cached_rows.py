"""The cached rows that a query reads."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from dovetail.executor.session.batch import classic, without_names


def has_cached_rows(session: SparkSession) -> bool:
    """Whether a classic session has anything in its cache, which all sessions of an application share."""
    return classic(session) and not session._jsparkSession.sharedState().cacheManager().isEmpty()


def ignores_cached_rows(original: DataFrame, rewriting: DataFrame) -> bool:
    """Whether a query reads cached rows that its rewriting computes again.

    The query could return other rows then: of a volatile function, or of files that were replaced.  False on Spark
    Connect, which does not show what a part of a query reads.
    """
    if not has_cached_rows(original.sparkSession) or original.isStreaming:
        return False
    try:
        read = _cached_rows(original)
        found = _cached_rows(rewriting) if read else []
        return any(not any(one.equals(other) for other in found) for one in read)
    except Py4JError:  # another version of Spark
        return False


def _cached_rows(frame: DataFrame) -> list[Any]:
    """Return what Spark would read from its cache, without fixing what the DataFrame will read when it runs."""
    plan = without_names(frame)._jdf.queryExecution().withCachedData()
    parts = [plan, *_listed(plan.subqueriesAll())]
    leaves = (leaf for part in parts for leaf in _listed(part.collectLeaves()))
    return [leaf.cacheBuilder() for leaf in leaves if leaf.getClass().getSimpleName() == "InMemoryRelation"]


def _listed(found: Any) -> list[Any]:
    return [found.apply(n) for n in range(found.size())]
