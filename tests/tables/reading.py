"""Reading tables of a format: versions, metadata columns, files that are pruned, rows that are deleted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from dovetail import Optimizer
from fill import fill, full_name, versions
from format_sessions import DELTA, ICEBERG
from outcomes import BAND, REWRITTEN, outcome, rows

PAIRS = "SELECT p.id, i.id AS i FROM {} AS p JOIN {} AS i ON " + BAND
NOW = PAIRS.format("p", "i")


def travel(opt: Optimizer, form: str) -> Iterator[tuple[str, str]]:
    """Read a table as of a version and a time, by every spelling that Spark has."""
    time.sleep(1.1)
    opt.session.sql("INSERT INTO p SELECT 1000 + id, x + 1, k, v, day FROM p WHERE id < 50")
    opt.session.sql("DELETE FROM i WHERE id % 7 = 3")
    version, moment = versions(opt.session, form, "p")[0]
    interval_version = versions(opt.session, form, "i")[0][0]
    now = rows(opt.session.sql(NOW))
    spellings = {
        "VERSION AS OF": f"VERSION AS OF {version}",
        "TIMESTAMP AS OF": f"TIMESTAMP AS OF '{moment}'",
        "FOR VERSION AS OF": f"FOR VERSION AS OF {version}",
        "FOR SYSTEM_VERSION AS OF": f"FOR SYSTEM_VERSION AS OF {version}",
        "FOR SYSTEM_TIME AS OF": f"FOR SYSTEM_TIME AS OF '{moment}'",
        "FOR TIMESTAMP AS OF": f"FOR TIMESTAMP AS OF TIMESTAMP '{moment}'",
        "SYSTEM_TIME AS OF an expression": f"SYSTEM_TIME AS OF date_trunc('MICROSECOND', TIMESTAMP '{moment}')",
        "TIMESTAMP AS OF a subquery": f"TIMESTAMP AS OF (SELECT min(at) FROM VALUES (TIMESTAMP '{moment}') AS m(at))",
    }
    for what, suffix in spellings.items():
        text = PAIRS.format(f"p {suffix}", "i")
        yield what, outcome(opt, text, differs_from=now)
    both = PAIRS.format(f"p VERSION AS OF {version}", f"i VERSION AS OF {interval_version}")
    yield "VERSION AS OF, both sides", outcome(opt, both, differs_from=now)
    changed = (
        f"SELECT a.id, b.id AS b FROM p AS a JOIN p VERSION AS OF {version} AS b ON a.x BETWEEN b.x - 1 AND b.x + 1"
    )
    yield (
        "two versions of one table",
        outcome(opt, changed, differs_from=rows(opt.session.sql(changed.replace(f"VERSION AS OF {version} ", "")))),
    )
    opt.declare_key("p", ["id"])
    key = f"SELECT a.id, b.v FROM p AS a JOIN p VERSION AS OF {version} AS b ON a.id = b.id"
    yield (
        "a key, two versions",
        outcome(opt, key, differs_from=rows(opt.session.sql(key.replace(f"VERSION AS OF {version} ", "")))),
    )
    yield from _declared(opt, form, moment)


def _declared(opt: Optimizer, form: str, moment: str) -> Iterator[tuple[str, str]]:
    """The table decides what AS OF means: a constant is the format's, a time of the row that of declared versions."""
    session = opt.session
    session.sql(
        f"CREATE TABLE rates USING {form} AS SELECT k, CAST(n AS INT) AS since, k * 10 + n AS rate "
        "FROM (SELECT DISTINCT k FROM p) CROSS JOIN VALUES (0), (30), (60) AS t(n)"
    )
    session.sql("INSERT INTO rates SELECT k, 90, 1 FROM rates WHERE since = 0")
    first = versions(session, form, "rates")[0][1]
    constant = f"SELECT p.id, r.rate FROM p JOIN rates FOR SYSTEM_TIME AS OF '{first}' AS r ON p.k = r.k"
    now = rows(session.sql(constant.replace(f" FOR SYSTEM_TIME AS OF '{first}'", "")))
    yield "AS OF a constant, before versions are declared", outcome(opt, constant, differs_from=now)
    opt.declare_versions("rates", ["k"], "since")
    yield "AS OF a constant, of a table with versions", outcome(opt, constant, differs_from=now)
    of_row = "SELECT p.id, r.rate FROM p JOIN rates FOR SYSTEM_TIME AS OF p.x AS r ON p.k = r.k"
    by_hand = (
        "SELECT p.id, r.rate FROM p "
        "JOIN (SELECT *, lead(since) OVER (PARTITION BY k ORDER BY since) AS until FROM rates) r "
        "ON p.k = r.k AND r.since <= p.x AND (p.x < r.until OR r.until IS NULL)"
    )
    yield "AS OF a time of the row, of a table with versions", outcome(opt, of_row, instead=by_hand)


def metadata(opt: Optimizer, form: str) -> Iterator[tuple[str, str]]:
    """Name the columns that a format adds to a table."""
    columns = ("_metadata.file_name",) if form == DELTA else ("_file", "_pos", "_partition")
    for column in columns:
        for side in ("p", "i"):
            text = f"SELECT p.id, i.id AS i, {side}.{column} AS m FROM p JOIN i ON {BAND}"
            yield f"{column} of {'points' if side == 'p' else 'intervals'}", outcome(opt, text)
        text = f"SELECT p.id, i.id AS i FROM p LEFT JOIN i ON {BAND} AND p.{column} IS NOT NULL"
        yield f"{column} in the condition", outcome(opt, text)


