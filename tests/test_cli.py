"""The command line where it needs no Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from command_line import dovetail
from dovetail.executor.session import session
from dovetail.optimizer import terminal
from dovetail.optimizer.advise.workload import split_statements
from dovetail.optimizer.commands import about, work
from dovetail.optimizer.commands.inputs import OutputPath, format_of, read_output
from dovetail.optimizer.doctor import Check
from dovetail.planner.errors import EnvironmentProblem, InputError
from dovetail.rules.batches import RULES


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong is said before Spark is asked for."""

    def started(*_args: Any, **_kwargs: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(work, "require_java", started)


def test_help_names_every_command() -> None:
    done = dovetail("--help")
    assert done.exit_code == 0
    for command in ("demo", "run", "explain", "rewrite", "verify", "estimate", "report", "rules", "state", "doctor"):
        assert f" {command} " in done.stdout
        assert dovetail(command, "--help").exit_code == 0


_CATALOG = """
[tables.e]
columns = { id = "BIGINT", ts = "TIMESTAMP" }
rows = 20_000_000
[tables.s]
columns = { id = "BIGINT", starts = "TIMESTAMP", ends = "TIMESTAMP" }
rows = 1_000_000
"""
_STATEMENTS = """-- a view, and what reads it
CREATE TEMPORARY VIEW w AS SELECT id, ts FROM e WHERE id > 5;
SET spark.sql.shuffle.partitions = 8;
SELECT w.id, s.id AS other FROM w JOIN s ON w.ts BETWEEN s.starts AND s.ends;
"""


def test_statements_are_explained_without_spark_where_a_catalog_has_columns(no_spark: Any, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(_CATALOG)
    query = tmp_path / "q.sql"
    query.write_text(_STATEMENTS)
    done = dovetail("explain", query, "--catalog", tmp_path / "c.toml")
    assert done.exit_code == 0, done.stderr
    assert f"-- statement 3 of 3 ({query}:4)\nProject" in done.stdout
    assert "LevelBandJoin  inner, w.ts between s.starts and s.ends" in done.stdout
    assert "planned without Spark" in done.stderr
    done = dovetail("explain", query, "--catalog", tmp_path / "c.toml", "-m", "json")
    assert [plan["rewritten"] for plan in json.loads(done.stdout)] == [False, False, True]
    done = dovetail("rewrite", query, "--catalog", tmp_path / "c.toml")
    assert done.stdout.count(";\n") == 3
    done = dovetail("explain", query, "--catalog", tmp_path / "c.toml", "-m", "html")
    assert (done.exit_code, "writes a page of all" in done.stderr) == (2, True)
    done = dovetail("verify", query)
    assert (done.exit_code, "has 3 statements, and this command takes one" in done.stderr) == (2, True)


def test_an_error_names_its_statement(no_spark: Any, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(_CATALOG)
    done = dovetail("explain", "--sql", "SELECT id FROM e;\nSELECT e.no_such FROM e", "--catalog", tmp_path / "c.toml")
    assert done.exit_code == 1
    assert "error: statement 2 of 2 (--sql:2): line 1, column 8: There is no column e.no_such." in done.stderr


def test_a_statement_with_an_error_does_not_hide_the_others(no_spark: Any, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(_CATALOG)
    query = tmp_path / "q.sql"
    query.write_text(f"SELECT e.no_such FROM e;\nSELECT id FROM nowhere;\n{_STATEMENTS}")
    done = dovetail("explain", query, "--catalog", tmp_path / "c.toml")
    assert done.exit_code == 1
    assert f"error: statement 1 of 5 ({query}:1): line 1, column 8: There is no column e.no_such." in done.stderr
    assert f"error: statement 2 of 5 ({query}:2): line 1, column 16: There is no table nowhere." in done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("-- statement")] == [
        f"-- statement {n} of 5 ({query}:{line})" for n, line in ((3, 4), (4, 5), (5, 6))
    ]
    assert "LevelBandJoin  inner, w.ts between s.starts and s.ends" in done.stdout
    done = dovetail("explain", query, "--catalog", tmp_path / "c.toml", "-m", "json")
    assert done.exit_code == 1
    assert ["no_such" in plan.get("error", "") for plan in json.loads(done.stdout)] == [True, *4 * [False]]
    done = dovetail(
        "rewrite", query, "--catalog", tmp_path / "c.toml"
    )  # a script without one of its statements is another
    assert (done.exit_code, done.stdout) == (1, "")


def test_a_bracket_that_nothing_closes_ends_with_its_statement(no_spark: Any, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(_CATALOG)
    query = tmp_path / "q.sql"
    query.write_text(f"SELECT id FROM e\nWHERE abs(id < 5;\n{_STATEMENTS}")
    done = dovetail("explain", query, "--catalog", tmp_path / "c.toml")
    assert done.exit_code == 1
    wrong = "line 2, column 10: its brackets do not match: nothing closes this ("
    assert f"error: statement 1 of 4 ({query}:1): {wrong}" in done.stderr
    assert "LevelBandJoin  inner, w.ts between s.starts and s.ends" in done.stdout
    done = dovetail("advise", query, "--catalog", tmp_path / "c.toml")
    assert "q.sql:2:10" in done.stdout
    assert "1 not planned" in done.stdout
    done = dovetail("explain", "--sql", "SELECT id FROM e WHERE id IN (1, 2]", "--catalog", tmp_path / "c.toml")
    assert (done.exit_code, "column 35: its brackets do not match: nothing opens this ]" in done.stderr) == (1, True)
    done = dovetail("explain", "--sql", "SELECT ';)' AS a, id /* ( */ FROM e -- (", "--catalog", tmp_path / "c.toml")
    assert done.exit_code == 0, done.stderr


def test_a_script_is_one_statement() -> None:
    texts = [s.text for s in split_statements("SELECT 1; BEGIN DECLARE x INT; SELECT x; END;", "")]
    assert texts == ["SELECT 1", "BEGIN DECLARE x INT; SELECT x; END;"]


def test_no_command_is_a_usage_error() -> None:
    done = dovetail()
    assert done.exit_code == 2
    assert "Usage: " in done.stdout + done.stderr


def test_version() -> None:
    done = dovetail("--version")
    assert done.exit_code == 0
    assert done.stdout.strip()


@pytest.mark.parametrize("command", [["--help"], ["run", "--help"], ["rules"], ["doctor"], ["run", "nothing.sql"]])
def test_pyspark_is_not_imported_before_it_is_needed(command: Any) -> None:
    code = (
        "import sys; from dovetail.optimizer.cli.main import app\n"
        f"try: app({command!r})\n"
        "except SystemExit: print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_rules_says_what_each_does() -> None:
    said = " ".join(dovetail("rules").stdout.split())
    for rule in RULES:
        assert rule.name in said
        assert rule.why in said


def test_rules_as_json() -> None:
    listed = json.loads(dovetail("rules", "--json").stdout)
    assert [r["name"] for r in listed] == [r.name for r in RULES]
    assert set(listed[0]) == {"name", "batch", "why", "doc"}


WELL = Check("Java", ok=True, found="17 at /java", remedy="")
ILL = Check("Memory", ok=False, found="0.1 GiB available", remedy="free some")


@pytest.mark.parametrize(("checks", "code"), [((WELL,), 0), ((WELL, ILL), 1)])
def test_doctor(monkeypatch: pytest.MonkeyPatch, checks: Any, code: Any) -> None:
    monkeypatch.setattr(about, "diagnose", lambda: checks)
    done = dovetail("doctor")
    assert done.exit_code == code
    assert "✓ Java" in done.stdout
    assert ("✗ Memory" in done.stdout) == ("free some" in done.stdout) == bool(code)
    quiet = dovetail("doctor", "--quiet")
    assert quiet.exit_code == code
    assert "Java" not in quiet.stdout
    assert ("free some" in quiet.stdout) == bool(code)
    listed = dovetail("doctor", "--json")
    assert listed.exit_code == code
    assert [c["ok"] for c in json.loads(listed.stdout)] == [c.ok for c in checks]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "name a file with a query"),
        (["q.sql", "--sql", "SELECT 1"], "name a file with a query"),
        (["gone.sql"], "there is no file gone.sql"),
        (["SELECT * FROM p"], "to give the query itself, use --sql"),
        (["."], "is a directory"),
        (["empty.sql"], "there is no query in empty.sql"),
        (["-"], "there is no query in stdin"),
        (["latin.sql"], "latin.sql is not text in UTF-8"),
        (["q.sql", "--table", "p"], "--table wants name=value, not 'p'"),
        (["q.sql", "--table", "=p.csv"], "--table wants name=value"),
        (["q.sql", "--table", "p="], "--table wants name=value"),
        (["q.sql", "--table", "a b=p.csv"], "a table's name has letters"),
        (["q.sql", "--table", "p=p.csv", "--table", "p=p.csv"], "--table p is given twice"),
        (["q.sql", "--table", "p=p.csv", "--table", "P=p.csv"], "--table P is given twice"),
        (["q.sql", "--table", "p=gone.parquet"], "there is no file or directory gone.parquet"),
        (["q.sql", "--table", "p=gone-*.csv"], "there is no file or directory gone-*.csv"),
        (["q.sql", "--table", "p=hollow"], "there is no data file in hollow"),
        (["q.sql", "--table", "p=mixed"], "files of several formats (csv, json)"),
        (["q.sql", "--table", "p=q.sql"], "q.sql is of no known format; possible: .parquet, .csv"),
        (["q.sql", "--option", "nested_loop_pair=1"], "did you mean 'nested_loop_pairs'?"),
        (["q.sql", "--option", "nested_loop_pairs=few"], "nested_loop_pairs cannot be 'few'"),
        (["q.sql", "--option", "disabled_rules=no_rule"], "there is no rule 'no_rule'"),
        (["q.sql", "--conf", "spark.sql.ansi.enabled"], "--conf wants name=value"),
        (["q.sql", "--key", "p"], "--key wants table=column,column, not 'p'"),
        (["q.sql", "--key", "p=id,"], "--key wants table=column,column"),
    ],
)
@pytest.mark.parametrize("command", ["run", "verify"])
def test_what_cannot_be_used_is_said_before_work(
    no_spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: Any, args: Any, said: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.sql").write_text("SELECT 1")
    Path("empty.sql").write_text(" \n")
    Path("latin.sql").write_bytes(b"SELECT '\xe9'")
    Path("p.csv").write_text("id\n1\n")
    Path("hollow").mkdir()
    Path("hollow/_SUCCESS").touch()
    Path("mixed").mkdir()
    Path("mixed/a.csv").touch()
    Path("mixed/b.json").touch()
    done = dovetail(command, *args, stdin="")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--out", "there.csv"], "there.csv exists; --overwrite replaces it"),
        (["--out", "there.csv/", "--overwrite"], "this is a file"),
        (["--out", "taken/"], "taken/ exists; --overwrite replaces it"),
        (["--out", "taken/", "--overwrite"], "mine.txt was not written by Spark"),
        (["--out", "taken.csv", "--overwrite"], "this is a directory; end the path in /"),
        (["--out", "answer"], "end it in .parquet, .csv"),
        (["--out", "answer.txt"], "end it in .parquet, .csv"),
        (["--out", "answer.csv.gz"], "compressed files cannot be written"),
        (["--out", "gone/answer.csv"], "there is no directory gone"),
        (["--out", "there.csv/answer.csv"], "there is no directory there.csv"),
        (["--out", "/proc/answer.csv"], "/proc cannot be written: "),
        (["--out", "/proc/answer/"], "/proc cannot be written: "),
        (["--out", f"{'a' * 300}.csv"], ". cannot be written: file name too long"),
        (["--overwrite"], "--overwrite needs --out"),
    ],
)
def test_an_output_that_cannot_be_written_is_left_alone(
    no_spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, args: Any, said: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.csv").write_text("precious")
    for folder in ("taken", "taken.csv"):
        Path(folder).mkdir()
        Path(folder, "mine.txt").write_text("precious")
    done = dovetail("run", "--sql", "SELECT 1", *args)
    assert done.exit_code == 2
    assert said in done.stderr
    assert {str(p.relative_to(tmp_path)): p.read_text() for p in tmp_path.rglob("*") if p.is_file()} == {
        "there.csv": "precious",
        "taken/mine.txt": "precious",
        "taken.csv/mine.txt": "precious",
    }


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--out", "there.html"], "--out there.html exists; --overwrite replaces it"),
        (["--out", "no/plan.html"], "--out no/plan.html: there is no directory no"),
        (["--overwrite"], "--overwrite needs --out; add --out PATH"),
    ],
)
def test_an_explanation_does_not_replace_a_file(
    no_spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, args: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.html").write_text("precious")
    done = dovetail("explain", "--sql", "SELECT 1", "--mode", "html", *args)
    assert done.exit_code == 2
    assert message in done.stderr
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("there.html", "precious")]


@pytest.mark.parametrize(
    "args",
    [["run", "--limit", "0", "--sql", "SELECT 1"], ["explain", "--mode", "pdf", "--sql", "SELECT 1"], ["runn"]],
)
def test_usage_errors(no_spark: Any, args: Any) -> None:
    done = dovetail(*args)
    assert done.exit_code == 2
    assert done.stdout == ""


def test_no_java_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise EnvironmentProblem("Spark needs Java 17 or newer: no java on PATH", remedy="install a JDK")

    monkeypatch.setattr(work, "require_java", missing)
    for command in ("run", "explain", "rewrite", "verify"):
        done = dovetail(command, "--sql", "SELECT 1")
        assert done.exit_code == 3
        assert done.stderr == "error: Spark needs Java 17 or newer: no java on PATH; install a JDK\n"
    assert dovetail("demo", "--data", "/dev/null/here").exit_code == 2


@pytest.mark.parametrize(
    ("remote", "code", "said"),
    [
        ("sc://localhost:1", 3, "no Spark Connect server answers at localhost:1"),
        ("sc://localhost:port", 2, "a server is named as sc://host:port"),
        ("spark://localhost", 2, "a server is named as sc://host:port"),
    ],
)
def test_a_server_that_is_not_there(no_spark: Any, remote: Any, code: Any, said: Any) -> None:
    done = dovetail("run", "--sql", "SELECT 1", "--remote", remote)
    assert done.exit_code == code
    assert said in done.stderr


