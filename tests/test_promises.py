"""The promises of ARCHITECTURE.md, on a real session."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from dovetail import CatalogError, Optimizer, OptionError, Options
from dovetail.executor.catalog.declared_tables import DeclaredTables
from dovetail.executor.catalog.spark_catalog import SparkCatalog
from dovetail.optimizer.planning.validation import schema_difference
from dovetail.planner.catalog import UniqueKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BAND = "SELECT p.id, i.w FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi"
FORCE = Options(force=True, strict=True)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    own.sql(
        "SELECT id, id % 50 AS x, id % 7 AS k, named_struct('a', id) AS st FROM range(200)"
    ).createOrReplaceTempView("p")
    own.sql("SELECT id AS w, id * 3 AS lo, id * 3 + 4 AS hi, id % 7 AS k FROM range(20)").createOrReplaceTempView("i")
    own.sql("SELECT timestamp_seconds(id * 60) AS ts, id FROM range(100)").createOrReplaceTempView("ev")
    own.sql("CREATE DATABASE IF NOT EXISTS band_db")
    own.sql("DROP TABLE IF EXISTS band_db.t")
    own.sql("CREATE TABLE band_db.t USING parquet AS SELECT * FROM i")
    return own


@pytest.fixture
def sent(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that reach Spark, in order."""
    texts: list[str] = []
    real = type(session).sql

    def spy(self: SparkSession, text: str, *args: Any, **kwargs: Any) -> Any:
        texts.append(text)
        return real(self, text, *args, **kwargs)

    monkeypatch.setattr(type(session), "sql", spy)
    return texts


def same(session: SparkSession, text: str, args: Any = None) -> None:
    """Assert that the rewriting of a query, which must happen, returns the rows and schema of the original."""
    plan = Optimizer(session, FORCE).plan(text, args)
    assert plan.rewritten, plan.declined
    original = session.sql(text, args=args) if args else session.sql(text)
    assert plan.dataframe().schema == original.schema
    assert Counter(map(str, plan.dataframe().collect())) == Counter(map(str, original.collect()))


# 1. Pass-through is byte for byte.


@pytest.mark.parametrize(
    "text",
    [
        "SELECT  id ,x FROM p  -- a comment\n WHERE x=1 ;",
        "SELECT * FROM p FULL JOIN i ON p.x BETWEEN i.lo AND i.hi OR p.x = i.w",
        "select 'AND {brace} x{2}' as s, \"p BETWEEN\" as `a b`",
        "SHOW TABLES",
        "FROM p SELECT id",
        "FROM p |> WHERE x = 1 |> SELECT id",
        "SELECT p.*, struct(*) FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi",
    ],
)
def test_pass_through_is_byte_for_byte(session: SparkSession, sent: list[str], text: str) -> None:
    frame = Optimizer(session, FORCE).sql(text)
    assert sent[-1] == text
    assert frame.schema == session.sql(text).schema


def test_a_query_that_is_not_rewritten_reaches_spark_once(session: SparkSession, sent: list[str]) -> None:
    Optimizer(session).sql("SELECT p.id FROM p JOIN i ON p.k = i.k").collect()
    assert sent == ["SELECT p.id FROM p JOIN i ON p.k = i.k"]


# 2. Same rows, same schema.


