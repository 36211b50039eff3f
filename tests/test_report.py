"""Reports on statements: what is in them, and what must never be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from command_line import dovetail
from dovetail import Optimizer, Options
from dovetail.executor.connectors.masking import mask_secrets
from dovetail.optimizer.advise.planners import OfflinePlanner
from dovetail.optimizer.anonymize import Anonymizer
from dovetail.optimizer.report import build_report
from dovetail.optimizer.row_differences import RowDifference
from dovetail.optimizer.verification import Verification
from dovetail.planner.catalog import Settings
from dovetail.planner.offline_catalog.catalog import CatalogFile

CATALOG = """
[tables."shop.events"]
columns = { id = "BIGINT", ts = "TIMESTAMP", mail = "STRING", date = "DATE", place = "STRUCT<town: STRING, zip: INT>" }
rows = 20_000_000
[tables.sessions]
columns = { id = "BIGINT", starts = "TIMESTAMP", ends = "TIMESTAMP" }
rows = 1_000_000
"""
QUERY = """-- for Roberta, customer 4711
SELECT ev.id, ev.date, ev.place.town, count(*) AS visits
FROM shop.events ev JOIN sessions ON ev.ts BETWEEN sessions.starts AND sessions.ends
WHERE ev.mail = 'Bob Smith' AND ev.mail <> '555-123456' AND date_trunc('DAY', ev.ts) > TIMESTAMP '2026-01-01 00:00:00'
  AND ev.mail NOT IN ('postgresql://ann:hunter2@db/x?password=hunter3', 'Emma')
