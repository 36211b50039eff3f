"""Advice over a workload: planted nested loops are found with their places, and nothing else is reported."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from command_line import dovetail
from dovetail import Optimizer
from dovetail.optimizer.advise.advice import advise
from dovetail.optimizer.advise.planners import OfflinePlanner, SessionWorkloadPlanner
from dovetail.optimizer.advise.report import Report
from dovetail.optimizer.advise.workload import read_workload
from dovetail.optimizer.options import Options
from dovetail.planner.catalog import Settings
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.offline_catalog.catalog import CatalogFile, Table
from dovetail.planner.offline_catalog.read_catalog import read_catalog
from dovetail.planner.types.schema import Column, sql_type

CATALOG = """
[tables.e]
columns = { id = "BIGINT", user_id = "BIGINT", ts = "TIMESTAMP" }
rows = 20_000_000
bytes = 640_000_000

[tables.s]
columns = { id = "BIGINT", user_id = "BIGINT", starts = "TIMESTAMP", ends = "TIMESTAMP" }
rows = 1_000_000
bytes = 40_000_000
"""

# ¤ is where the report has to point.
BAD = (
    "FROM e JOIN s ON ¤e.ts > s.starts",
    "FROM e JOIN s ON ¤e.ts BETWEEN s.starts AND s.ends",
    "FROM e ¤CROSS JOIN s",
    "FROM e¤, s",
    "FROM e LEFT JOIN s ON ¤e.user_id <> s.user_id",
    "FROM e FULL JOIN s ON ¤e.id = s.id OR e.ts < s.starts",
    "FROM e JOIN s ON e.id = 5 AND ¤e.ts < s.ends",
    "FROM e, s WHERE ¤e.ts < s.ends",
    "FROM e WHERE EXISTS (SELECT 1 FROM s WHERE ¤s.starts < e.ts)",
    "FROM e LEFT ANTI JOIN s ON ¤e.ts < s.starts",
    "FROM e JOIN s ON e.id = s.id JOIN s t ON ¤e.ts < t.starts",
)
GOOD = (
    "FROM e JOIN s ON e.id = s.id",
    "FROM e, s, e f WHERE e.id = f.id AND f.user_id = s.user_id",
    "FROM e LEFT JOIN s ON e.id = s.id AND e.ts < s.ends",
    "FROM e JOIN s ON (e.id = s.id AND e.ts < s.ends) OR (e.id = s.id AND e.ts > s.starts)",
    "FROM e WHERE EXISTS (SELECT 1 FROM s WHERE s.id = e.id AND s.starts < e.ts)",
    "FROM e WHERE e.id NOT IN (SELECT s.id FROM s)",
    "FROM e CROSS JOIN (SELECT max(s.ends) AS last FROM s) m WHERE e.ts < m.last",
    "FROM e JOIN s USING (user_id)",
    "FROM (SELECT e.id, s.id AS other FROM e, s) e WHERE e.id = e.other",
)
PLACES = (
    "{q}",
    "SELECT count(*) FROM (\n  {q}\n) AS d",
    "WITH w AS (\n  {q}\n)\nSELECT * FROM w",
    "SELECT e.id FROM e JOIN s ON e.id = s.id\nUNION ALL\n{q}",
    "INSERT INTO archive\n{q}",
    "CREATE OR REPLACE VIEW v AS\n  {q}",
    "SELECT (SELECT count(*) FROM (\n{q}) AS d) AS n",
    "SELECT f.id FROM e f WHERE f.id IN (\n  {q}\n)",
    "/* ; */ SELECT ';' AS semicolon, d.id FROM (WITH w AS ({q}) SELECT * FROM w) AS d",
)


def plant(folder: Path, seed: int, count: int = 20) -> set[tuple[str, int, int]]:
    """Write files of statements, ``count`` of them with a nested loop; returns the places of these."""
    rng = random.Random(seed)
    made = [rng.choice(PLACES).format(q=f"SELECT e.id {rng.choice(BAD)}") for _ in range(count)]
    made += [rng.choice(PLACES).format(q=f"SELECT e.id {rng.choice(GOOD)}") for _ in range(count)]
    rng.shuffle(made)
    expected: set[tuple[str, int, int]] = set()
    while made:
        chosen = [made.pop() for _ in range(min(len(made), rng.randint(1, 4)))]
        text = "-- a comment; with a semicolon\n" * rng.randint(0, 2) + ";\n\n".join(chosen) + rng.choice(("", ";"))
        name = f"{rng.choice(('', 'deep/', 'deep/er/'))}q{len(made)}.sql"
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        while "¤" in text:
            at = text.index("¤")
            text = text.replace("¤", "", 1)
            expected.add((name, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)))
        path.write_text(text)
    return expected


def found(report: Report) -> set[tuple[str, int, int]]:
    return {(s.file, loop.place.line, loop.place.column) for s in report.statements for loop in s.loops}


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    path = tmp_path / "catalog.toml"
    path.write_text(CATALOG)
    return path


@pytest.mark.parametrize("seed", range(5))
def test_planted_nested_loops_are_found_and_nothing_else(tmp_path: Path, catalog: Path, seed: int) -> None:
    expected = plant(tmp_path / "q", seed)
    assert len(expected) == 20
    report = advise(read_workload(str(tmp_path / "q")), OfflinePlanner(read_catalog(catalog), Options()))
    assert [s.problem for s in report.statements if s.problem] == []
    assert found(report) == expected


def test_spark_agrees_on_which_joins_are_nested_loops(spark: Any) -> None:
    from dovetail.executor.session.physical_plan import count_nested_loops

    session = spark.newSession()
    rows = "SELECT id, id % 7 AS user_id, timestamp_seconds(id) AS ts FROM range(50)"
    session.sql(rows).createOrReplaceTempView("e")
    session.sql("SELECT id, user_id, ts AS starts, ts AS ends FROM e").createOrReplaceTempView("s")
    texts = [f"SELECT e.id {text.replace('¤', '')}" for text in (*BAD, *GOOD)]
    loops = [count_nested_loops(session, text) > 0 for text in texts]
    one_row = [n for n, text in enumerate(texts) if "max(s.ends)" in text]  # a loop over one row, which costs nothing
    expected = [n < len(BAD) or n in one_row for n in range(len(texts))]
    assert dict(zip(texts, loops, strict=True)) == dict(zip(texts, expected, strict=True))


def test_on_a_session_statements_are_verified(spark: Any, tmp_path: Path) -> None:
    session = spark.newSession()
    session.sql("SELECT id, CAST(id AS DOUBLE) AS x FROM range(50)").createOrReplaceTempView("p")
    session.sql("SELECT id, x AS lo, x + 2 AS hi FROM p").createOrReplaceTempView("i")
    (tmp_path / "a.sql").write_text(
        "CREATE VIEW near AS SELECT p.id FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi;\n"
        "SELECT p.id AS p, i.id AS i FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi;\n"
        "SELECT count(*) FROM near;\nSELECT nothing FROM p;\nSELECT p.id FROM p JOIN i ON p.id = i.id\n"
    )
    planner = SessionWorkloadPlanner(Optimizer(session, Options(force=True)))
    report = advise(read_workload(str(tmp_path)), planner, verify=True)
    by_line = {s.place.line: s for s in report.statements}
    assert by_line[2].status == "rewritten"
    assert by_line[2].same
    assert by_line[2].verified.startswith("same: 147 rows both ways; ")
    assert [loop.removed for loop in by_line[2].loops] == [True]
    assert by_line[3].problem == ""
    assert "nothing" in by_line[4].problem
    assert by_line[5].loops == ()
    planner.measure = True
    report = advise(read_workload(str(tmp_path)), planner, verify=True)
    first = report.statements[0].to_json()
    assert first["verified"].startswith("same: 147 rows both ways; ")
    assert set(first["seconds_measured"]) == {"written", "rewritten"}


@pytest.mark.parametrize("suite", ["tpch", "tpcds"])
def test_no_false_alarm_on_tpc(suite: str, tmp_path: Path) -> None:
    from tpc import data

    for name, text in data.queries(suite).items():
        (tmp_path / f"{name}.sql").write_text(text)
    report = advise(read_workload(str(tmp_path)), OfflinePlanner(tpc_catalog(suite), Options()))
    assert [s for s in report.statements if s.problem] == []
    # ds77 reads FROM cs, cr without a condition: Spark's plan of it has a nested loop.
    assert {s.file for s in report.statements if s.loops} == ({"ds77.sql"} if suite == "tpcds" else set())
    assert report.seconds > 0


def tpc_catalog(suite: str) -> CatalogFile:
    from tpc import data

    spec, columns = data.SUITES[suite], dict[str, list[Column]]()
    with data._connect(spec) as connection:
        connection.execute(f"CALL {spec.generator}(sf = 0)")
        found = connection.execute("SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal")
        for table, name, kind in found.fetchall():
            columns.setdefault(table, []).append(Column(name, sql_type(kind.replace("VARCHAR", "STRING"))))
    sizes = Statistics(1_000_000, 10**8, plain=True, cheap=True)
    return CatalogFile(
        Path("tpc.toml"), Settings(), tuple(Table((t,), tuple(c), (), sizes) for t, c in columns.items())
    )


def test_a_problem_is_one_line_and_the_rest_goes_on(tmp_path: Path, catalog: Path) -> None:
    folder = tmp_path / "q"
    folder.mkdir()
    (folder / "a.sql").write_text(
        "SELECT 1;\n  SELECT *\n  FROM visits;\nSELECT id FROM e WHERE ts BETWEEN;\nSET x = 1;\n"
    )
    (folder / "b.sql").write_text("SELECT 'never closed")
    done = dovetail("advise", folder, "--catalog", catalog, "--json")
    assert done.exit_code == 0, done.stderr
    by_place = {(s["file"], s["line"], s["column"]): s for s in json.loads(done.stdout)["statements"]}
    assert by_place["a.sql", 3, 8]["problem"].startswith("There is no table visits. Declare it under [tables.visits]")
    assert by_place["a.sql", 4, 1]["problem"].startswith("The query cannot be parsed: ")
    assert by_place["a.sql", 5, 1]["status"] == "not a query"
    assert by_place["a.sql", 1, 1]["status"] == "unchanged"
    assert "cannot be read" in by_place["b.sql", 1, 1]["problem"]


def test_a_column_that_does_not_exist_is_a_problem_and_no_gain(tmp_path: Path, catalog: Path) -> None:
    band = "FROM e JOIN s ON e.ts BETWEEN s.starts AND s.ends"
    query = tmp_path / "q.sql"
    query.write_text(
        f"SELECT e.no_such_column {band};\nSELECT e.id {band}\nWHERE nope = 1;\nSELECT e.id {band};\n"
        "WITH w AS (SELECT id FROM e) SELECT w.ts FROM w"
    )
    done = dovetail("advise", query, "--catalog", catalog, "--json")
    found = [(s["status"], s["line"], s["column"]) for s in json.loads(done.stdout)["statements"]]
    assert found == [("rewritten", 4, 1), ("problem", 1, 8), ("problem", 3, 7), ("problem", 5, 37)]
    assert "There is no column e.no_such_column." in done.stdout


def test_names_that_only_spark_resolves_are_no_problem(tmp_path: Path, catalog: Path) -> None:
    query = tmp_path / "q.sql"
    query.write_text(
        "SELECT id AS n, n + 1 AS m, transform(array(1), x -> x + id) FROM e ORDER BY m;\n"
        "SELECT a FROM (SELECT id, user_id FROM e) PIVOT (count(*) FOR user_id IN (1 AS a, 2 AS b)) WHERE b > 1;\n"
        "SELECT window.start, count(*) FROM e GROUP BY window(ts, '5 minutes') HAVING count(*) > 1 ORDER BY ALL;\n"
        "SELECT timestampdiff(MINUTE, ts, ts), e._metadata.file_path, current_date FROM e;\n"
        "SELECT posexplode(array(id)) FROM e ORDER BY pos;\n"
        "SELECT c, spark_catalog.default.e.id FROM e LATERAL VIEW explode(array(1)) x AS c;\n"
        "DECLARE VARIABLE limit_id BIGINT;\nSELECT id FROM e WHERE id < limit_id"
    )
    done = dovetail("advise", query, "--catalog", catalog, "--json")
    assert [s["problem"] for s in json.loads(done.stdout)["statements"] if "problem" in s] == []


def test_every_statement_is_counted(tmp_path: Path, catalog: Path) -> None:
    query = tmp_path / "q.sql"
    query.write_text(
        "MERGE INTO e USING s ON e.ts BETWEEN s.starts AND s.ends WHEN MATCHED THEN DELETE;\n"
        "SET device = 5;\nSELECT e.id FROM e JOIN s ON e.id = ${device} AND e.id = s.id;\n"
        "SELECT e.id FROM e WHERE id = ${other};\nSELECT id FROM {{ ref('e') }};\nSELECT '{{', id FROM e"
    )
    done = dovetail("advise", query, "--catalog", catalog)
    assert "6 statements: 2 not planned, 1 not read, 2 unchanged, 1 without a query. Planned" in done.stdout
    assert "q.sql:1:1 " in done.stdout
    assert "MERGE reads a table in USING" in done.stdout
    assert "give a value with --conf other=VALUE" in done.stdout
    assert "Run `dbt compile`" in done.stdout
    done = dovetail("advise", query, "--catalog", catalog, "--conf", "other=3")
    assert "6 statements: 1 not planned, 1 not read, 3 unchanged" in done.stdout


def test_a_file_that_cannot_be_read_is_a_problem_of_its_own(tmp_path: Path, catalog: Path) -> None:
    folder = tmp_path / "q"
    folder.mkdir()
    (folder / "a.sql").write_bytes("SELECT 'é' FROM e".encode("latin-1"))
    (folder / "B.SQL").write_text(
        "\ufeffSELECT e.id FROM e JOIN s ON e.ts BETWEEN s.starts AND s.ends", encoding="utf-8"
    )
    (folder / "c.sql.bak").write_text("SELECT 1")
    catalog.write_text("\ufeff" + CATALOG, encoding="utf-8")
    done = dovetail("advise", folder, "--catalog", catalog)
    assert done.exit_code == 0
    assert "2 statements: 1 rewritten, 1 not planned; " in done.stdout
    assert "a.sql is not text in UTF-8; save it as UTF-8." in done.stdout
    assert "B.SQL:1:1" in done.stdout
    alone = dovetail("advise", folder / "a.sql", "--catalog", catalog)
    assert (alone.exit_code, alone.stdout) == (2, "")
    assert "a.sql is not text in UTF-8" in alone.stderr


def test_a_merge_from_a_query_is_planned(tmp_path: Path, catalog: Path) -> None:
    query = tmp_path / "q.sql"
    join = "SELECT e.id FROM e JOIN s ON e.ts BETWEEN s.starts AND s.ends"
    query.write_text(f"MERGE INTO t USING ({join}) u ON t.id = u.id WHEN MATCHED THEN DELETE")
    (found,) = json.loads(dovetail("advise", query, "--catalog", catalog, "--json").stdout)["statements"]
    assert found["status"] == "rewritten"


def test_a_statement_that_a_hint_switches_off_is_no_problem(tmp_path: Path, catalog: Path) -> None:
    query = tmp_path / "q.sql"
    query.write_text("SELECT /*+ NO_DOVETAIL */ e.id FROM e JOIN s ON e.ts BETWEEN s.starts AND s.ends")
    (found,) = json.loads(dovetail("advise", query, "--catalog", catalog, "--json").stdout)["statements"]
    assert found["status"] == "declined"
    assert found["declined"][0]["reason"] == "the hint NO_DOVETAIL leaves the statement to Spark"


def test_the_remedy_of_an_or_is_no_other_bound(tmp_path: Path, catalog: Path) -> None:
    query = tmp_path / "q.sql"
    query.write_text("SELECT a.id FROM e a JOIN e b ON a.id <> b.id AND (a.user_id = b.user_id OR a.ts <> b.ts)")
    done = dovetail("advise", query, "--catalog", catalog)
    assert "Give each branch of the OR an equality" in done.stdout
    assert "Add the other bound" not in done.stdout
    query.write_text("SELECT a.id FROM e a JOIN e b ON a.id < b.id AND (a.user_id = b.user_id OR a.ts = b.ts)")
    assert "rewritten by key_join, lower_key_join" in dovetail("advise", query, "--catalog", catalog).stdout


def test_ci_fails_on_a_nested_loop_that_the_baseline_does_not_list(tmp_path: Path, catalog: Path) -> None:
    query, baseline = tmp_path / "q.sql", tmp_path / "baseline.json"
    query.write_text("SELECT e.id FROM e JOIN s ON e.ts > s.starts")
    check = ["advise", query, "--catalog", catalog, "--fail-on", "new-nested-loop"]
    done = dovetail(*check)
    assert done.exit_code == 1
    assert "q.sql:1:30: Spark runs this join as a nested loop" in done.stderr
    assert dovetail("advise", query, "--catalog", catalog, "--write-baseline", baseline).exit_code == 0
    query.write_text("-- moved\n\nSELECT e.id FROM e JOIN s ON e.ts > s.starts")
    assert dovetail(*check, "--baseline", baseline).exit_code == 0
    query.write_text("SELECT e.id FROM e JOIN s ON e.ts > s.starts;\nSELECT e.id FROM e CROSS JOIN s")
    done = dovetail(*check, "--baseline", baseline)
    assert done.exit_code == 1
    assert "q.sql:2:20" in done.stderr
    query.write_text("SELECT e.id, s.id FROM e JOIN s ON e.ts BETWEEN s.starts AND s.ends")
    assert dovetail(*check).exit_code == 0  # the rewriting has no nested loop
    done = dovetail(*check, "--baseline", tmp_path / "gone.json")
    assert (done.exit_code, "there is no such file" in done.stderr) == (2, True)


def test_gain_is_estimated_where_sizes_are_known(tmp_path: Path, catalog: Path) -> None:
    query = tmp_path / "q.sql"
    query.write_text(
        "SELECT e.id, s.id AS s FROM e JOIN s ON s.starts <= e.ts\n"
        "QUALIFY row_number() OVER (PARTITION BY e.id ORDER BY s.starts DESC) = 1;\n"
        "SELECT e.id FROM e JOIN s ON e.user_id = s.user_id AND e.ts BETWEEN s.starts AND s.ends"
    )
    done = dovetail("advise", query, "--catalog", catalog, "--key", "e=id", "--json")
    nearest, band = json.loads(done.stdout)["statements"]
    assert nearest["rules"][-1] == "lower_nearest_join"
    assert nearest["seconds_saved"] == pytest.approx(2e13 / 1.7e7, rel=0.01)
    assert (band["status"], band["seconds_saved"], band["pairs_saved"]) == ("rewritten", None, None)  # equal keys
    text = dovetail("advise", query, "--catalog", catalog, "--key", "e=id").stdout
    assert "estimate: Spark compares up to 2e+13 pairs" in text
    assert "nested loop removed: inner join of e and s on s.starts <= e.ts\n" in text  # whose pairs are the estimate's


def test_dbt_models_are_read_in_their_order(tmp_path: Path, catalog: Path) -> None:
    def model(name: str, code: str, *reads: str) -> dict[str, Any]:
        relation = {"relation_name": f"`shop`.`{name}`", "original_file_path": f"models/{name}.sql"}
        return {"resource_type": "model", "compiled_code": code, "depends_on": {"nodes": list(reads)}, **relation}

    nodes = {
        "model.a": model("a", "SELECT b.id FROM `shop`.`b` b\nJOIN s ON b.ts > s.starts", "model.b"),
        "model.b": model("b", "SELECT id, ts FROM e"),
        "model.c": model("c", " "),
        "test.b": {"resource_type": "test"},
    }
    (tmp_path / "dbt" / "target").mkdir(parents=True)
    (tmp_path / "dbt" / "target" / "manifest.json").write_text(json.dumps({"nodes": nodes}))
    done = dovetail("advise", tmp_path / "dbt", "--catalog", catalog, "--json")
    assert done.exit_code == 0, done.stderr
    (bad, empty, good) = json.loads(done.stdout)["statements"]
    assert (empty["file"], "dbt compile" in empty["problem"]) == ("models/c.sql", True)
    assert [(loop["line"], loop["column"]) for loop in bad["nested_loops"]] == [(2, 11)]
    assert (good["file"], good["status"]) == ("models/b.sql", "unchanged")


def test_the_page_escapes_the_text_of_the_user(tmp_path: Path, catalog: Path) -> None:
    pytest.importorskip("jinja2")
    query, page = tmp_path / "q.sql", tmp_path / "report.html"
    query.write_text("SELECT e.id FROM e JOIN s ON e.ts > s.starts OR '</code><img onerror=alert(1)>' < s.ends")
    assert dovetail("advise", query, "--catalog", catalog, "--html", page).exit_code == 0
    text = page.read_text()
    assert "&lt;img onerror" in text
    assert "<img" not in text
    assert "<script" not in text
    assert '<a href="#s1">q.sql:1:1</a></td><td><span class="badge warning">nested loop</span>' in text
    assert '<a class="mark warning" href="#s1-1">e</a>' in text  # the place in the SQL, linked to its reason
