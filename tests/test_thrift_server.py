"""`dovetail rewrite` in front of Spark's Thrift server: a client of JDBC sends SQL that is planned for any data.

The server and the client, Beeline, are those of the PySpark wheel.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from command_line import dovetail
from waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
HOME = Path(pyspark.__file__).parent
BAND = "SELECT p.id, i.id AS i FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi"
TABLES = (
    "CREATE TABLE p USING parquet LOCATION '{0}/p' AS SELECT id, id * 7 % 50 AS x FROM range(40);\n"
    "CREATE TABLE i USING parquet LOCATION '{0}/i' AS SELECT id, id AS lo, id + 3 AS hi FROM range(0, 50, 2);\n"
)


@contextmanager
def thrift_server(folder: Path) -> Iterator[str]:
    """A Thrift server; yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(HOME / "bin" / "spark-submit"), "--master", "local[1]", "--conf", "spark.ui.enabled=false",
        "--conf", "spark.sql.shuffle.partitions=2",
        "--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2", "spark-internal",
        "--hiveconf", f"hive.server2.thrift.port={port}", "--hiveconf", "hive.server2.thrift.bind.host=127.0.0.1",
    ]  # fmt: skip
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | {"SPARK_HOME": str(HOME)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_for(port, server, folder / "server.log")
        yield f"jdbc:hive2://127.0.0.1:{port}/default"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server accepts connections."""

    def listens() -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    assert until(lambda: listens() or server.poll() is not None)
    assert server.poll() is None, f"no Thrift server:\n{log.read_text()[-3000:]}"


def beeline(address: str, folder: Path, text: str) -> list[str]:
    """The lines that Beeline prints for statements."""
    (folder / "query.sql").write_text(f"{text.rstrip().rstrip(';')};\n")
    java = f"{os.environ['JAVA_HOME']}/bin/java" if "JAVA_HOME" in os.environ else "java"
    command = [
        java, "-cp", f"{HOME}/jars/*", "org.apache.hive.beeline.BeeLine",
        "-u", address, "-n", "user", "--silent=true", "--showHeader=false", "--outputformat=tsv2",
        "-f", str(folder / "query.sql"),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line]


def test_a_rewriting_runs_on_the_server(tmp_path: Path) -> None:
    with thrift_server(tmp_path) as address:
        beeline(address, tmp_path, TABLES.format(tmp_path))
        tables = ["-t", f"p={tmp_path}/p", "-t", f"i={tmp_path}/i"]
        done = dovetail("rewrite", "--sql", BAND, *tables)
        assert done.exit_code == 0, done.stderr
        rewritten = done.stdout
        plans = ["\n".join(beeline(address, tmp_path, f"EXPLAIN {text}")) for text in (BAND, rewritten)]
        assert [("NestedLoop" in plan, "explode" in plan) for plan in plans] == [(True, False), (False, True)]
        rows = [sorted(beeline(address, tmp_path, text)) for text in (BAND, rewritten)]
    points = [(p, p * 7 % 50) for p in range(40)]
    expected = sorted(f"{p}\t{i}" for p, x in points for i in range(0, 50, 2) if i <= x <= i + 3)
    assert rows == [expected, expected]