GROUP BY ev.id, ev.date, ev.place.town
"""
NAMES = "shop events sessions mail town zip visits starts ends Bob Smith Emma Roberta 4711 555-123456 hunter".split()


@pytest.fixture
def arguments(tmp_path: Path) -> list[Any]:
    (tmp_path / "catalog.toml").write_text(CATALOG)
    (tmp_path / "q.sql").write_text(QUERY)
    return [tmp_path / "q.sql", "--catalog", tmp_path / "catalog.toml"]


def test_a_report_has_what_planning_depends_on(arguments: list[Any], tmp_path: Path) -> None:
    out = tmp_path / "report.md"
    done = dovetail("report", *arguments, "--out", out, "--option", "level_reach=5000")
    assert done.exit_code == 0, done.stderr
    text = out.read_text()
    assert "It has no rows." in text
    assert re.findall("option .*", text) == ["option level_reach: 5000"]  # and not the limits of commands
    assert "shop.events: id bigint, ts timestamp, mail string" in text
    assert "LevelBandJoin" in text
    assert text.count("ev.mail = 'Bob Smith'") == 2  # as written, and as rewritten
    assert "hunter" not in text
    assert "[project.urls]" in done.stderr
    assert dovetail("report", *arguments, "--out", out).exit_code == 2  # it is there


def test_an_anonymized_report_has_no_name_and_no_text(arguments: list[Any]) -> None:
    text = dovetail("report", *arguments, "--anonymize").stdout
    shown = text[text.index("## Columns") :]
    assert [name for name in NAMES if re.search(rf"(?i)(?<![a-z]){re.escape(name)}(?![a-z])", shown)] == []
    assert "date_trunc('DAY', " in shown  # words of SQL stay, and times
    assert "TIMESTAMP '2026-01-01 00:00:00'" in shown
    assert "count(*)" in shown
    assert "LevelBandJoin" in shown
    hashes = [set(re.findall(r"n[0-9a-f]{8}", dovetail("report", *arguments, "--anonymize").stdout)) for _ in range(2)]
    assert hashes[0].isdisjoint(hashes[1])  # the key of the hashes is not kept


def test_a_report_on_a_session(spark: Any) -> None:
    session = spark.newSession()
    session.sql("SELECT id, CAST(id AS DOUBLE) AS x FROM range(50)").createOrReplaceTempView("secret_points")
    session.conf.set("spark.sql.sources.my.url", "jdbc:x://h?password=hunter2")
    sql = "SELECT a.id FROM secret_points a JOIN secret_points b ON a.x BETWEEN b.x - 1 AND b.x + 1 WHERE a.id > 3"
    opt = Optimizer(session, Options(force=True))
    plan = opt.plan(sql)
    text = plan.report(verified=opt.verify(sql))
    assert "spark.sql.ansi.enabled: " in text
    assert re.findall("option .*", text) == ["option force: True"]
    assert "secret_points: id bigint, x double" in text
    assert text.count("SubqueryAlias secret_points") >= 4  # in both analyzed plans
    assert "same: " in text
    assert "hunter" not in text
    assert "secret_points" not in plan.report(anonymize=True)
    arguments = opt.plan("SELECT * FROM secret_points WHERE id = :number", {"number": 4711})
    assert "4711" not in arguments.report()


PLAN = """\
n: bigint, name: string
Project [n#70L, name#71]
+- Join LeftOuter, ((x#1L >= cast(position#2 as bigint)) AND (mail#3 = Bob Smith (Filter 12345678, 4242)))
   :- SubqueryAlias ev
   :  +- View (`shop`.`recent`, [n#70L, name#71])
   :     +- Project [x#1L AS n#70L, unmask(mail#3)#90 AS name#71, date_trunc(DAY, t#6, Some(UTC)) AS d#7]
   :        +- Filter (mail#3 = Zoë + 4711, where 86400000 < x#1L)
   :           +- Relation spark_catalog.shop.user[x#1L,mail#3,... 7 more fields] parquet
   +- Aggregate [position#2], [position#2, first(e#8, false) AS version#9]
"""


def test_every_word_of_an_analyzed_plan_is_hashed_unless_it_is_one_of_sparks() -> None:
    names = Anonymizer({})
    names.add_sql("SELECT * FROM ev WHERE n > 86400000")
    names.add_plan(PLAN)
    shown = names.replace(PLAN)
    words = re.findall(r"\w\w+|\d", re.sub(r"n[0-9a-f]{8}|#\d+L?", "", shown))
    assert set(words) == set(
        "AND AS Aggregate DAY Join LeftOuter Project Relation Some SubqueryAlias UTC View as bigint cast 7 4242 4711 "
        "86400000 date_trunc false fields first more parquet spark_catalog string where Filter".split()
    )
    assert shown.count("#70L") == 3
    prose = names.replace("mail and Zoë, the position of version, user in shop")
    assert re.findall(r"[^\W\d]\w*", re.sub(r"n[0-9a-f]{8}", "", prose)) == ["and", "the", "of", "in"]


def test_an_anonymized_report_on_a_view(spark: Any) -> None:
    session = spark.newSession()
    session.sql("SELECT id, id * 2 AS pay, 'Emma Stone' AS owner FROM range(50)").createOrReplaceTempView("staff")
    session.sql(
        "CREATE OR REPLACE TEMP VIEW rich AS SELECT id, pay AS salary, upper(owner) AS boss FROM staff "
        "WHERE owner <> 'Bob of 555-123456' AND pay < 98765432"
    )
    text = Optimizer(session, Options(force=True)).plan(
        "SELECT a.id FROM rich a JOIN rich b ON a.salary BETWEEN b.salary - 12345 AND b.salary + 12345"
    ).report(anonymize=True)  # fmt: skip
    shown = text[text.index("## Columns") :]
    for name in "pay salary owner boss Emma Stone staff rich Bob 123456 98765432".split():
        assert not re.search(rf"(?i)(?<![a-z]){name}(?![a-z])", shown), name
    assert "12345" in shown
    assert "SubqueryAlias n" in shown


def test_a_report_has_no_rows_that_differ() -> None:
    row = RowDifference(("Emma",), None)
    verified = Verification(False, 7, 1, 0, True, columns=("name",), differences=(row,))
    planner = OfflinePlanner(CatalogFile(Path("none.toml"), Settings(), ()), Options())
    text = build_report(planner.explained("SELECT 1"), verified=verified)
    assert "different: 1 row missing" in text
    assert "Emma" not in text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("jdbc:postgresql://h/db?user=ann&password=x1y2", "jdbc:postgresql://h/db?user=ann&password=…"),
        ("jdbc:oracle:thin:scott/tiger@//h:1521/s", "jdbc:oracle:thin:…@//h:1521/s"),
        ("jdbc:sqlserver://h:1;user=sa;password=p;x=y", "jdbc:sqlserver://h:1;user=sa;password=…;x=y"),
        ("postgresql://ann:p@ss@h/db", "postgresql://…@h/db"),
        ("OPTIONS (url 'u', password 'it''s', dbtable 'x')", "OPTIONS (url 'u', password '…', dbtable 'x')"),
        ("options(user => 'ann', `secret` => \"x\")", "options(user => 'ann', `secret` => \"…\")"),
        ("map('secretkey', a, 'token', 'b'), 'c'", "map('secretkey', a, 'token', '…'), 'c'"),
        ("x = 'no password', y, 'z'", "x = 'no password', y, 'z'"),
        ("SET spark.hadoop.fs.s3a.secret.key = AAA;", "SET spark.hadoop.fs.s3a.secret.key = …;"),
        ("'https://b/f?X-Amz-Signature=abc&v=1'", "'https://b/f?X-Amz-Signature=…&v=1'"),
        ("Authorization: Bearer abcdefghijkl", "Authorization: Bearer …"),
        ("id = 'AKIAABCDEFGHIJKLMNOP'", "id = '…'"),
        ("SELECT password FROM u JOIN t ON a.token = b.token", "SELECT password FROM u JOIN t ON a.token = b.token"),
        ("e.user_id BETWEEN 3 AND 4 AND e.keyed = 5", "e.user_id BETWEEN 3 AND 4 AND e.keyed = 5"),
    ],
)  # fmt: skip
def test_secrets_are_masked_and_sql_is_not(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked
