"""The command line, in this process on the suite's session; once as a user has it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from command_line import dovetail
from dovetail.optimizer.verification import Verification

BAND = "SELECT p.id, i.name FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi ORDER BY p.id, i.name"
POINTS = [(1, 0), (2, 5), (3, 10), (4, 11), (5, None)]
INTERVALS = [("a", 0, 5), ("b", 5, 10), ("c", 20, 10), ("d", None, 3)]
ANSWER = [[1, "a"], [2, "a"], [2, "b"], [3, "b"]]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same two tables in every format; the path of a format's directory."""
    home = tmp_path_factory.mktemp("cli")
    p = spark.createDataFrame(POINTS, "id INT, x INT").coalesce(1)
    i = spark.createDataFrame(INTERVALS, "name STRING, lo INT, hi INT").coalesce(1)
    for name, frame in (("p", p), ("i", i)):
        frame.write.parquet(str(home / "parquet" / name))
        frame.write.csv(str(home / "csv" / name), header=True)
        frame.write.json(str(home / "json" / name))
    return home


@pytest.fixture
def pi(tables: Any) -> Any:
    """`--table` for both."""
    return [f"--table=p={tables}/parquet/p", "-t", f"i={tables}/parquet/i"]


def test_rows_as_a_table(pi: Any, tmp_path: Path) -> None:
    query = tmp_path / "band.sql"
    query.write_text(BAND + ";\n")
    done = dovetail("run", query, *pi, "--force")
    assert done.exit_code == 0
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()]
    assert rows[0] == ["id", "name"]
    assert rows[2:] == [[str(number), name] for number, name in ANSWER]
    assert done.stderr.startswith("4 rows; ")
    assert done.stderr.endswith("rewritten by band_join, lower_band_join\n")


def test_the_session_is_borrowed(spark: SparkSession, pi: Any) -> None:
    assert dovetail("run", "--sql", BAND, *pi).exit_code == 0
    assert spark.sql("SELECT 1 AS one").collect()[0].one == 1
    assert not spark.catalog.tableExists("p")


@pytest.mark.parametrize("format_", ["parquet", "csv", "json"])
def test_tables_of_every_format(tables: Any, format_: Any) -> None:
    home = tables / format_
    done = dovetail("run", "--sql", BAND, "-t", f"p={home}/p", "-t", f"i={home}/i", "--force", "--json")
    assert done.exit_code == 0
    answer = json.loads(done.stdout)
    assert answer["rows"] == ANSWER
    assert answer["rewritten"]
    assert not answer["more"]


@pytest.mark.usefixtures("spark")
def test_single_files_patterns_and_json_arrays(tmp_path: Path) -> None:
    (tmp_path / "p-1.csv").write_text("id,x\n1,0\n2,5\n")
    (tmp_path / "p-2.csv").write_text("id,x\n3,10\n")
    rows = [{"name": n, "lo": lo, "hi": hi} for n, lo, hi in INTERVALS]
    (tmp_path / "i.json").write_text(json.dumps(rows, indent=1))
    done = dovetail("run", "--sql", BAND, "-t", f"p={tmp_path}/p-*.csv", "-t", f"i={tmp_path}/i.json", "--json")
    assert json.loads(done.stdout)["rows"] == ANSWER


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_a_name_that_could_be_a_pattern(spark: SparkSession, tmp_path: Path, ending: Any) -> None:
    """A file or folder of that name is read, and not what the pattern would match."""
    for name, x in (("t[1]", 1), ("t1", 2)):
        rows = spark.createDataFrame([(x,)], "x INT").coalesce(1)
        writer = rows.write.option("header", "true")
        getattr(writer, ending)(str(tmp_path / name))
    done = dovetail("run", "--json", "--sql", "SELECT x FROM t", "-t", f"t={tmp_path}/t[1]")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == [[1]]
    done = dovetail("run", "--json", "--sql", "SELECT x FROM t", "-t", f"t={tmp_path}/t?")
    assert json.loads(done.stdout)["rows"] == [[2]]


def test_from_stdin_and_limit(pi: Any) -> None:
    done = dovetail("run", "-", *pi, "--limit", 2, "--json", stdin=BAND)
    answer = json.loads(done.stdout)
    assert answer["rows"] == ANSWER[:2]
    assert answer["more"]
    assert [c["name"] for c in answer["columns"]] == ["id", "name"]
    shown = dovetail("run", "-", *pi, "--limit", 2, stdin=BAND)
    assert shown.stderr.startswith("the first 2 rows; ")


@pytest.mark.usefixtures("spark")
def test_values_of_every_kind() -> None:
    done = dovetail(
        "run",
        "--json",
        "--sql",
        "SELECT 1 AS a, 1.50BD AS a, double('NaN') AS c, date'2024-01-02' AS d, "
        "timestamp_ntz'2024-01-02 03:04:05' AS e, x'00ff' AS f, array(1, null) AS g, map(1, 'x') AS h, "
        "named_struct('k', date'2024-01-02') AS i, null AS j, true AS k, '[red]' AS l, INTERVAL '1' DAY AS m",
    )
    assert done.exit_code == 0
    assert json.loads(done.stdout)["rows"] == [
        [1, "1.50", "NaN", "2024-01-02", "2024-01-02 03:04:05", "AP8=", [1, None], {"1": "x"}, {"k": "2024-01-02"},
         None, True, "[red]", "INTERVAL '1' DAY"]
    ]  # fmt: skip
    shown = dovetail("run", "--sql", "SELECT '[red]x' AS `[bold]a`, array('ü', null) AS b, null AS c")
    assert "[bold]a" in shown.stdout
    assert "[red]x" in shown.stdout
    assert '["ü", null]' in shown.stdout
    assert "NULL" in shown.stdout


@pytest.mark.usefixtures("spark")
def test_values_that_python_does_not_have() -> None:
    """Written by Spark: years beyond 9999 and before 1, months, variants, names that come twice."""
    query = (
        "SELECT make_date(10000, 1, 1) AS a, make_date(-5, 1, 1) AS a, INTERVAL 3 MONTH AS b, "
        "INTERVAL '1-2' YEAR TO MONTH AS c, make_interval(1, 2, 3, 4) AS d, "
        "parse_json('{\"k\":[1]}') AS e, double('-inf') AS f, "
        "timestamp_ntz'+10000-01-01 00:00:00' AS g, map(date'2020-01-01', INTERVAL 1 MONTH) AS h, "
        "array(named_struct('a.b', 1.5BD, 'c', null)) AS i, map(1, array(null)) AS j, named_struct('a', 1, 'A', 2) AS k"
    )
    done = dovetail("run", "--json", "--sql", query)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == [
        ["+10000-01-01", "-0005-01-01", "INTERVAL '3' MONTH", "INTERVAL '1-2' YEAR TO MONTH",
         "1 years 2 months 25 days", '{"k":[1]}', "-Infinity", "+10000-01-01 00:00:00",
         {"2020-01-01": "INTERVAL '1' MONTH"}, [{"a.b": "1.5", "c": None}], {"1": [None]}, "{1, 2}"]
    ]  # fmt: skip
    shown = dovetail("run", "--sql", query)
    assert shown.exit_code == 0, shown.stderr
    assert "+10000-01-01   -0005-01-01" in shown.stdout


@pytest.mark.usefixtures("spark")
def test_the_greatest_limit() -> None:
    assert dovetail("run", "--sql", "SELECT 1", "--limit", 2**31 - 2).exit_code == 0
    done = dovetail("run", "--sql", "SELECT 1", "--limit", 2**31 - 1)
    assert done.exit_code == 2
    assert "--limit" in done.stderr


@pytest.mark.usefixtures("spark")
def test_wide_rows_are_not_cut() -> None:
    done = dovetail("run", "--sql", "SELECT repeat('x', 500) AS a, repeat('y', 500) AS b")
    assert done.stdout.splitlines()[-1].split() == ["x" * 500, "y" * 500]


