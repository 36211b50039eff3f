"""Reports on statements: what is in them, and what must never be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from command_line import dovetail
from dovetail import Optimizer, Options
from dovetail.executor.connectors.masking import mask_secrets

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


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("jdbc:postgresql://h/db?user=ann&password=x1y2", "jdbc:postgresql://h/db?user=ann&password=…"),
        ("jdbc:oracle:thin:scott/tiger@//h:1521/s", "jdbc:oracle:thin:…@//h:1521/s"),
        ("jdbc:sqlserver://h:1;user=sa;password=p;x=y", "jdbc:sqlserver://h:1;user=sa;password=…;x=y"),
        ("postgresql://ann:p@ss@h/db", "postgresql://…@h/db"),
        ("OPTIONS (url 'u', password 'it''s', dbtable 'x')", "OPTIONS (url 'u', password '…', dbtable 'x')"),
        ("options(user => 'ann', `secret` => \"x\")", "options(user => 'ann', `secret` => \"…\")"),
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