@pytest.mark.skipif(find_spec("pysail") is not None, reason="Sail is installed")
def test_sail_that_is_not_there(no_spark: Any) -> None:
    done = dovetail("run", "--sql", "SELECT 1", "--engine", "sail")
    assert done.exit_code == 3
    assert done.stderr.startswith("error: Sail is not installed; pip install pysail")


def test_a_server_and_an_engine_of_its_own(no_spark: Any) -> None:
    done = dovetail("run", "--sql", "SELECT 1", "--engine", "sail", "--remote", "sc://localhost:1")
    assert done.exit_code == 2
    assert "--engine sail starts a server of its own; leave out --remote" in done.stderr


def test_formats_by_their_endings() -> None:
    assert [format_of(p) for p in ("a.PARQUET", "a/b.csv.gz", "x.jsonl", "y.ndjson", "dir/", "z.orc", "csv")] == [
        "parquet", "csv", "json", "json", None, None, None,
    ]  # fmt: skip


def test_outputs_elsewhere_are_left_to_spark(tmp_path: Path) -> None:
    there = read_output("s3a://bucket/answer.csv", overwrite=False, here=True)
    assert there is not None
    assert (there.format, there.directory) == ("csv", True)
    elsewhere = read_output(str(tmp_path / "no" / "x.json"), overwrite=False, here=False)
    assert elsewhere is not None
    assert elsewhere.directory