@pytest.mark.usefixtures("spark")
def test_statements_without_rows() -> None:
    done = dovetail("run", "--sql", "CREATE TEMPORARY VIEW v AS SELECT 1")
    assert done.exit_code == 0
    assert done.stdout == ""
    assert done.stderr.startswith("0 rows; ")


@pytest.mark.usefixtures("spark")
def test_statements_of_a_file_run_in_their_order(tmp_path: Path) -> None:
    query = tmp_path / "q.sql"
    query.write_text(
        "CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1 AS a; -- one row\nSELECT a FROM v;\nSELECT 2 AS b\n"
    )
    done = dovetail("run", query)
    assert done.exit_code == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines() if line.strip("─ ")] == [["a"], ["1"], ["b"], ["2"]]
    assert f"statement 2 of 3 ({query}:2)\n1 row; " in done.stderr
    done = dovetail("run", query, "--json")
    assert [result["rows"] for result in json.loads(done.stdout)] == [[], [[1]], [[2]]]
    assert dovetail("run", query, "--out", tmp_path / "rows.json").exit_code == 0
    assert (tmp_path / "rows.json").read_text() == '{"b":2}\n'
    query.write_text("SELECT 1 AS a;\nSELECT nope FROM range(3);\nSELECT 3")
    done = dovetail("run", query)
    assert (done.exit_code, "error: statement 2 of 3 (" in done.stderr) == (1, True)
    done = dovetail("explain", query)
    assert done.exit_code == 0
    assert "-- statement 3 of 3 (" in done.stdout


@pytest.mark.usefixtures("spark")
def test_settings_reach_spark() -> None:
    done = dovetail(
        "run", "--json", "--sql", "SELECT current_timezone()", "-c", "spark.sql.session.timeZone=Asia/Tokyo"
    )
    assert json.loads(done.stdout)["rows"] == [["Asia/Tokyo"]]


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_out_is_one_file_and_keeps_the_order(spark: SparkSession, pi: Any, tmp_path: Path, ending: Any) -> None:
    out = tmp_path / f"answer.{ending}"
    done = dovetail("run", "--sql", BAND, *pi, "--force", "--out", out)
    assert done.exit_code == 0
    assert done.stdout == ""
    assert f"wrote {out} ({ending}, {out.stat().st_size:,} bytes)" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == [out.name]
    if ending == "parquet":
        assert [list(r) for r in spark.read.parquet(str(out)).collect()] == ANSWER
    elif ending == "csv":
        assert out.read_text().splitlines() == ["id,name", *(f"{i},{n}" for i, n in ANSWER)]
    else:
        assert [list(json.loads(line).values()) for line in out.read_text().splitlines()] == ANSWER


def test_out_overwrites_only_when_told(pi: Any, tmp_path: Path) -> None:
    out = tmp_path / "answer.csv"
    out.write_text("precious")
    assert dovetail("run", "--sql", BAND, *pi, "--out", out).exit_code == 2
    assert dovetail("run", "--sql", "SELECT nope", "--out", out, "--overwrite").exit_code == 1
    assert dovetail("run", "--sql", "SELECT raise_error('x')", "--out", out, "--overwrite").exit_code == 1
    assert out.read_text() == "precious"
    done = dovetail("run", "--sql", BAND, *pi, "--out", out, "--overwrite", "--json")
    assert json.loads(done.stdout)["bytes"] == out.stat().st_size
    assert out.read_text().startswith("id,name\n")


