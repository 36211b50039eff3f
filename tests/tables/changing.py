"""Tables of a format that change: their rows and columns, between two runs, and between a plan and its action."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame

from dovetail import Optimizer
from fill import POINTS, fill
from format_sessions import DELTA
from outcomes import BAND, REWRITTEN, first_line, outcome, rows, word

ALL = f"SELECT p.*, i.* FROM p JOIN i ON {BAND}"
LEFT = f"SELECT p.id, i.id AS i FROM p LEFT JOIN i ON {BAND}"
FULL = f"SELECT p.id, i.id AS i FROM p FULL JOIN i ON {BAND}"
COUNTS = f"SELECT p.id, count(*) AS n, sum(i.lo) AS s FROM p JOIN i ON {BAND} GROUP BY p.id"
FIRST = (
    "SELECT id, lo FROM (SELECT p.id, i.lo, row_number() OVER (PARTITION BY p.id ORDER BY i.lo DESC) AS n "
    "FROM p LEFT JOIN i ON p.k = i.k AND i.lo <= p.x) WHERE n = 1"
)
OWN = "SELECT a.id, (SELECT sum(b.v) FROM p b WHERE b.k = a.k AND b.x <= a.x) AS s FROM p a"
TOO_LONG = "its table changed after planning"  # what an interval of billions of bins raises
KEY = "SELECT a.id, b.v FROM p a JOIN p b ON a.id = b.id"


def columns(opt: Optimizer, form: str) -> Iterator[tuple[str, str]]:
    """Change the columns of a table between two runs of a statement."""
    session = opt.session
    opt.declare_key("p", ["id"])
    yield "a key", outcome(opt, KEY)
    yield "before columns change", outcome(opt, ALL)
    properties = ("'delta.columnMapping.mode' = 'name'", "'delta.enableTypeWidening' = 'true'")
    changes = {
        **{f"{t}: {p}": f"ALTER TABLE {t} SET TBLPROPERTIES ({p})" for p in properties for t in "pi" if form == DELTA},
        "a column more": "ALTER TABLE p ADD COLUMN w STRING",
        "rows with the new column": f"INSERT INTO p SELECT {POINTS}, 'new' FROM range(300, 320)",
        "another name": "ALTER TABLE p RENAME COLUMN v TO value",
        "the old name again": "ALTER TABLE p RENAME COLUMN value TO v",
        "a wider type": "ALTER TABLE p ALTER COLUMN x TYPE BIGINT",
        "values of the wider type": "INSERT INTO p SELECT 400, 3000000000, 1, 1, 1, NULL",
        "wider intervals": "ALTER TABLE i ALTER COLUMN hi TYPE BIGINT",
        "an interval of the wider type": "INSERT INTO i SELECT 90, 99, 4000000000, 1, 1",
        "a column less": "ALTER TABLE p DROP COLUMN w",
    }
    for what, change in changes.items():
        try:
            session.sql(change)
        except Exception as error:  # noqa: BLE001 - of Spark, or of the format in the JVM
            yield what, first_line(error)
            continue
        seen = {outcome(opt, text) for text in (ALL, LEFT, COUNTS)}
        yield what, seen.pop() if len(seen) == 1 else "; ".join(sorted(seen))
    yield "a key, after all changes", outcome(opt, KEY)


def keys(opt: Optimizer, form: str) -> Iterator[tuple[str, str]]:
    """A declared key holds for the table that it was declared for, and for no other of its name."""
    session = opt.session
    session.sql("CREATE TEMPORARY VIEW odd AS SELECT * FROM p WHERE id % 2 = 1")
    for name in ("p", "odd"):
        opt.declare_key(name, ["id"])
    texts = {"a table": KEY, "a view": KEY.replace(" p ", " odd ")}
    session.sql(f"INSERT INTO p SELECT {POINTS} FROM range(700, 720)")
    session.sql("DELETE FROM p WHERE id % 7 = 3")
    for what, text in texts.items():
        seen = outcome(opt, text)
        yield f"a key of {what}, after an INSERT and a DELETE", seen if seen == REWRITTEN else f"ignored: {seen}"
    session.sql("DROP TABLE p")
    session.sql(
        f"CREATE TABLE p USING {form} AS SELECT {POINTS} FROM range(50) UNION ALL SELECT {POINTS} FROM range(9)"
    )
    for what, text in texts.items():
        yield f"a key of {what}, after another table took the name", outcome(opt, text)


def between(opt: Optimizer, form: str) -> Iterator[tuple[str, str]]:
    """Another session changes a table after the plan was made."""
    other = opt.session.newSession()
    database = opt.session.catalog.currentDatabase()
    other.catalog.setCurrentCatalog(opt.session.catalog.currentCatalog())
    other.catalog.setCurrentDatabase(database)
    changes: dict[str, Callable[[], object]] = {
        "long intervals": lambda: other.sql(
            "INSERT INTO i VALUES (900, -2000000000, 2000000000, 1, 1), (901, 5, 90, 1, 1)"
        ),
        "points far away": lambda: other.sql(
            "INSERT INTO p VALUES (901, 2147483647, 1, 1, 1), (902, NULL, 1, 1, NULL)"
        ),
        "rows deleted": lambda: other.sql("DELETE FROM i WHERE id < 25"),
        "rows updated": lambda: other.sql("UPDATE p SET x = 99 - x WHERE id % 3 = 0"),
        "no rows left": lambda: other.sql("DELETE FROM i"),
        "all made anew": lambda: fill(other, form, database),
    }
    for what, change in changes.items():
        yield f"between plan and action: {what}", _changed(opt, change)


def _changed(opt: Optimizer, change: Callable[[], object]) -> str:
    """Make plans and frames, change a table, and compare the rows that both return then."""
    texts = (ALL, LEFT, FULL, COUNTS, FIRST, OWN)
    plans = [opt.plan(text) for text in texts]
    frames = [opt.sql(text) for text in texts]
    plain = [opt.session.sql(text) for text in texts]
    early = rows(opt.session.sql(FULL))
    change()
    if rows(opt.session.sql(FULL)) == early:
        return "the change is not seen"
    for text, plan, frame, before in zip(texts, plans, frames, plain, strict=True):
        try:
            late = rows(opt.session.sql(text))
            if (found := rows(plan.dataframe())) != late:
                return f"{text}: a plan that runs late returns {found - late} for {late - found}"
        except Exception as error:  # noqa: BLE001
            return f"{text}: {first_line(error)}"
        seen, wanted = _rows_or_error(frame), _rows_or_error(before)
        if seen != wanted and TOO_LONG not in seen:
            return f"{text}: a frame returns {seen} for {wanted}"
    return word(all(plan.rewritten for plan in plans))


def _rows_or_error(frame: DataFrame) -> Counter[str] | str:
    """The rows of a frame; the kind of an error, for the files of a frame may be gone."""
    try:
        return rows(frame)
    except Exception as error:  # noqa: BLE001
        return TOO_LONG if TOO_LONG in str(error) else type(error).__name__


def statements(opt: Optimizer, form: str) -> Iterator[tuple[str, str]]:
    """Statements that write, with a band in what they read: compared with what plain Spark writes to another table."""
    session = opt.session
    counts = f"SELECT p.id, count(*) AS n FROM p JOIN i ON {BAND} GROUP BY p.id"
    tries = {
        "CREATE TABLE AS": f"CREATE OR REPLACE TABLE {{}} USING {form} AS {counts}",
        "INSERT": f"INSERT INTO {{}} {counts}",
        "INSERT OVERWRITE": f"INSERT OVERWRITE {{}} {counts}",
        "MERGE": f"MERGE INTO {{}} t USING ({counts}) s ON t.id = s.id "
        "WHEN MATCHED AND t.id % 2 = 0 THEN UPDATE SET n = s.n + 100 WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.n)",
        "MERGE, WITH in its source": f"MERGE INTO {{}} t USING (WITH c AS ({counts}) SELECT * FROM c WHERE n > 1) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT *",
        "DELETE with EXISTS": "DELETE FROM {0} WHERE EXISTS (SELECT 1 FROM i WHERE {0}.id BETWEEN i.lo AND i.hi)",
        "UPDATE with IN": f"UPDATE {{}} SET n = 0 WHERE id IN (SELECT p.id FROM p JOIN i ON {BAND} WHERE i.k = 1)",
    }
    for what, text in tries.items():
        for table in ("ours", "theirs"):
            session.sql(f"DROP TABLE IF EXISTS {table}")
            session.sql(f"CREATE TABLE {table} USING {form} AS SELECT id, 7L AS n FROM range(40)")
        yield what, _written(opt, text)


def _written(opt: Optimizer, text: str) -> str:
    try:
        opt.session.sql(text.format("theirs"))
    except Exception as error:  # noqa: BLE001
        return f"Spark alone: {first_line(error)}"
    try:
        plan = opt.plan(text.format("ours"))
        plan.run()
    except Exception as error:  # noqa: BLE001
        return first_line(error)
    wanted, found = (rows(opt.session.table(table)) for table in ("theirs", "ours"))
    return word(plan.rewritten) if found == wanted else f"other rows: {found - wanted} for {wanted - found}"