@pytest.mark.parametrize(
    ("master", "tasks"),
    [("local", 1), ("local[3]", 3), ("local[2, 4]", 2), ("local-cluster[2,3,1024]", 6), ("yarn", None)],
)
def test_tasks_of_a_master(master: Any, tasks: Any) -> None:
    assert session.cores(master) == tasks


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SPARK_DRIVER_MEMORY", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert session._user_settings() == set()
    defaults = "# spark.a 1\nspark.ui.enabled   true\n spark.sql.shuffle.partitions=7\n"
    (tmp_path / "spark-defaults.conf").write_text(defaults)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--driver-memory 2g --conf spark.log.level=INFO pyspark-shell")
    assert session._user_settings() == {
        "spark.driver.memory",
        "spark.log.level",
        "spark.sql.shuffle.partitions",
        "spark.ui.enabled",
    }


def test_the_driver_gets_half_of_the_memory() -> None:
    assert session._size_settings("local[2]", 6 << 30)["spark.driver.memory"] == "3072m"
    assert session._size_settings("local[2]", 64 << 30)["spark.driver.memory"] == "8192m"
    assert session._size_settings("yarn", None) == {}


def test_an_interrupt_waits_until_spark_has_started() -> None:
    with session._defer_interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts == [signal.SIGINT]
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_times_as_people_say_them() -> None:
    assert [terminal.format_seconds(s) for s in (0.0004, 0.25, 1.04, 59.6, 7200)] == [
        "0 ms",
        "250 ms",
        "1.0 s",
        "60 s",
        "2.0 hours",
    ]


def test_a_place_that_cannot_be_written_after_all() -> None:
    nothing: Any = None
    with pytest.raises(InputError, match="cannot be written: no such file or directory"):
        work.write(nothing, OutputPath("/proc/x.csv", "csv", directory=False, overwrite=False), ordered=False)
