"""NEAREST BY joins return what Spark returns for them, on random tables.

Of rows that are equally near Spark returns any, so the distances are compared, and how many right rows they are of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import given, note
from hypothesis import strategies as st

from comparing import assert_taken, few_rows, returned
from dovetail import Optimizer, Options, Plan
from shares import Share, at_least
from typed_tables import typed_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

share = at_least(0.3)

OPTIONS = Options(strict=True, force=True)
SMALL = ["0", "1", "2", "3", "5", "9", "-4", "NULL"]
FLOATS = ["0", "-0", "1.5", "0.1", "-3", "NaN", "-Infinity", "Infinity", "1e30", "NULL"]
DOUBLES = [*FLOATS, "1.7976931348623157E308", "-1.7976931348623157E308", "9007199254740993"]
DAYS = ["2026-01-01", "2026-01-02", "2026-01-04", "0001-01-01", "9999-12-31", "NULL"]
TIMES = ["2024-11-03 05:45:00", "2024-11-03 06:15:00", "2024-11-03 07:00:00.000001", "0001-01-01 00:00:00", "NULL"]
TYPES = {  # the types of both columns, and their values
    ("INT", "INT"): [*SMALL, "2147483647", "-2147483648"],
    ("INT", "BIGINT"): SMALL,
    ("BIGINT", "TINYINT"): SMALL,
    ("BIGINT", "BIGINT"): [*SMALL, "9223372036854775807", "-9223372036854775808"],
    ("DECIMAL(5,1)", "DECIMAL(7,2)"): [*SMALL, "1.5", "-2.25"],
    ("DECIMAL(38,0)", "DECIMAL(38,0)"): SMALL,
    ("DOUBLE", "DOUBLE"): DOUBLES,
    ("FLOAT", "FLOAT"): FLOATS,
    ("FLOAT", "DOUBLE"): FLOATS,
    ("INT", "DOUBLE"): SMALL,
    ("DOUBLE", "INT"): SMALL,
    ("DATE", "DATE"): DAYS,
    ("TIMESTAMP", "TIMESTAMP"): [*TIMES, "9999-12-31 00:00:00"],
    ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ"): TIMES,
}
WIDE, APPROXIMATE = ("DECIMAL(38,0)", "DECIMAL(38,0)"), ("FLOAT", "DOUBLE")
SIDES = (
    "t {join} q {nearest}",
    "(SELECT * FROM t WHERE v > 0) t {join} q {nearest}",
    "t {join} (SELECT * FROM q WHERE v > 0) AS q {nearest}",
    "t {join} (SELECT * FROM q WHERE false) q {nearest}",
    "t {join} q {nearest} WHERE t.v > 0 AND t.id <> 2",
    "t {join} q {nearest} WHERE {distance} IS NULL OR CAST({distance} AS STRING) <> '0'",
    "t {join} (q JOIN (SELECT seq AS n FROM q) AS one ON q.seq = one.n) {nearest}",
    "t {join} q {nearest} LEFT JOIN q r ON r.seq = q.seq AND r.ts <=> q.ts",
    "q AS r LEFT JOIN t ON r.seq = t.id {join} q {nearest}",
    "t {join} q {nearest}, LATERAL (SELECT t.v + q.v AS z) AS z",
    "(t {join} q {nearest}) LATERAL VIEW explode(array(1, 2)) x AS e",
)
FORMS = (
    "SELECT t.id, {distance} AS d FROM {from_}",
    "SELECT t.*, {distance} AS d, q.seq IS NULL AS unmatched FROM {from_} ORDER BY t.id",
    "SELECT t.id, count(*) AS n, count(DISTINCT q.seq) AS seqs, max({distance}) AS d FROM {from_} GROUP BY t.id",
    "SELECT * FROM (SELECT t.id, {distance} AS d, count(*) OVER () AS n FROM {from_}) x WHERE d IS NOT NULL OR id > 1",
    "WITH near AS (SELECT t.id AS i, {distance} AS d FROM {from_}) SELECT i, d FROM near JOIN t ON t.id = i",
)


@dataclass(frozen=True)
class RandomQuery:
    """Tables ``t(id, ts, v)`` and ``q(seq, ts, v)``, a query, and whether it is rewritten.

    ``zone`` and ``ansi`` are settings of the session.
    """

    tables: tuple[str, str]
    query: str
    taken: bool
    zone: str
    ansi: bool


@st.composite
def cases(draw: st.DrawFn) -> RandomQuery:
    """Every form over columns of every type, by distance and by similarity."""
    types = draw(st.sampled_from(list(TYPES)))
    value, small = st.sampled_from(TYPES[types]), st.sampled_from(["0", "1", "NULL"])
    row = st.tuples(value, small)
    left = [(str(n), *r) for n, r in enumerate(draw(st.lists(row, max_size=6)))]
    right = [(str(n), *r) for n, r in enumerate(draw(st.lists(row, max_size=9)))]
    form = draw(st.sampled_from(FORMS))
    left += left[:1] if "DISTINCT" not in form and draw(st.booleans()) else []
    tables = (
        typed_table(("id", "ts", "v"), ("INT", types[0], "INT"), left),
        typed_table(("seq", "ts", "v"), ("INT", types[1], "INT"), right),
    )
    zone = draw(st.sampled_from(("UTC", "UTC", "America/New_York")))
    ansi = draw(st.sampled_from((True, True, False)))
    distance = draw(st.sampled_from(("abs(t.ts - q.ts)", "abs((q.ts) - t.ts)")))
    if types[0] == "DATE" and draw(st.booleans()):
        distance = "abs(datediff(t.ts, q.ts))"
    ranking = draw(st.sampled_from(("DISTANCE {}", "DISTANCE ({})", "SIMILARITY -{}", "SIMILARITY 5 - {}")))
    if draw(st.integers(0, 7)) == 0:
        ranking = draw(
            st.sampled_from(
                ("DISTANCE -{}", "SIMILARITY {}", "DISTANCE {} + q.v", "DISTANCE q.ts", "SIMILARITY 5 + {}")
            )
        )
        taken = False
    else:
        whole = "datediff" in distance or all("INT" in name for name in types)
        exact = not any(name in APPROXIMATE for name in types)
        wraps = all("INT" in name for name in types) and not ansi
        clocks = types[0] == "TIMESTAMP" and zone != "UTC"
        falls = "SIMILARITY" not in ranking or (exact and (whole or "5" not in ranking))
        taken = falls and not wraps and not clocks and types != WIDE
    count = draw(st.sampled_from(("", "1", "2", "3", "4", "5", "12", "12", "33")))
    nearest = f"{draw(st.sampled_from(('EXACT', 'approx')))} NEAREST {count} BY {ranking.format(distance)}"
    join = draw(st.sampled_from(("JOIN", "INNER JOIN", "LEFT JOIN", "LEFT OUTER JOIN")))
    from_ = draw(st.sampled_from(SIDES)).format(join=join, nearest=nearest, distance=distance)
    query = form.format(distance=distance, from_=from_)
    return RandomQuery(tables, query, taken and count != "33", zone, ansi)


def plan_of(session: SparkSession, case: RandomQuery) -> Plan:
    """The plan of a case, over its tables and under its settings."""
    session.conf.set("spark.sql.session.timeZone", case.zone)
    session.conf.set("spark.sql.ansi.enabled", str(case.ansi).lower())
    for name, table in zip("tq", case.tables, strict=True):
        few_rows(session, name, table)
    note(str(case.tables))
    return Optimizer(session, OPTIONS).plan(case.query)


@given(cases())
def test_the_same_distances_as_spark(session: SparkSession, share: Share, case: RandomQuery) -> None:
    plan = plan_of(session, case)
    assert_taken(session, case.query, plan, "nearest_syntax", taken=share.count(case.taken))


@given(cases())
def test_sessions_that_refuse_the_syntax(session: SparkSession, case: RandomQuery) -> None:
    """A session without cross joins, as a version without NEAREST BY, returns the rows of one that has them."""
    session.conf.set("spark.sql.crossJoin.enabled", "true")
    plan_of(session, case)
    expected = returned(lambda: session.sql(case.query))
    session.conf.set("spark.sql.crossJoin.enabled", "false")
    plan = plan_of(session, case)
    note(plan.sql())
    assert plan.rewritten == case.taken
    ours = returned(plan.dataframe)
    session.conf.set("spark.sql.crossJoin.enabled", "true")
    if case.taken and not hasattr(expected.rows, "condition"):
        assert ours.rows == expected.rows


LEFT, RIGHT = ("0", "100", "200", "NULL"), ("1", "4", "9", "30", "87", "111", "143", "205", "260")
UNTIED = (  # no two right values are equally far from a left value, or from one of themselves
    "SELECT * FROM t {join} q {by} WHERE q.v IS NULL OR q.v > 0 OR t.v = 1",
    "SELECT t.id, q.seq, r.* FROM t {join} q {by} {other} q AS r EXACT NEAREST 2 BY DISTANCE abs(q.ts - r.ts)",
    "SELECT t.*, q.seq, u.id AS other FROM t {join} q {by} JOIN t u ON u.v = q.v AND u.id <> t.id",
    "SELECT t.id, q.seq FROM t {join} (SELECT seq, max(ts) AS ts FROM q WHERE v IS NOT NULL GROUP BY seq) q {by}",
    "SELECT id, seq FROM (SELECT t.id, q.seq, q.ts, t.v FROM t {join} q {by}) x WHERE seq IN (SELECT v FROM t)",
    "SELECT t.v, sum(q.seq) AS s FROM t {join} q {by} GROUP BY t.v HAVING count(*) > 1",
    "SELECT t.id, x.seq FROM t LEFT JOIN (SELECT u.v, q.seq FROM t u {join} q {by_u}) x ON x.v = t.v",
    "SELECT t.id, q.seq FROM t {join} q {by} UNION ALL SELECT v, seq FROM q",
)


@st.composite
def untied(draw: st.DrawFn) -> RandomQuery:
    """Joins of which every row is determined."""
    type_ = draw(st.sampled_from(("INT", "DOUBLE", "DECIMAL(9,1)", "BIGINT")))
    small = st.sampled_from(["0", "1", "2", "NULL"])
    left = draw(st.lists(st.tuples(st.sampled_from(LEFT), small), max_size=7))
    right = [(value, draw(small)) for value in draw(st.lists(st.sampled_from(RIGHT), unique=True, max_size=9))]
    right += [("NULL", "1")] if draw(st.booleans()) else []
    tables = (
        typed_table(("id", "ts", "v"), ("INT", type_, "INT"), [(str(n), *r) for n, r in enumerate(left)]),
        typed_table(("seq", "ts", "v"), ("INT", type_, "INT"), [(str(n), *r) for n, r in enumerate(right)]),
    )
    ranking = "DISTANCE abs({}.ts - q.ts)" if type_ == "DOUBLE" else "SIMILARITY -abs({}.ts - q.ts)"
    by = f"EXACT NEAREST {draw(st.sampled_from(('', 2, 3, 4, 5, 20)))} BY {ranking}"
    joins = st.sampled_from(("JOIN", "LEFT JOIN"))
    words = {"join": draw(joins), "other": draw(joins), "by": by.format("t"), "by_u": by.format("u")}
    return RandomQuery(tables, draw(st.sampled_from(UNTIED)).format(**words), True, "UTC", True)


@given(untied())
def test_the_same_rows_where_none_tie(session: SparkSession, case: RandomQuery) -> None:
    assert_taken(session, case.query, plan_of(session, case), "nearest_syntax", taken=True)
