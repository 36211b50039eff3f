"""Nearest rows whose time is cut into ranges: the rows that plain Spark returns, on random tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, note
from hypothesis import strategies as st

from answers.test_random_nearest import KEYS, TIMES, RandomQuery, _table
from comparing import assert_same, few_rows
from dovetail import Optimizer, Options
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

share = at_least(0.4)
OPTIONS = Options(strict=True, force=True, nearest_range_rows=0)
TYPES = [types for types in TIMES if types[0] == types[1] and types[0] not in ("STRING", "TIMESTAMP_NTZ")]
FORMS = (  # the sort key behind the time has the order of the time
    "SELECT t.id, q.ts, q.seq FROM {} QUALIFY row_number() OVER (PARTITION BY t.id ORDER BY {order}) = 1",
    "SELECT t.id, x.* FROM t LEFT JOIN LATERAL (SELECT q.ts, q.seq FROM q WHERE {on} ORDER BY {order} LIMIT 1) x",
    "SELECT t.id, {last}_by(struct(q.ts, q.v), q.ts).ts AS at FROM {} GROUP BY t.id",
    "SELECT t.id, {last}(q.ts) AS at, max(t.v) AS v FROM {} GROUP BY t.id",
)
JOINS = ("t JOIN q ON {}", "t LEFT JOIN q ON {}", "t LEFT JOIN q ON {} WHERE t.v > 0", "q RIGHT JOIN t ON {}")


@st.composite
def cases(draw: st.DrawFn) -> RandomQuery:
    """Tables with more right rows than left ones, with and without equal keys."""
    types = draw(st.sampled_from(TYPES))
    key = draw(st.sampled_from([key for key in KEYS if key != "DOUBLE"]))
    small = st.sampled_from(["0", "1", "2", "NULL"])
    row = st.tuples(st.sampled_from(KEYS[key]), small, st.sampled_from(TIMES[types][0]), small)
    left, right = draw(st.lists(row, min_size=1, max_size=9)), draw(st.lists(row, min_size=1, max_size=12))
    columns = ("k", "j", "ts", "v")
    tables = (
        _table(("id", *columns), ("INT", key, "INT", types[0], "INT"), [(str(n), *r) for n, r in enumerate(left)]),
        _table(("seq", *columns), ("INT", key, "INT", types[1], "INT"), [(str(n), *r) for n, r in enumerate(right)]),
    )
    sign = draw(st.sampled_from(("<=", "<", ">=", ">")))
    backward = sign[0] == "<"
    equal = draw(st.sampled_from(("", "t.k = q.k", "q.k <=> t.k", "t.j = q.j AND t.k = q.k")))
    own = draw(st.sampled_from(("", "", "q.v > 0", "t.v > 0")))
    on = " AND ".join(filter(None, (f"q.ts {sign} t.ts", equal, own)))
    words = {
        "order": f"q.ts {'DESC' if backward else 'ASC'}, q.seq {'DESC' if backward else 'ASC'}",
        "last": "max" if backward else "min",
        "on": on,
    }
    query = draw(st.sampled_from(FORMS)).format(draw(st.sampled_from(JOINS)).format(on), **words)
    return RandomQuery(tables, query, nearest=True)


@given(cases())
def test_the_same_rows_as_plain_spark(session: SparkSession, share: Share, case: RandomQuery) -> None:
    for name, table in zip("tq", case.tables, strict=True):
        few_rows(session, name, table)
    plan = Optimizer(session, OPTIONS).plan(case.query)
    note("\n".join([*case.tables, case.query, plan.sql(), *plan.choices]))
    share.count("_range" in plan.sql())
    assert_same(session, case.query, plan)
