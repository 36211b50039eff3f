"""The engines that run Spark's SQL natively: where each comes from, and a session of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_OFF_HEAP = {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "3g"}


@dataclass(frozen=True)
class Engine:
    """An engine: the PySpark it runs below, what has to be fetched for it, and its settings.

    ``package`` comes from PyPI, and has the jars in a folder ``jars``; ``artifact`` comes from Maven.
    """

    name: str
    spark: str
    package: str = ""
    artifact: str = ""
    settings: dict[str, str] = field(default_factory=dict)


COMET = Engine(
    "Comet 1.2.0",
    "4.1.4",
    artifact="org.apache.datafusion:comet-spark-spark4.1_2.13:1.2.0",
    settings=_OFF_HEAP
    | {
        "spark.plugins": "org.apache.spark.CometPlugin",
        "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
        "spark.comet.enabled": "true",
        "spark.comet.exec.enabled": "true",
        "spark.comet.exec.shuffle.enabled": "true",
    },
)
GLUTEN = Engine(
    "Gluten 1.7.0",
    "3.5.5",
    package="velox-spark==1.7.0.1",
    settings=_OFF_HEAP
    | {
        "spark.driver.extraJavaOptions": "-Dio.netty.tryReflectionSetAccessible=true",
        "spark.gluten.sql.columnar.fallback.expressions.threshold": "250",
        "spark.plugins": "org.apache.gluten.GlutenPlugin",
        "spark.shuffle.manager": "org.apache.spark.shuffle.sort.ColumnarShuffleManager",
    },
)
SAIL = Engine("Sail", "sail")
ENGINES = {"comet": COMET, "gluten": GLUTEN, "sail": SAIL}


@contextmanager
def session_of(engine: Engine | None, folder: Path, jars: list[str]) -> Iterator[Any]:
    """Start a session of two threads, of plain Spark if there is no engine."""
    if engine is SAIL:
        from dovetail.executor.session.sail import sail_server

        with sail_server() as address:
            yield SparkSession.builder.remote(address).getOrCreate()
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.driver.extraClassPath": ":".join(jars),
        "spark.driver.memory": "3g",
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "OFF",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("dovetail-engines")
    for name, value in (settings | (engine.settings if engine else {})).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
