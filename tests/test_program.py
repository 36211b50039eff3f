"""`dovetail exec`: programs run unchanged, and the SQL of the sessions that they make is planned."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
JOB = """
import sys
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1").config("spark.dovetail.force", "true").getOrCreate()
)
spark.range(50).selectExpr("id", "id % 7 AS x").createOrReplaceTempView("p")
spark.range(5).selectExpr("id", "id AS lo", "id + 1 AS hi").createOrReplaceTempView("i")
again = SparkSession.builder.getOrCreate()
found = again.sql("SELECT count(*) AS n, sum(i.id) AS t FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi")
bins = "Generate explode" in found._jdf.queryExecution().toString()
print(found.collect()[0], bins, __name__, sys.argv, sys.path[0] == HERE)
"""


FRAMES = """
from pyspark.sql import SparkSession, functions as F

spark = (
    SparkSession.builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
    .config("spark.dovetail.force", "true").getOrCreate()
)
points = spark.range(50).withColumn("x", F.col("id") % 7)
spans = spark.range(5).select(F.col("id").alias("span"), F.col("id").alias("lo"), (F.col("id") + 1).alias("hi"))
pairs = points.join(spans, points.x.between(spans.lo, spans.hi))
joined = pairs.agg(F.count("*").alias("n"), F.sum(spans.span).alias("t"))
print(joined.collect()[0])
joined.explain()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "job.py").write_text(JOB.replace("HERE", repr(str(tmp_path))))
    return tmp_path


def program(
    home: Path, *args: str, command: tuple[str, ...] = ("dovetail", "exec")
) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, by `python -m` and the words of ``command``."""
    words = [sys.executable, *(("-m",) if command else ()), *command, *args]
    settings = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    return subprocess.run(words, cwd=home, env=settings, capture_output=True, text=True, timeout=600, check=False)


def count() -> tuple[int, int]:
    """The pairs of the job's join and the sum of their numbers, without Spark."""
    pairs = [i for p in range(50) for i in range(5) if i <= p % 7 <= i + 1]
    return len(pairs), sum(pairs)


@pytest.mark.spark
def test_a_file_runs_with_its_arguments(home: Path) -> None:
    row = "Row(n={}, t={})".format(*count())
    done = program(home, "-v", "job.py", "--day", "2026-11-26", "-m")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{row} True __main__ ['job.py', '--day', '2026-11-26', '-m'] True\n"
    assert done.stderr.count("dovetail: Rewritten in ") == 1
    plain = program(home, "job.py", command=())
    assert plain.stdout == f"{row} False __main__ ['job.py'] True\n"


@pytest.mark.spark
def test_a_module_runs(home: Path) -> None:
    (home / "jobs").mkdir()
    (home / "job.py").rename(home / "jobs" / "daily.py")
    done = program(home, "-m", "jobs.daily", "--quick")
    assert done.returncode == 0, done.stderr
    assert "True __main__ [" in done.stdout
    assert "daily.py', '--quick'] True" in done.stdout
    assert "dovetail: " not in done.stderr


@pytest.mark.spark
def test_dataframes_are_planned_with_frames(home: Path) -> None:
    (home / "job.py").write_text(FRAMES)
    row = "Row(n={}, t={})".format(*count())
    for options, planned in (((), False), (("--frames",), True)):
        done = program(home, *options, "-v", "job.py")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(row)
        assert ("Generate explode" in done.stdout) is planned
        assert done.stderr.count("dovetail: Rewritten in ") == 2 * planned  # collect and explain


@pytest.mark.connect
@pytest.mark.spark
def test_dataframes_of_spark_connect_are_planned_with_frames(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "job.py").write_text(FRAMES)
    monkeypatch.setenv("SPARK_REMOTE", "local[1]")
    done = program(home, "--frames", "-v", "job.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Row(n={}, t={})".format(*count()))
    assert "Generate explode" in done.stdout
    assert done.stderr.count("dovetail: Rewritten in ") == 2  # collect and explain


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("raise SystemExit(7)", 7, ""),
        ("import sys\nsys.exit('no data')", 1, "no data"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("import warnings\nwarnings.warn('old', stacklevel=1)", 0, "UserWarning: old"),
    ],
)
def test_a_program_ends_as_without_dovetail(tmp_path: Path, text: str, code: int, message: str) -> None:
    (tmp_path / "job.py").write_text(text)
    done, plain = program(tmp_path, "job.py"), program(tmp_path, "job.py", command=())
    assert done.returncode == plain.returncode == code
    assert message in done.stderr
    assert message in plain.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "name a Python program"),
        (("nowhere.py",), "there is no file 'nowhere.py'"),
        (("-m", "nowhere.at_all"), "there is no module 'nowhere.at_all'"),
        (("-m", ""), "there is no module ''"),
        (("-m",), "requires an argument"),
    ],
)
def test_what_cannot_run(tmp_path: Path, args: tuple[str, ...], message: str) -> None:
    done = program(tmp_path, *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.spark
def test_new_sessions_have_an_optimizer_until_that_is_undone(spark: object) -> None:
    from pyspark.sql import SparkSession

    from dovetail import install_on_new_sessions

    session = SparkSession.builder.getOrCreate()
    assert "sql" not in vars(session)
    undo = install_on_new_sessions()
    try:
        assert SparkSession.builder.getOrCreate() is session
        installed = vars(session)["_dovetail_sql"]
        SparkSession.builder.getOrCreate()
        assert len(installed.optimizers) == 1
        assert session.sql("SELECT 1 AS x").collect()[0].x == 1
    finally:
        undo()
        for optimizer in vars(session)["_dovetail_sql"].optimizers:
            optimizer.uninstall()
    assert "sql" not in vars(SparkSession.builder.getOrCreate())