@pytest.mark.usefixtures("spark")
def test_out_may_be_one_of_the_tables(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("x\n1\n2\n")
    done = dovetail("run", "--sql", "SELECT x + 1 AS x FROM t", "-t", f"t={table}", "--out", table, "--overwrite")
    assert done.exit_code == 0
    assert sorted(table.read_text().splitlines()) == ["2", "3", "x"]


def test_out_as_a_directory(spark: SparkSession, pi: Any, tmp_path: Path) -> None:
    for args in ([], ["--overwrite"]):
        done = dovetail("run", "--sql", BAND, *pi, "--out", f"{tmp_path}/answer/", *args)
        assert done.exit_code == 0
        assert "(a directory of parquet, " in done.stderr
        assert sorted(list(r) for r in spark.read.parquet(f"{tmp_path}/answer").collect()) == ANSWER
    assert dovetail("run", "--sql", BAND, *pi, "--out", f"{tmp_path}/answer/").exit_code == 2
    assert [p.name for p in tmp_path.iterdir()] == ["answer"]


def test_out_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    for ending in ("csv", "parquet", "json"):
        sql = "SELECT id FROM range(10) WHERE id > 20"
        assert dovetail("run", "--sql", sql, "--out", tmp_path / f"none.{ending}").exit_code == 0
    assert spark.read.parquet(str(tmp_path / "none.parquet")).columns == ["id"]
    assert (tmp_path / "none.json").read_text() == ""


@pytest.mark.parametrize("command", ["run", "explain", "rewrite", "verify"])
@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELEC 1", "[PARSE_SYNTAX_ERROR]"),
        ("SELECT * FROM no_such_table", "[TABLE_OR_VIEW_NOT_FOUND]"),
        ("SELECT nope FROM range(3)", "[UNRESOLVED_COLUMN.WITH_SUGGESTION]"),
        ("SELECT 1 / 0", "[DIVIDE_BY_ZERO]"),
    ],
)
def test_sparks_own_errors(spark: SparkSession, command: Any, sql: Any, said: Any) -> None:
    done = dovetail(command, "--sql", sql)
    if command == "run":
        assert done.exit_code == 1
        assert done.stdout == ""
        assert done.stderr.startswith(f"error: {said}")
        assert "+- " not in done.stderr
        assert "Traceback" not in done.stderr
        assert "JVM stacktrace" not in done.stderr
    elif command == "verify" and said in {"[TABLE_OR_VIEW_NOT_FOUND]", "[UNRESOLVED_COLUMN.WITH_SUGGESTION]"}:
        assert done.exit_code == 1  # what is not rewritten is analyzed
        assert done.stderr.startswith(f"error: {said}")
        assert "Traceback" not in done.stderr
    else:  # a query that is not rewritten is Spark's affair, when it runs
        assert done.exit_code == 0
        assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("spark")