@pytest.mark.parametrize(
    "text",
    [
        BAND,
        "SELECT * FROM p, i WHERE p.x BETWEEN i.lo AND i.hi",
        "SELECT * FROM i, p WHERE p.x BETWEEN i.lo AND i.hi AND i.k = p.k AND p.st.a > 3",
        "SELECT P.ID, I.`W` FROM P JOIN I ON P.X BETWEEN I.LO AND I.HI",
        "SELECT t.w, p.id FROM band_db.t JOIN p ON p.x BETWEEN t.lo AND t.hi",
        "SELECT spark_catalog.band_db.t.w FROM spark_catalog.band_db.t JOIN p ON p.x BETWEEN band_db.t.lo AND t.hi",
        "SELECT x, lo AS `the low` FROM p JOIN i ON x BETWEEN lo AND hi",
        "SELECT a.id FROM p a JOIN p b ON abs(a.x - b.x) <= 2 AND a.id < b.id",
        "SELECT a.id FROM ev a JOIN ev b ON a.ts BETWEEN b.ts - INTERVAL 3 MINUTES AND b.ts + INTERVAL '90' SECOND",
        "SELECT p.k, count(*), sum(i.w) FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi GROUP BY ROLLUP (p.k) ORDER BY 1, 2",
        "SELECT DISTINCT p.k, max(i.w) OVER (PARTITION BY p.k) FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi",
        "WITH j AS (SELECT p.id FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi) SELECT * FROM j UNION ALL SELECT * FROM j",
        "SELECT /*+ BROADCAST(i) */ p.id FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi",
        "SELECT * FROM p LEFT JOIN (SELECT p.id AS pid, i.w FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi) ON id = pid",
        "SELECT id FROM p WHERE id IN (SELECT i.w FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi)",
        "SELECT * FROM p LEFT JOIN i ON p.x BETWEEN i.lo AND i.hi AND p.k = i.k",
        "SELECT * FROM i RIGHT JOIN p ON p.x BETWEEN i.lo AND i.hi AND i.w > 3",
        "SELECT * FROM p LEFT SEMI JOIN i ON p.x BETWEEN i.lo AND i.hi AND p.k <> i.k",
        "SELECT p.id FROM p LEFT ANTI JOIN i ON abs(p.x - i.lo) < 3 AND i.w < 5",
        "SELECT p.id FROM p LEFT JOIN i ON abs(p.x - i.lo) < 3 AND i.w < 5 WHERE i.w IS NULL",
        "SELECT p.id, e FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi LATERAL VIEW explode(array(1, 2)) v AS e",
        "SELECT j.*, q.w FROM (SELECT * FROM p JOIN i USING (k)) j, i q WHERE j.x BETWEEN q.lo AND q.hi AND j.w <> q.w",
    ],
)
def test_rows_and_schema_are_the_same(session: SparkSession, text: str) -> None:
    same(session, text)


def test_parameters_by_name_and_by_position(session: SparkSession) -> None:
    same(session, f"{BAND} AND p.k = :k", {"k": 3})
    same(session, "SELECT p.id, ? AS c FROM p, i WHERE i.w < ? AND p.x BETWEEN i.lo AND i.hi AND p.k <> ?", ["c", 9, 1])
    same(session, "SELECT p.id FROM p JOIN i ON p.x BETWEEN i.lo - :d AND i.hi + :d", {"d": 2})


def test_braces_reach_spark_as_they_are(session: SparkSession) -> None:
    same(session, "SELECT '{p}' AS b, '{\"a\": 1}' AS j FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi")
    frame = session.table("p")
    assert Optimizer(session).sql("SELECT id FROM {frame} WHERE x = {x}", frame=frame, x=3).count() == 4