def pruned(opt: Optimizer, form: str) -> Iterator[tuple[str, str]]:
    """Compare the files that a rewriting reads with those that the original reads."""
    tries = {
        "points": f"SELECT p.id, i.id AS i FROM p JOIN i ON {BAND} WHERE p.day = 1",
        "intervals": f"SELECT p.id, i.id AS i FROM p JOIN i ON {BAND} WHERE i.day = 2",
        "both sides": f"SELECT p.id, i.id AS i FROM p JOIN i ON {BAND} WHERE p.day = 1 AND i.day = 2",
        "in ON": f"SELECT p.id, i.id AS i FROM p LEFT JOIN i ON {BAND} AND i.day = 2",
        "FULL JOIN of subqueries": "SELECT p.id, i.id AS i FROM (SELECT * FROM p WHERE day = 1) p "
        f"FULL JOIN (SELECT * FROM i WHERE day = 2) i ON {BAND}",
        "equal days": f"SELECT p.id, i.id AS i FROM p JOIN i ON {BAND} AND p.day = i.day WHERE p.day < 2",
        "aggregate": f"SELECT i.id, count(*) AS n FROM p JOIN i ON {BAND} WHERE p.day = 1 AND i.day = 2 GROUP BY i.id",
        "range of a column": f"SELECT p.id, i.id AS i FROM p JOIN i ON {BAND} WHERE p.id < 10 AND i.lo > 40",
        "by another table": "SELECT p.id, i.id AS i FROM p JOIN (SELECT day FROM i WHERE id = 1) d ON p.day = d.day "
        f"JOIN i ON {BAND}",
    }
    for what, text in tries.items():
        seen = outcome(opt, text)
        yield f"pruning, {what}", seen if seen != REWRITTEN else _compare_files(opt, text)


def _compare_files(opt: Optimizer, text: str) -> str:
    """REWRITTEN, if every scan of the rewriting reads no more files than that of the original."""
    plain = _files(opt.session.sql(text))
    found = _files(opt.plan(text).run())
    most = {table: max(count for name, count in plain if name == table) for table, _ in plain}
    worse = [(table, count, most.get(table)) for table, count in found if count > most.get(table, 0)]
    return REWRITTEN if found and not worse else f"reads more files: {worse or found} than {plain}"


def _files(frame: DataFrame) -> list[tuple[str, int]]:
    """For each scan of a query that ran: its table, and the number of its files."""
    executed: Any = frame._jdf.queryExecution().executedPlan()
    frame._jdf.collectToPython()
    found = []
    leaves = executed.collectLeaves()
    for n in range(leaves.size()):
        leaf = leaves.apply(n)
        metrics = leaf.metrics()
        name = next((m for m in ("numFiles", "resultDataFiles") if metrics.contains(m)), None)
        if name:
            table = leaf.tableIdentifier().get().table() if name == "numFiles" else leaf.table().name().split(".")[-1]
            found.append((table, int(metrics.apply(name).value())))
    return found


def deleted(opt: Optimizer, form: str) -> Iterator[tuple[str, str]]:
    """Delete and update rows without rewriting their files."""
    yield from _deleted(opt, form, "deletion vectors")
    if form == ICEBERG:
        fill(opt.session, form, "deleted", iceberg_format=2)
        yield from _deleted(opt, form, "files of positions")


def _deleted(opt: Optimizer, form: str, means: str) -> Iterator[tuple[str, str]]:
    before = rows(opt.session.sql(NOW))
    opt.session.sql("DELETE FROM p WHERE id % 10 = 4")
    opt.session.sql("DELETE FROM i WHERE id % 10 = 4")
    opt.session.sql("UPDATE p SET x = 99 - x WHERE id % 10 = 7")
    if not _has_deletions(opt, form, means):
        yield f"rows deleted by {means}", "the table has none"
        return
    for kind in ("", "LEFT", "FULL"):
        text = NOW.replace("JOIN", f"{kind} JOIN")
        yield f"rows deleted by {means}, {kind or 'INNER'}", outcome(opt, text, differs_from=before)
    own = "SELECT a.id, (SELECT sum(b.v) FROM p b WHERE b.k = a.k AND b.x <= a.x) AS s FROM p a"
    yield f"rows deleted by {means}, a self-join", outcome(opt, own)


def _has_deletions(opt: Optimizer, form: str, means: str) -> bool:
    if form == DELTA:
        log = opt.session.sql("DESCRIBE DETAIL p").first()
        assert log is not None
        path = str(log["location"])
        entries = opt.session.read.json(f"{path}/_delta_log/*.json")
        return not entries.where("add.deletionVector IS NOT NULL").isEmpty()
    files = opt.session.sql(f"SELECT DISTINCT file_format FROM {full_name(opt.session, 'p')}.delete_files")
    return [row[0] for row in files.collect()] == ["PUFFIN" if means == "deletion vectors" else "PARQUET"]
