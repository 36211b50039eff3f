"""The command line, in this process on the suite's session; once as a user has it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from optimizer.cli import app
from optimizer.commands import about, say, work
from optimizer.commands.inputs import format_of, read_output
from optimizer.doctor import Check
from optimizer.verify import Verification
from planner.errors import EnvironmentProblem
from planner.runtime import session
from rules.batches import RULES

BAND = "SELECT p.id, i.name FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi ORDER BY p.id, i.name"
POINTS = [(1, 0), (2, 5), (3, 10), (4, 11), (5, None)]
INTERVALS = [("a", 0, 5), ("b", 5, 10), ("c", 20, 10), ("d", None, 3)]
ANSWER = [[1, "a"], [2, "a"], [2, "b"], [3, "b"]]


def dovetail(*args, stdin=None):
    return CliRunner().invoke(app, [str(a) for a in args], input=stdin)


@pytest.fixture
def no_spark(monkeypatch):
    """Whatever is wrong is said before Spark is asked for."""

    def started(*_args, **_kwargs):
        raise AssertionError("Spark was started")

    monkeypatch.setattr(work, "require_java", started)


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
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
def pi(tables):
    """`--table` for both."""
    return [f"--table=p={tables}/parquet/p", "-t", f"i={tables}/parquet/i"]


# What needs no Spark


def test_help_names_every_command():
    done = dovetail("--help")
    assert done.exit_code == 0
    for command in ("demo", "run", "explain", "rewrite", "verify", "rules", "doctor"):
        assert f" {command} " in done.stdout
        assert dovetail(command, "--help").exit_code == 0


def test_no_command_is_a_usage_error():
    done = dovetail()
    assert done.exit_code == 2
    assert "Usage: " in done.stdout + done.stderr


def test_version():
    done = dovetail("--version")
    assert done.exit_code == 0
    assert done.stdout.strip()


@pytest.mark.parametrize("command", [["--help"], ["run", "--help"], ["rules"], ["doctor"], ["run", "nothing.sql"]])
def test_pyspark_is_not_imported_before_it_is_needed(command):
    code = (
        "import sys; from optimizer.cli import app\n"
        f"try: app({command!r})\n"
        "except SystemExit: print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_rules_says_what_each_does():
    said = " ".join(dovetail("rules").stdout.split())
    for rule in RULES:
        assert rule.name in said
        assert rule.why in said


def test_rules_as_json():
    listed = json.loads(dovetail("rules", "--json").stdout)
    assert [r["name"] for r in listed] == [r.name for r in RULES]
    assert set(listed[0]) == {"name", "batch", "why", "doc"}


WELL = Check("Java", ok=True, found="17 at /java", remedy="")
ILL = Check("Memory", ok=False, found="0.1 GiB available", remedy="free some")


@pytest.mark.parametrize(("checks", "code"), [((WELL,), 0), ((WELL, ILL), 1)])
def test_doctor(monkeypatch, checks, code):
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
        (["SELECT * FROM p"], "a query itself goes behind --sql"),
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
def test_what_cannot_be_used_is_said_before_work(no_spark, monkeypatch, tmp_path, command, args, said):
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
        (["--out", "there.csv/", "--overwrite"], "that is a file"),
        (["--out", "taken/"], "taken/ exists; --overwrite replaces it"),
        (["--out", "taken/", "--overwrite"], "mine.txt was not written by Spark"),
        (["--out", "taken.csv", "--overwrite"], "that is a directory; end it in /"),
        (["--out", "answer"], "end it in .parquet, .csv"),
        (["--out", "answer.txt"], "end it in .parquet, .csv"),
        (["--out", "answer.csv.gz"], "compressed text is not written"),
        (["--out", "gone/answer.csv"], "there is no directory gone"),
        (["--overwrite"], "there is no --out"),
    ],
)
def test_an_output_that_cannot_be_written_is_left_alone(no_spark, monkeypatch, tmp_path, args, said):
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
    "args",
    [["run", "--limit", "0", "--sql", "SELECT 1"], ["explain", "--mode", "html", "--sql", "SELECT 1"], ["runn"]],
)
def test_usage_errors(no_spark, args):
    done = dovetail(*args)
    assert done.exit_code == 2
    assert done.stdout == ""


def test_no_java_is_one_sentence(monkeypatch):
    def missing():
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
def test_a_server_that_is_not_there(no_spark, remote, code, said):
    done = dovetail("run", "--sql", "SELECT 1", "--remote", remote)
    assert done.exit_code == code
    assert said in done.stderr


def test_formats_by_their_endings():
    assert [format_of(p) for p in ("a.PARQUET", "a/b.csv.gz", "x.jsonl", "y.ndjson", "dir/", "z.orc", "csv")] == [
        "parquet", "csv", "json", "json", None, None, None,
    ]  # fmt: skip


def test_outputs_elsewhere_are_left_to_spark(tmp_path):
    there = read_output("s3a://bucket/answer.csv", overwrite=False, here=True)
    assert there is not None
    assert (there.format, there.directory) == ("csv", True)
    assert read_output(str(tmp_path / "no" / "x.json"), overwrite=False, here=False).directory


@pytest.mark.parametrize(
    ("master", "tasks"),
    [("local", 1), ("local[3]", 3), ("local[2, 4]", 2), ("local-cluster[2,3,1024]", 6), ("yarn", None)],
)
def test_tasks_of_a_master(master, tasks):
    assert session.cores(master) == tasks


def test_what_the_user_has_set_stays(monkeypatch, tmp_path):
    for name in ("SPARK_DRIVER_MEMORY", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert session._set_by_the_user() == set()
    defaults = "# spark.a 1\nspark.ui.enabled   true\n spark.sql.shuffle.partitions=7\n"
    (tmp_path / "spark-defaults.conf").write_text(defaults)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--driver-memory 2g --conf spark.log.level=INFO pyspark-shell")
    assert session._set_by_the_user() == {
        "spark.driver.memory",
        "spark.log.level",
        "spark.sql.shuffle.partitions",
        "spark.ui.enabled",
    }


def test_the_driver_gets_half_of_the_memory():
    assert session._sized("local[2]", 6 << 30)["spark.driver.memory"] == "3072m"
    assert session._sized("local[2]", 64 << 30)["spark.driver.memory"] == "8192m"
    assert session._sized("yarn", None) == {}


def test_an_interrupt_waits_until_spark_has_started():
    with session._uninterrupted() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts == [signal.SIGINT]
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


# On Spark


def test_rows_as_a_table(pi, tmp_path):
    query = tmp_path / "band.sql"
    query.write_text(BAND + ";\n")
    done = dovetail("run", query, *pi, "--force")
    assert done.exit_code == 0
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()]
    assert rows[0] == ["id", "name"]
    assert rows[2:] == [[str(number), name] for number, name in ANSWER]
    assert done.stderr.startswith("4 rows; ")
    assert done.stderr.endswith("rewritten by band_join, lower_band_join\n")


def test_the_session_is_borrowed(spark, pi):
    assert dovetail("run", "--sql", BAND, *pi).exit_code == 0
    assert spark.sql("SELECT 1 AS one").collect()[0].one == 1
    assert not spark.catalog.tableExists("p")


@pytest.mark.parametrize("format_", ["parquet", "csv", "json"])
def test_tables_of_every_format(tables, format_):
    home = tables / format_
    done = dovetail("run", "--sql", BAND, "-t", f"p={home}/p", "-t", f"i={home}/i", "--force", "--json")
    assert done.exit_code == 0
    answer = json.loads(done.stdout)
    assert answer["rows"] == ANSWER
    assert answer["rewritten"]
    assert not answer["more"]


@pytest.mark.usefixtures("spark")
def test_single_files_patterns_and_json_arrays(tmp_path):
    (tmp_path / "p-1.csv").write_text("id,x\n1,0\n2,5\n")
    (tmp_path / "p-2.csv").write_text("id,x\n3,10\n")
    rows = [{"name": n, "lo": lo, "hi": hi} for n, lo, hi in INTERVALS]
    (tmp_path / "i.json").write_text(json.dumps(rows, indent=1))
    done = dovetail("run", "--sql", BAND, "-t", f"p={tmp_path}/p-*.csv", "-t", f"i={tmp_path}/i.json", "--json")
    assert json.loads(done.stdout)["rows"] == ANSWER


def test_from_stdin_and_limit(pi):
    done = dovetail("run", "-", *pi, "--limit", 2, "--json", stdin=BAND)
    answer = json.loads(done.stdout)
    assert answer["rows"] == ANSWER[:2]
    assert answer["more"]
    assert [c["name"] for c in answer["columns"]] == ["id", "name"]
    shown = dovetail("run", "-", *pi, "--limit", 2, stdin=BAND)
    assert shown.stderr.startswith("the first 2 rows of more; ")


@pytest.mark.usefixtures("spark")
def test_values_of_every_kind():
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
        [1, "1.50", "nan", "2024-01-02", "2024-01-02 03:04:05", "AP8=", [1, None], {"1": "x"}, {"k": "2024-01-02"},
         None, True, "[red]", "1 day, 0:00:00"]
    ]  # fmt: skip
    shown = dovetail("run", "--sql", "SELECT '[red]x' AS `[bold]a`, array('ü', null) AS b, null AS c")
    assert "[bold]a" in shown.stdout
    assert "[red]x" in shown.stdout
    assert '["ü", null]' in shown.stdout
    assert "NULL" in shown.stdout


@pytest.mark.usefixtures("spark")
def test_wide_rows_are_not_cut():
    done = dovetail("run", "--sql", "SELECT repeat('x', 500) AS a, repeat('y', 500) AS b")
    assert done.stdout.splitlines()[-1].split() == ["x" * 500, "y" * 500]


@pytest.mark.usefixtures("spark")
def test_statements_without_rows():
    done = dovetail("run", "--sql", "CREATE TEMPORARY VIEW v AS SELECT 1")
    assert done.exit_code == 0
    assert done.stdout == ""
    assert done.stderr.startswith("0 rows; ")


@pytest.mark.usefixtures("spark")
def test_settings_reach_spark():
    done = dovetail(
        "run", "--json", "--sql", "SELECT current_timezone()", "-c", "spark.sql.session.timeZone=Asia/Tokyo"
    )
    assert json.loads(done.stdout)["rows"] == [["Asia/Tokyo"]]


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_out_is_one_file_and_keeps_the_order(spark, pi, tmp_path, ending):
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


def test_out_overwrites_only_when_told(pi, tmp_path):
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
def test_out_may_be_one_of_the_tables(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("x\n1\n2\n")
    done = dovetail("run", "--sql", "SELECT x + 1 AS x FROM t", "-t", f"t={table}", "--out", table, "--overwrite")
    assert done.exit_code == 0
    assert sorted(table.read_text().splitlines()) == ["2", "3", "x"]


def test_out_as_a_directory(spark, pi, tmp_path):
    for args in ([], ["--overwrite"]):
        done = dovetail("run", "--sql", BAND, *pi, "--out", f"{tmp_path}/answer/", *args)
        assert done.exit_code == 0
        assert "(a directory of parquet, " in done.stderr
        assert sorted(list(r) for r in spark.read.parquet(f"{tmp_path}/answer").collect()) == ANSWER
    assert dovetail("run", "--sql", BAND, *pi, "--out", f"{tmp_path}/answer/").exit_code == 2
    assert [p.name for p in tmp_path.iterdir()] == ["answer"]


def test_out_without_rows(spark, tmp_path):
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
def test_sparks_own_errors(spark, command, sql, said):
    done = dovetail(command, "--sql", sql)
    if command == "run":
        assert done.exit_code == 1
        assert done.stdout == ""
        assert done.stderr.startswith(f"error: {said}")
        assert "+- " not in done.stderr
        assert "Traceback" not in done.stderr
        assert "JVM stacktrace" not in done.stderr
    else:  # a query that is not rewritten is Spark's affair, when it runs
        assert done.exit_code == 0
        assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("spark")
def test_a_broken_table_is_sparks_error(tmp_path):
    (tmp_path / "t.parquet").write_text("not parquet")
    done = dovetail("run", "--sql", "SELECT * FROM t", "-t", f"t={tmp_path}/t.parquet")
    assert done.exit_code == 1
    assert "t.parquet is not a Parquet file" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("mode", ["plan", "trace", "cost", "sql", "json"])
def test_explain(pi, mode):
    done = dovetail("explain", "--sql", BAND, *pi, "--force", "--mode", mode)
    assert done.exit_code == 0
    if mode == "json":
        plan = json.loads(done.stdout)
        assert plan["rewritten"]
        assert plan["rules"] == ["band_join", "lower_band_join"]
    else:
        assert {"plan": "LevelBandJoin", "trace": "recognize / band_join", "cost": "LevelBandJoin", "sql": "explode("}[
            mode
        ] in done.stdout


def test_explain_says_why_not(pi):
    done = dovetail("explain", "--sql", BAND, *pi)
    assert "lower_band_join held back: " in done.stdout
    assert "nested_loop_pairs" in done.stdout
    some = dovetail("explain", "--sql", BAND, *pi, "-o", "nested_loop_pairs=0", "-o", "broadcast_pairs=0")
    assert "LevelBandJoin" in some.stdout


def test_rewrite_prints_sql_that_spark_runs(spark, tables, pi):
    done = dovetail("rewrite", "--sql", BAND, *pi, "--force")
    assert done.exit_code == 0
    assert done.stderr == ""
    other = spark.newSession()
    for name in ("p", "i"):
        other.read.parquet(f"{tables}/parquet/{name}").createOrReplaceTempView(name)
    assert [list(r) for r in other.sql(done.stdout).collect()] == ANSWER


@pytest.mark.usefixtures("spark")
def test_rewrite_leaves_other_queries_alone():
    sql = "SELECT  id -- words\nFROM range(3)\n"
    assert dovetail("rewrite", "-", stdin=sql).stdout == sql
    assert dovetail("rewrite", "--sql", "SELECT 1 AS x").stdout == "SELECT 1 AS x\n"


def test_verify(pi):
    done = dovetail("verify", "--sql", BAND, *pi, "--force")
    assert done.exit_code == 0
    assert done.stdout == "same: 4 rows both ways\n"
    found = json.loads(dovetail("verify", "--sql", BAND, *pi, "--force", "--json").stdout)
    assert found == {"same": True, "rewritten": True, "rows": 4, "missing": 0, "extra": 0}
    assert dovetail("verify", "--sql", BAND, *pi).stdout.startswith("not rewritten")


SELF_JOIN = "SELECT a.x FROM p a JOIN p b ON a.id = b.id"


def test_a_key_makes_a_self_join_one_scan(pi):
    found = dovetail("rewrite", "--sql", SELF_JOIN, *pi, "--key", "p=id").stdout
    assert "LATERAL (SELECT a.id, a.x) AS b" in found
    assert dovetail("rewrite", "--sql", SELF_JOIN, *pi).stdout.strip() == SELF_JOIN
    wrong = dovetail("rewrite", "--sql", SELF_JOIN, *pi, "--key", "p=idd")
    assert wrong.exit_code == 2
    assert "p has no column 'idd'" in wrong.stderr


def test_verify_finds_a_difference(spark, monkeypatch):
    from optimizer.api import Optimizer

    monkeypatch.setattr(Optimizer, "verify", lambda *_: Verification(False, 4, 1, 2, True))
    done = dovetail("verify", "--sql", "SELECT 1")
    assert done.exit_code == 1
    assert done.stdout == "different: 1 rows missing, 2 rows too many, of 4\n"


@pytest.mark.spark
def test_as_a_user_has_it(tmp_path):
    """A process of its own: only JSON on stdout, nothing on stderr, nothing left behind."""
    main = [sys.executable, "-c", "from optimizer.cli import main; main()"]
    (tmp_path / "p.csv").write_text("x\n1\n2\n")
    root = Path(__file__).parents[1]
    query = "SELECT sum(x) AS s FROM p"
    done = subprocess.run(
        [*main, "run", "--json", "--sql", query, "-t", "p=p.csv", "--master", "local[1]"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "PYTHONPATH": str(root)} | _java_home(),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout)["rows"] == [[3]]
    assert [p.name for p in tmp_path.iterdir()] == ["p.csv"]


def _java_home():
    return {name: os.environ[name] for name in ("JAVA_HOME", "PATH") if name in os.environ}


@pytest.mark.spark
def test_a_spark_that_does_not_start(tmp_path):
    main = [sys.executable, "-c", "from optimizer.cli import main; main()", "run", "--sql", "SELECT 1"]
    done = subprocess.run(
        [*main, "--master", "nowhere"], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert done.stderr.startswith("error: Spark did not start: ")
    assert "master" in done.stderr.lower()
    assert done.stderr.count("\n") == 1


def test_times_as_people_say_them():
    assert [say.seconds(s) for s in (0.0004, 0.25, 1.04, 59.6, 7200)] == [
        "0 ms",
        "250 ms",
        "1.0 s",
        "60 s",
        "2.0 hours",
    ]


@pytest.mark.connect
def test_on_spark_connect(tmp_path):
    (tmp_path / "p.csv").write_text("x\n1\n2\n")
    main = [sys.executable, "-c", "from optimizer.cli import main; main()", "run", "--remote", "local[1]"]
    query = ["--sql", "SELECT sum(x) AS s FROM p", "-t", f"p={tmp_path}/p.csv", "--out", f"{tmp_path}/s.csv"]
    done = subprocess.run(
        [*main, *query, "--json"], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert json.loads(done.stdout)["out"] == f"{tmp_path}/s.csv"
    assert (tmp_path / "s.csv").read_text() == "s\n3\n"
