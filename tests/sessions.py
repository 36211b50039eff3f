"""The sessions that the tests run on; one process holds one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import pyspark
from py4j.java_gateway import JVMView
from pyspark.sql import SparkSession

MASTERS = {"classic": "local[2]", "cluster": "local-cluster[2,1,1024]", "connect": "local[2]"}


# Each call of `spark.sql` names a class of Spark's, which Py4J looks for in all archives: a millisecond each time.
JVMView.__getattr__ = cache(JVMView.__getattr__)


def start(where: str, scratch: Path, **settings: str) -> SparkSession:
    """Start a small, quiet session that writes nowhere but below `scratch`."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.appName(f"dovetail-tests-{where}")
    builder = (builder.remote if where == "connect" else builder.master)(MASTERS[where])
    always = {
        "spark.buffer.pageSize": "512k",  # tens of MB are taken, and zeroed, for each sort and hash table of a few rows
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch / 'derby'}",
        "spark.local.dir": str(scratch / "local"),
        "spark.log.level": "OFF",
        "spark.pyspark.python": sys.executable,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in (always | settings).items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # A Connect client sets all of them once more on the server it has started with them.
        warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)
        return builder.getOrCreate()


def for_few_rows(spark: SparkSession) -> SparkSession:
    """A session of its own for queries over a few rows, which repay neither a compiler nor a second planning."""
    own = spark.newSession()
    own.conf.set("spark.sql.codegen.wholeStage", "false")
    own.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    own.conf.set("spark.sql.adaptive.enabled", "false")
    return own


def quick_parts(scratch: Path) -> dict[str, str]:
    """Settings for the parts in Java beside this file, compiled below `scratch`; none if only a runtime is there."""
    home = os.environ.get("JAVA_HOME")
    compiler = shutil.which("javac", path=f"{home}/bin" if home else None)
    if compiler is None:
        return {}
    jars, sources = Path(pyspark.__file__).parent / "jars", sorted(Path(__file__).parent.glob("*.java"))
    classpath = next(jars.glob("hadoop-client-api-*.jar"))
    subprocess.run([compiler, "--release", "17", "-cp", classpath, "-d", scratch / "classes", *sources], check=True)
    return {
        "spark.driver.extraClassPath": str(scratch / "classes"),
        "spark.hadoop.fs.file.impl": "LocalFiles",
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "LocalFiles$Context",
    }
