"""Reads Spark's metrics of a run: bytes read and shuffled, and how often its plans scan and exchange.

The figures are those of Spark's own SQL page, read through the JVM, so this needs a classic session. Scans and
exchanges are counted in the plans that ran to the end, after adaptive changes; a reused exchange counts once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_SCANS = ("Scan ", "BatchScan ", "FileScan ", "InMemoryTableScan")
_NO_SCANS = ("Scan OneRowRelation", "Scan ExistingRDD")
_TIMEOUT = 60_000  # milliseconds for Spark to write down what it has seen


@dataclass(frozen=True)
class Metrics:
    """Of all that ran: bytes of input, bytes that a shuffle wrote, scans of tables, shuffles and broadcasts.

    ``rows``: what the scans returned.  ``read`` lacks what Parquet reads in threads of its own, as it does where no
    filter reaches the files.
    """

    read: int = 0
    shuffled: int = 0
    scans: int = 0
    exchanges: int = 0
    broadcasts: int = 0
    rows: int = 0


def measured(spark: SparkSession, work: Callable[[], object]) -> Metrics:
    """Run ``work`` and give what Spark counted in the meantime: nobody else may use the context."""
    context = _context(spark)
    store = _sql_store(spark)
    before = _ids(store)
    work()
    context.listenerBus().waitUntilEmpty(_TIMEOUT)
    new = [one for one in _each(store.executionsList()) if one.executionId() not in before]
    stages = sorted({int(stage) for one in new for stage in _each(one.stages())})
    read = shuffled = 0
    for stage in stages:
        try:
            data = context.statusStore().lastStageAttempt(stage)
        except Py4JJavaError as error:
            if "NoSuchElementException" not in str(error):
                raise
            continue  # planned, and never begun: AQE found a better way
        read += data.inputBytes()
        shuffled += data.shuffleWriteBytes()
    nodes = [(one.executionId(), n) for one in new for n in _each(store.planGraph(one.executionId()).allNodes())]
    names = [str(node.name()) for _, node in nodes]
    scans = [(number, node) for number, node in nodes if _scans(str(node.name()))]
    return Metrics(
        read,
        shuffled,
        len(scans),
        names.count("Exchange"),
        names.count("BroadcastExchange"),
        sum(_rows(store, number, node) for number, node in scans),
    )


def _scans(name: str) -> bool:
    return name.startswith(_SCANS) and not name.startswith(_NO_SCANS)


def _rows(store: Any, execution: int, node: Any) -> int:
    """The rows that a node of a plan returned."""
    counted = store.executionMetrics(execution)
    for metric in _each(node.metrics()):
        if metric.name() == "number of output rows" and counted.contains(metric.accumulatorId()):
            return int(str(counted.apply(metric.accumulatorId())).replace(",", ""))
    return 0


def mebibytes(size: int) -> str:
    """A size as a table shows it."""
    return f"{size / 2**20:,.1f}"


def _context(spark: Any) -> Any:
    return spark._jsparkSession.sparkContext()


def _sql_store(spark: Any) -> Any:
    return spark._jsparkSession.sharedState().statusStore()


def _ids(store: Any) -> set[int]:
    return {one.executionId() for one in _each(store.executionsList())}


def _each(collection: Any) -> list[Any]:
    """The elements of a Scala collection."""
    iterator, found = collection.iterator(), []
    while iterator.hasNext():
        found.append(iterator.next())
    return found
