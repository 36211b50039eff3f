"""Sessions whose tables are of one format, and the words by which such tables are made."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from execution import INTERPRETED, execute

PARQUET, DELTA, ICEBERG = "parquet", "delta", "iceberg"
FORMATS = (PARQUET, DELTA, ICEBERG)
_SETTINGS = {
    PARQUET: {},
    DELTA: {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
    },
    ICEBERG: {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.iceberg.spark.SparkSessionCatalog",
        "spark.sql.catalog.spark_catalog.type": "hadoop",
        "spark.sql.catalog.spark_catalog.warehouse": "{folder}/warehouse",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.cache-enabled": "false",  # of each session: it hides what others write for 30 seconds
        "spark.sql.catalog.ice.warehouse": "{folder}/ice",
    },
}


def start(form: str, folder: Path, jars: list[str]) -> SparkSession:
    """Start a session of two threads for tables of a format."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]").appName(f"dovetail-{form}")
    always = {
        "spark.buffer.pageSize": "512k",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.memory": "3g",
        "spark.jars": ",".join(jars),
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "OFF",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in (always | _SETTINGS[form]).items():
        builder = builder.config(name, value.format(folder=folder))
    session = builder.getOrCreate()
    execute(session, INTERPRETED)  # few rows do not repay compilers
    return session