def test_a_schema_that_differs_means_that_the_original_runs(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dovetail.optimizer.planning.statement as planning
    from dovetail.planner.sql.to_sql import to_sql as real

    monkeypatch.setattr(
        planning, "to_sql", lambda *plan: real(*plan).replace("SELECT p.id,", "SELECT CAST(p.id AS INT) AS id,")
    )
    plan = Optimizer(session, FORCE).plan(BAND)
    assert not plan.rewritten
    assert plan.sql() == BAND
    assert plan.declined[-1][:3] == (
        "schema check",
        "column id INT NOT NULL instead of id BIGINT NOT NULL; the original runs",
        None,
    )
    assert "schema check declined" in plan.explain("trace")
    nearest = "SELECT p.id, (SELECT i.w FROM i WHERE i.lo <= p.x ORDER BY i.lo DESC LIMIT 1) AS w FROM p"
    plan = Optimizer(session, FORCE).plan(nearest)
    assert not plan.rewritten
    (warning,) = plan.warnings
    assert "may pick another row; select i.lo in a subquery with the LIMIT" in warning.reason
    monkeypatch.setattr(planning, "to_sql", lambda *_: "SELECT nonsense FROM p")
    plan = Optimizer(session, FORCE).plan(BAND)
    assert "Spark does not take the rewriting" in plan.declined[-1].reason
    assert plan.dataframe().count() == session.sql(BAND).count()


def test_schema_difference_looks_at_everything(session: SparkSession) -> None:
    base = session.sql("SELECT 1 AS a, CAST(NULL AS STRING) AS b").schema
    assert schema_difference(base, base) is None
    assert "2 columns" not in (schema_difference(base, session.sql("SELECT 1 AS a").schema) or "")
    for other in ("1 AS a, 'x' AS b", "1 AS A, CAST(NULL AS STRING) AS b", "1L AS a, CAST(NULL AS STRING) AS b"):
        assert schema_difference(base, session.sql(f"SELECT {other}").schema)


def test_a_column_that_loses_its_comment(session: SparkSession) -> None:
    base = session.sql("SELECT 1 AS a, 2 AS b")
    commented = base.withMetadata("b", {"comment": "the second"}).schema
    assert schema_difference(base.schema, base.withMetadata("b", {"__autoGeneratedAlias": "true"}).schema) is None
    difference = schema_difference(commented, base.schema)
    assert difference == "column b would lose its comment, its default or its length as CHAR or VARCHAR"


# Never fail a query that Spark would run; fail as Spark fails otherwise.


@pytest.mark.parametrize(
    "text",
    [
        "SELEC 1",
        "SELECT * FROM no_such_table JOIN i ON x BETWEEN lo AND hi",
        "SELECT p.nope FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi",
        "SELECT no_such_function(p.x) FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi",
        "SELECT k FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi",
        "SELECT 1 FROM p JOIN i ON p.st BETWEEN i.lo AND i.hi",
    ],
)
def test_errors_are_sparks_own(session: SparkSession, text: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as plain:
        session.sql(text).schema  # noqa: B018
    with pytest.raises(PySparkException) as ours:
        Optimizer(session, FORCE).sql(text).schema  # noqa: B018
    assert type(ours.value) is type(plain.value)
    assert ours.value.getCondition() == plain.value.getCondition()


def test_overflow_is_not_raised_where_spark_does_not_meet_it(session: SparkSession) -> None:
    """No key matches, so the user's query never adds to the greatest integer; nor may the bins."""
    session.sql("SELECT id AS k, 9223372036854775807 - id AS y FROM range(3)").createOrReplaceTempView("brim")
    for text in (
        "SELECT * FROM p JOIN brim b ON p.k = b.k + 100 AND p.x BETWEEN b.y - 5 AND b.y + 5",
        "SELECT * FROM p JOIN (SELECT k, y l, y h FROM brim) b ON p.k = b.k + 100 AND p.x BETWEEN b.l - 5 AND b.h + 5",
    ):
        same(session, text)


# Statements around a query.


def test_the_query_in_a_statement_is_optimized(session: SparkSession) -> None:
    opt = Optimizer(session, FORCE)
    created = "CREATE TABLE band_db.made USING parquet AS " + BAND
    session.sql("DROP TABLE IF EXISTS band_db.made")
    plan = opt.plan(created)
    assert plan.rewritten
    assert not session.catalog.tableExists("band_db.made"), "planning must not run the statement"
    plan.dataframe()
    expected = Counter(map(tuple, session.sql(BAND).collect()))
    assert Counter(map(tuple, session.table("band_db.made").collect())) == expected
    opt.sql("INSERT INTO band_db.made " + BAND)
    assert session.table("band_db.made").count() == 2 * sum(expected.values())
    opt.sql("CREATE OR REPLACE TEMP VIEW made_view (a, b) AS " + BAND)
    assert session.table("made_view").columns == ["a", "b"]
    assert session.table("made_view").count() == sum(expected.values())


# The API.


def test_verify_runs_both_and_finds_differences(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    opt = Optimizer(session, FORCE)
    outcome = opt.verify(BAND)
    assert outcome.same
    assert outcome.rewritten
    assert outcome.rows == session.sql(BAND).count()
    import dovetail.optimizer.planning.statement as planning
    from dovetail.planner.sql.to_sql import to_sql as real

    monkeypatch.setattr(planning, "to_sql", lambda *plan: real(*plan) + " AND p.x <> 7")
    wrong = opt.verify(BAND)
    assert not wrong.same
    assert wrong.missing > 0
    assert wrong.extra == 0
    assert opt.verify("SELECT 1").rewritten is False


def test_verify_writes_nothing(session: SparkSession) -> None:
    session.sql("DROP TABLE IF EXISTS band_db.kept")
    session.sql("CREATE TABLE band_db.kept (a BIGINT, b BIGINT) USING parquet")
    assert Optimizer(session, FORCE).verify("INSERT INTO band_db.kept " + BAND).same
    assert session.table("band_db.kept").count() == 0


def test_declared_keys_are_checked(session: SparkSession) -> None:
    opt = Optimizer(session)
    opt.declare_key("p", ["ID"])
    assert opt.declarations.keys == {("p",): (UniqueKey(("id",)),)}
    opt.declare_key("p", ["k", "x"], enforced=False)
    assert SparkCatalog(session, declared=DeclaredTables(opt.declarations.keys)).keys(("P",)) == (
        UniqueKey(("id",)),
        UniqueKey(("k", "x"), enforced=False),
    )
    assert SparkCatalog(session, declared=DeclaredTables(opt.declarations.keys)).keys(("band_db", "p")) == ()
    with pytest.raises(CatalogError, match=r"columns is 'id', and not a list of columns; write \['id'\]"):
        opt.declare_key("p", "id")
    with pytest.raises(CatalogError, match=r"key is 'id', and not a list of columns; write \['id'\]"):
        opt.declare_versions("p", "id", "x")
    with pytest.raises(CatalogError, match=r"key is 'id', and not a list of columns; write \['id'\]"):
        opt.declare_changelog("p", "st", "id")
    with pytest.raises(CatalogError, match=r"p has no column 'idd'; did you mean 'id'\? possible: id, k, st, x"):
        opt.declare_key("p", ["idd"])
    with pytest.raises(CatalogError, match=r"there is no table 'q'; .*possible: "):
        opt.declare_key("q", ["id"])
    with pytest.raises(CatalogError, match="at least one column"):
        opt.declare_key("p", [])


def test_options_say_what_is_possible() -> None:
    with pytest.raises(OptionError, match="no option 'forse'; did you mean 'force'"):
        Options.from_mapping({"forse": "true"})
    with pytest.raises(OptionError, match="force cannot be 'maybe'; it is true or false"):
        Options.from_mapping({"force": "maybe"})
    with pytest.raises(OptionError, match="nested_loop_pairs is at least 0"):
        Options(nested_loop_pairs=-1)
    with pytest.raises(OptionError, match="is a number"):
        Options(level_spread="wide")  # type: ignore[arg-type]
    given = Options.from_mapping(
        {"force": "true", "nested_loop_pairs": "1_000", "disabled_rules": "band_join, push_filters"}
    )
    assert given == Options(force=True, nested_loop_pairs=1000, disabled_rules=("band_join", "push_filters"))


def test_explain_modes(session: SparkSession) -> None:
    plan = Optimizer(session, FORCE).plan(BAND)
    assert "LevelBandJoin" in plan.explain()
    assert "2. lower / lower_band_join" in plan.explain("trace")
    assert "chosen: bins" in plan.explain("cost")
    assert plan.explain("sql") == plan.sql()
    assert '"rewritten": true' in plan.explain("json")
    with pytest.raises(OptionError, match="no mode 'plann'; did you mean 'plan'"):
        plan.explain("plann")  # type: ignore[arg-type]
    again = Optimizer(session, FORCE).plan(BAND)
    modes: list[Any] = ["plan", "trace", "sql", "json"]
    for mode in modes:
        assert plan.explain(mode) == again.explain(mode)


def test_day_intervals_across_a_change_of_clocks(spark: SparkSession) -> None:
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", "America/New_York")
    start = dt.datetime(2024, 3, 8)
    hours = [(n, start + dt.timedelta(hours=n)) for n in range(24 * 6)]
    own.createDataFrame(hours, "id INT, ts TIMESTAMP").createOrReplaceTempView("h")
    same(own, "SELECT a.id, b.id FROM h a JOIN h b ON a.ts BETWEEN b.ts + INTERVAL 1 DAY AND b.ts + INTERVAL 48 HOURS")
    same(
        own, "SELECT a.id, b.id FROM h a JOIN h b ON a.ts > b.ts - INTERVAL 25 HOURS AND a.ts <= b.ts - INTERVAL 1 HOUR"
    )
