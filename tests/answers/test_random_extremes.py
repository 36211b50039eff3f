"""EXISTS, semi and anti joins that one value of each key decides return what plain Spark returns, on random tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import given, note
from hypothesis import strategies as st

from comparing import assert_taken, few_rows
from dovetail import Optimizer, Options
from shares import Share, at_least
from typed_tables import typed_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

share = at_least(0.6)

OPTIONS = Options(strict=True, force=True)
SMALL = ["0", "1", "2", "5", "-4", "NULL"]
FLOATS = ["0", "-0.0", "1.5", "-3", "NaN", "-Infinity", "Infinity", "NULL"]
TIMES = ["2024-11-03 05:45:00", "2024-11-03 06:15:00", "0001-01-01 00:00:00", "9999-12-31 00:00:00", "NULL"]
TYPES = {  # the types of the values of both tables, and these values
    ("INT", "INT"): [*SMALL, "2147483647", "-2147483648"],
    ("TINYINT", "BIGINT"): SMALL,
    ("DECIMAL(5,1)", "DECIMAL(7,2)"): [*SMALL, "1.5"],
    ("DECIMAL(20,2)", "BIGINT"): SMALL,
    ("DOUBLE", "DOUBLE"): [*FLOATS, "1.7976931348623157E308", "5e-324"],
    ("FLOAT", "FLOAT"): FLOATS,
    ("DATE", "DATE"): ["2026-01-01", "2026-01-04", "0001-01-01", "9999-12-31", "NULL"],
    ("TIMESTAMP", "TIMESTAMP"): TIMES,
    ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ"): TIMES,
    ("STRING", "STRING"): ["", "a", "A", "a ", "é", "NULL"],
    ("BOOLEAN", "BOOLEAN"): ["true", "false", "NULL"],
}
KEYS = {"INT": ["1", "2", "NULL"], "STRING": ["a", "a ", "NULL"], "DOUBLE": ["0", "-0.0", "NaN", "NULL"]}
NUMBERS = ("INT", "BIGINT", "DECIMAL(7,2)", "DOUBLE")
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
EQUAL = ("i.w = p.w", "i.w + 1 = p.w")
RAISING = "10 / (p.w - 2) >= 5"
# Conditions on both rows of a pair, which the row with the least value need not fulfill.
OTHER_ROWS = ("i.w <> p.w", "i.w <= p.w", "(i.v < p.v OR i.w = 2)", "i.w + p.w > 2")
TESTS = (
    "SELECT * FROM p WHERE EXISTS (SELECT 1 FROM i WHERE {condition})",
    "SELECT id, v FROM p WHERE NOT EXISTS (SELECT * FROM i WHERE {condition})",
    "SELECT p.* FROM p LEFT SEMI JOIN i ON {condition} WHERE p.id > 0",
    "SELECT * FROM p LEFT ANTI JOIN i ON {condition}",
    "SELECT p.w, count(*) AS n FROM p WHERE p.w IN (SELECT i.w FROM i WHERE {condition}) GROUP BY p.w",
    "SELECT id FROM p WHERE id > 0 AND NOT (NOT EXISTS (SELECT 2 FROM (SELECT * FROM i) i WHERE {condition} LIMIT 3))",
    "SELECT id FROM p WHERE NOT EXISTS (SELECT 1 FROM i JOIN p q ON q.id = i.w WHERE {condition})",
    "SELECT p.id, r.w FROM p LEFT SEMI JOIN i ON {condition} JOIN i AS r ON r.w = p.w",
    "SELECT id FROM p WHERE EXISTS (SELECT i.* FROM i WHERE {condition}) AND w IN (SELECT w FROM i WHERE {condition})",
    "WITH u AS (SELECT * FROM p WHERE NOT EXISTS (SELECT 1 FROM i WHERE {condition})) SELECT max(v) FROM u GROUP BY w",
)
VALUES = (
    "SELECT *, EXISTS (SELECT 1 FROM i WHERE {condition}) AS e FROM p WHERE p.id > 0 ORDER BY id",
    "SELECT id, CASE WHEN NOT EXISTS (SELECT i.w FROM i WHERE {condition}) THEN w END AS e FROM p",
    "SELECT v FROM p WHERE p.w = 2 OR EXISTS (SELECT 1 FROM i WHERE {condition})",
)


@dataclass(frozen=True)
class RandomQuery:
    """Tables ``p(id, k, v, w)`` and ``i(k, v, w)``, a query, whether it is rewritten, and the rule that does it."""

    tables: tuple[str, str]
    query: str
    taken: bool
    ansi: bool
    rule: str


@st.composite
def cases(draw: st.DrawFn) -> RandomQuery:
    """Keys and values of every type, bounds from either end, conditions on one side and on both."""
    types, key = draw(st.sampled_from(list(TYPES))), draw(st.sampled_from(list(KEYS)))
    row = st.tuples(st.sampled_from(KEYS[key]), st.sampled_from(TYPES[types]), st.sampled_from(["1", "2", "3", "NULL"]))
    left = [(str(n), *r) for n, r in enumerate(draw(st.lists(row, max_size=8)))]
    right = draw(st.lists(row, max_size=draw(st.sampled_from((10, 10, 0)))))
    tables = (
        typed_table(("id", "k", "v", "w"), ("INT", key, types[0], "INT"), left + left[:1]),
        typed_table(("k", "v", "w"), (key, types[1], "INT"), right),
    )
    sign = draw(st.sampled_from(sorted(TURNED)))
    turned, opposite = TURNED[sign], OPPOSITE[sign]
    bound = draw(st.sampled_from((f"i.v {sign} p.v", f"p.v {turned} i.v", f"NOT (i.v {opposite} p.v)")))
    conditions = [bound]
    if types[0] in NUMBERS and types[1] in NUMBERS and draw(st.booleans()):
        conditions = [draw(st.sampled_from((f"i.v {sign} p.v + 1", f"p.v - p.w {turned} i.v", f"i.v - 1 {sign} p.v")))]
    elif draw(st.integers(0, 3)) == 0:
        conditions.append(f"i.v {sign} p.v")
    conditions += draw(st.lists(st.sampled_from(["i.k = p.k", "p.k = i.k", "i.k <=> p.k"]), max_size=1))
    conditions += draw(st.lists(st.sampled_from(EQUAL), max_size=1))
    conditions += draw(
        st.lists(
            st.sampled_from(["i.w > 1", "p.w < 3", "p.id <> 2", "i.w IS NOT NULL", RAISING, "i.w > 9"]),
            max_size=2,
        )
    )
    taken = True
    if draw(st.integers(0, 5)) == 0:
        conditions.append(draw(st.sampled_from(OTHER_ROWS)))
        taken = False
    condition = " AND ".join(draw(st.permutations(conditions)))
    test, ansi = draw(st.sampled_from((*TESTS, *VALUES))), draw(st.booleans())
    if ansi and RAISING in conditions and test in TESTS:  # Spark would divide by i.w - 2 or i.w - 1 as well
        keys = EQUAL[1:] if "JOIN i ON" in test else EQUAL  # from equal columns of a join it infers the filter itself
        taken = taken and not (any(c in conditions for c in keys) or ("p.w IN" in test and "EXISTS" not in test))
    rule = "extreme_exists" if test in TESTS else "extreme_exists_value"
    return RandomQuery(tables, test.format(condition=condition), taken, ansi, rule)


@given(cases())
def test_the_same_rows_as_spark(session: SparkSession, share: Share, case: RandomQuery) -> None:
    session.conf.set("spark.sql.ansi.enabled", str(case.ansi).lower())
    for name, table in zip("pi", case.tables, strict=True):
        few_rows(session, name, table)
    note(str(case.tables))
    plan = Optimizer(session, OPTIONS).plan(case.query)
    assert_taken(session, case.query, plan, case.rule, taken=share.count(case.taken))