def test_a_broken_table_is_sparks_error(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("not parquet")
    done = dovetail("run", "--sql", "SELECT * FROM t", "-t", f"t={tmp_path}/t.parquet")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: --table t={tmp_path}/t.parquet: ")
    assert "t.parquet is not a Parquet file" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("mode", ["plan", "trace", "cost", "sql", "json"])
def test_explain(pi: Any, mode: Any) -> None:
    done = dovetail("explain", "--sql", BAND, *pi, "--force", "--mode", mode)
    assert done.exit_code == 0
    if mode == "json":
        plan = json.loads(done.stdout)
        assert plan["rewritten"]
        assert plan["rules"] == ["band_join", "lower_band_join"]
    else:
        found = {"trace": "recognize / band_join", "sql": "explode("}
        assert found.get(mode, "LevelBandJoin") in done.stdout


def test_explain_writes_a_page(pi: Any, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    done = dovetail("explain", "--sql", BAND, *pi, "--force", "--mode", "html", "--out", str(page))
    assert done.exit_code == 0, done.stderr
    assert done.stdout == ""
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "<b>LevelBandJoin</b>" in text
    assert dovetail("explain", "--sql", BAND, *pi, "--force", "--out", str(page), "--overwrite").exit_code == 0
    assert "doctype" not in page.read_text(encoding="utf-8")


def test_explain_says_why_not(pi: Any) -> None:
    done = dovetail("explain", "--sql", BAND, *pi)
    assert "lower_band_join declined: " in done.stdout
    assert "nested_loop_pairs" in done.stdout
    some = dovetail("explain", "--sql", BAND, *pi, "-o", "nested_loop_pairs=0", "-o", "broadcast_pairs=0")
    assert "LevelBandJoin" in some.stdout


def test_rewrite_prints_sql_that_spark_runs(spark: SparkSession, tables: Any, pi: Any) -> None:
    done = dovetail("rewrite", "--sql", BAND, *pi, "--force")
    assert done.exit_code == 0
    assert done.stderr == ""
    other = spark.newSession()
    for name in ("p", "i"):
        other.read.parquet(f"{tables}/parquet/{name}").createOrReplaceTempView(name)
    assert [list(r) for r in other.sql(done.stdout).collect()] == ANSWER


@pytest.mark.usefixtures("spark")
def test_rewrite_leaves_other_queries_alone() -> None:
    sql = "SELECT  id -- words\nFROM range(3)\n"
    assert dovetail("rewrite", "-", stdin=sql).stdout == sql
    assert dovetail("rewrite", "--sql", "SELECT 1 AS x").stdout == "SELECT 1 AS x\n"


def test_verify(pi: Any) -> None:
    done = dovetail("verify", "--sql", BAND, *pi, "--force")
    assert done.exit_code == 0
    assert done.stdout.startswith("same: 4 rows both ways; ")
    found = json.loads(dovetail("verify", "--sql", BAND, *pi, "--force", "--json").stdout)
    assert set(found.pop("seconds")) == {"written", "rewritten"}
    compared = {"same": True, "rewritten": True, "rows": 4, "missing": 0, "extra": 0, "schema": None}
    assert found == {**compared, "sample": "", "stopped": "", "explanations": [], "differences": []}
    measured = json.loads(dovetail("verify", "--sql", BAND, *pi, "--force", "--json", "--measure").stdout)
    assert set(measured.pop("seconds")) == {"written", "rewritten"}
    assert measured == found
    assert dovetail("verify", "--sql", BAND, *pi).stdout.startswith("not rewritten")


def test_a_shadow_report_verifies(pi: Any, tmp_path: Path) -> None:
    log = tmp_path / "statements.jsonl"
    log.write_text(json.dumps({"hash": "8a3f2c11", "outcome": "shadow", "rules": ["band_join"], "text": BAND}))
    done = dovetail("shadow-report", log, "--verify", 3, *pi, "--force")
    assert done.exit_code == 0, done.stderr
    assert re.search(r"8a3f2c11: same: 4 rows both ways; [\d.]+ s as written, [\d.]+ s rewritten\n", done.stdout)
    for more, reason in (((), "not rewritten: "), (("--force", "--timeout", 0.1), "not compared: stopped after 0.1 s")):
        done = dovetail("shadow-report", log, "--verify", 3, *pi, *more)
        assert f"8a3f2c11: {reason}" in done.stdout
        assert done.stderr.endswith(
            f"Nothing is verified: no statement of {log} could be compared, for the reasons above\n"
        )
        assert done.exit_code == 1


def test_estimate(pi: Any) -> None:
    text = "SELECT i.name, count(*) AS n, sum(p.id) AS ids FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi GROUP BY i.name"
    text += " ORDER BY i.name"
    done = dovetail("estimate", "--sql", text, *pi, "--error", "1%", "--seed", 3)
    assert done.exit_code == 0
    assert [line.split() for line in done.stdout.splitlines()[2:4]] == [["a", "2", "3"], ["b", "2", "5"]]
    assert "Exact, from all rows" in done.stdout
    found = json.loads(dovetail("estimate", "--sql", text, *pi, "--json", "--confidence", "0.9").stdout)
    assert found["exact"]
    assert found["columns"] == ["name", "n", "ids"]
    assert found["rows"][0]["values"][1] == {"estimate": 2, "low": 2, "high": 2}
    for given, message in (("--error=much", "--error much is no number"), ("--error=120%", "error=1.2 is no relative")):
        done = dovetail("estimate", "--sql", text, *pi, given)
        assert done.exit_code == 2
        assert message in done.stderr


def test_the_page_of_verify(pi: Any, tmp_path: Path) -> None:
    page = tmp_path / "band.html"
    done = dovetail("verify", "--sql", BAND, *pi, "--force", "--measure", "--html", str(page))
    assert done.exit_code == 0, done.stderr
    assert re.fullmatch(r"same: 4 rows both ways; \d+\.\d\d s as written, \d+\.\d\d s rewritten\n", done.stdout)
    assert "4 rows</div>" in page.read_text()
    nowhere = dovetail("verify", "--sql", BAND, *pi, "--html", str(tmp_path / "no" / "band.html"))
    assert (nowhere.exit_code, nowhere.stdout) == (2, "")
    assert f"--html {tmp_path}/no/band.html: there is no directory {tmp_path}/no" in nowhere.stderr.replace("\n", "")


SELF_JOIN = "SELECT a.x FROM p a JOIN p b ON a.id = b.id"


def test_a_key_makes_a_self_join_one_scan(pi: Any) -> None:
    found = dovetail("rewrite", "--sql", SELF_JOIN, *pi, "--key", "p=id").stdout
    assert "LATERAL (SELECT a.id, a.x) AS b" in found
    assert dovetail("rewrite", "--sql", SELF_JOIN, *pi).stdout.strip() == SELF_JOIN
    wrong = dovetail("rewrite", "--sql", SELF_JOIN, *pi, "--key", "p=idd")
    assert wrong.exit_code == 2
    assert "p has no column 'idd'" in wrong.stderr


def test_verify_finds_a_difference(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from dovetail.optimizer.api import Optimizer

    monkeypatch.setattr(Optimizer, "verify", lambda *_, **__: Verification(False, 4, 1, 2, True))
    done = dovetail("verify", "--sql", "SELECT 1")
    assert done.exit_code == 1
    assert done.stdout == "different: 1 row missing, 2 rows too many, of 4\n"


@pytest.mark.spark
def test_as_a_user_has_it(tmp_path: Path) -> None:
    """A process of its own: only JSON on stdout, nothing on stderr, nothing left behind."""
    main = [sys.executable, "-c", "from dovetail.optimizer.cli.main import main; main()"]
    (tmp_path / "p.csv").write_text("x\n1\n2\n")
    root = Path(__file__).parents[1]
    query = "SELECT sum(x) AS s FROM p"
    done = subprocess.run(
        [*main, "run", "--json", "--sql", query, "-t", "p=p.csv", "--master", "local[1]"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "PYTHONPATH": str(root)} | _java_home(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout)["rows"] == [[3]]
    assert [p.name for p in tmp_path.iterdir()] == ["p.csv"]


def _java_home() -> Any:
    return {name: os.environ[name] for name in ("JAVA_HOME", "PATH") if name in os.environ}


@pytest.mark.spark
def test_a_jvm_that_ends(tmp_path: Path) -> None:
    main = [sys.executable, "-c", "from dovetail.optimizer.cli.main import main; main()", "run", "--master", "local[1]"]
    query = ["--sql", "SELECT java_method('java.lang.System', 'exit', 3)"]
    done = subprocess.run([*main, *query], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith("error: Spark")  # its JVM has gone, or says in its last words that it goes
    assert done.stderr.count("\n") == 1


@pytest.mark.spark
def test_a_spark_that_does_not_start(tmp_path: Path) -> None:
    main = [sys.executable, "-c", "from dovetail.optimizer.cli.main import main; main()", "run", "--sql", "SELECT 1"]
    done = subprocess.run(
        [*main, "--master", "nowhere"], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert done.stderr.startswith("error: Spark did not start: ")
    assert "master" in done.stderr.lower()
    assert done.stderr.count("\n") == 1


@pytest.mark.connect
def test_on_spark_connect(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("x\n1\n2\n")
    main = [sys.executable, "-c", "from dovetail.optimizer.cli.main import main; main()", "run", "--remote", "local[1]"]
    query = ["--sql", "SELECT sum(x) AS s FROM p", "-t", f"p={tmp_path}/p.csv", "--out", f"{tmp_path}/s.csv"]
    done = subprocess.run(
        [*main, *query, "--json"], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert json.loads(done.stdout)["out"] == f"{tmp_path}/s.csv"
    assert (tmp_path / "s.csv").read_text() == "s\n3\n"
