"""Joins with versions made on the spot, by `lead`, return what plain Spark returns for them, on random tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from answers.test_random_nearest import KEYS, TIMES, RandomQuery, _table, plan_of
from comparing import assert_taken
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

share = at_least(0.3)

LEAD = "lead(ts) OVER (PARTITION BY {by} ORDER BY ts)"
VERSIONS = {  # subqueries over q: whether their last version has no end, and whether they are versions of that kind
    f"(SELECT k, j, ts, v, {LEAD} AS until FROM q)": (True, True),
    f"(SELECT *, {LEAD} AS until FROM q WHERE v > 0)": (True, True),
    "(SELECT ts, v, k, j, lead(q.ts, 1) OVER (PARTITION BY {by} ORDER BY q.ts ASC NULLS LAST) AS until FROM q)": (
        True,
        True,
    ),
    f"(SELECT *, coalesce({LEAD}, {{last}}) AS until FROM q)": (False, True),
    "(SELECT *, lead(ts, 1, {last}) OVER (PARTITION BY {by} ORDER BY ts) AS until FROM q)": (False, True),
    f"(SELECT *, {LEAD} AS until, row_number() OVER (PARTITION BY {{by}} ORDER BY ts) AS n FROM q)": (True, True),
    "(SELECT *, lead(ts, 2) OVER (PARTITION BY {by} ORDER BY ts) AS until FROM q)": (True, False),
    "(SELECT *, lag(ts) OVER (PARTITION BY {by} ORDER BY ts) AS until FROM q)": (True, False),
    "(SELECT *, lead(ts) OVER (PARTITION BY {by} ORDER BY ts DESC) AS until FROM q)": (True, False),
    "(SELECT *, lead(ts) OVER (PARTITION BY {by} ORDER BY v, ts) AS until FROM q)": (True, False),
    f"(SELECT *, {LEAD} AS until, explode(array(1, 2)) AS e FROM q)": (True, False),
    f"(SELECT DISTINCT k, j, ts, v, {LEAD} AS until FROM q)": (True, False),
}
ENDS = {  # the end of a version: whether it lets the last version of a key be valid for ever
    "(t.ts {less} v.until OR v.until IS NULL)": True,
    "(v.until IS NULL OR v.until {more} t.ts)": True,
    "t.ts {less} v.until": False,
    "t.ts {less} coalesce(v.until, {last})": False,
}
OTHERS = {  # conditions besides: whether they leave a left join alone
    "t.id > 0": True,
    "t.v IS NOT NULL AND t.id <> 1": True,
    "v.v > 0": False,
    "t.v <= v.v": False,
    "(t.v = 1 OR v.v IS NULL)": False,
}
READ = (
    "SELECT t.id, v.ts AS at, v.v FROM {from_}",
    "SELECT t.*, v.* FROM {from_}",
    "SELECT t.id, v.until, v.v FROM {from_}",
    "SELECT t.id, V.UNTIL AS e, v.v FROM {from_}",
    "SELECT t.id, `v`.`until` AS e FROM {from_}",
    "SELECT t.id, (SELECT max(o.a) FROM VALUES (1) AS o(a) WHERE v.Until IS NOT NULL) AS e FROM {from_}",
    "SELECT v.k, count(*) AS c, sum(v.v) AS s FROM {from_} GROUP BY v.k",
    "SELECT t.id, v.ts AS at, o.v AS w FROM {from_} CROSS JOIN (SELECT 7 AS v) o",
    "SELECT t.id, v.v, w.v AS x FROM {from_} LEFT JOIN {others} w ON {on_others}",
)
ON_OTHERS = "w.k = t.k AND t.j >= w.at AND (t.j < w.until OR w.until IS NULL)"
OTHERS_OF_KEY = (
    "(SELECT k, v AS at, j AS v, lead(v) OVER (PARTITION BY k ORDER BY v) AS until "
    "FROM (SELECT DISTINCT k, v, 0 AS j FROM q))"
)


@st.composite
def cases(draw: st.DrawFn) -> RandomQuery:
    """Every kind of versions, end, join and select list; rows of one key and time are equal, as their versions are."""
    types = draw(st.sampled_from([pair for pair in TIMES if pair[0] == pair[1]]))
    values, _ = TIMES[types]
    key = draw(st.sampled_from(list(KEYS)))
    small = st.sampled_from(["0", "1", "2", "NULL"])
    row = st.tuples(st.sampled_from(KEYS[key]), small, st.sampled_from(values), small)
    left = [(draw(small), *r) for r in draw(st.lists(row, max_size=7))]
    right: dict[tuple[str, ...], str] = {}
    rows = draw(st.lists(row, max_size=10))
    right_rows = [("0", *r[:3], right.setdefault(_same(r[:3]), r[3])) for r in rows]
    tables = (
        _table(("id", "k", "j", "ts", "v"), ("INT", key, "INT", types[0], "INT"), left),
        _table(("seq", "k", "j", "ts", "v"), ("INT", key, "INT", types[1], "INT"), right_rows),
    )
    versions = draw(st.sampled_from(list(VERSIONS)))
    open_, taken = VERSIONS[versions]
    end = draw(st.sampled_from(list(ENDS)))
    strict = draw(st.booleans())
    wrong = draw(st.integers(0, 6)) == 0
    less = "<" if strict == wrong else "<="
    words = {"less": less, "more": less.replace("<", ">"), "last": f"CAST({values[0]} AS {types[0]})"}
    by = draw(st.sampled_from(("k", "k, j", "j")))
    sign = ">" if strict else ">="
    equal = {"k": ["t.k = v.k"], "k, j": ["v.k = t.k", "t.j <=> v.j"], "j": ["t.j = v.j"]}[by]
    conditions = [*equal, draw(st.sampled_from((f"t.ts {sign} v.ts", f"v.ts {sign.replace('>', '<')} t.ts")))]
    conditions.append(end.format(**words))
    other = draw(st.sampled_from((*OTHERS, "", "")))
    conditions += [other] if other else []
    missing = draw(st.integers(0, 7)) == 0
    if missing:  # versions of other keys are not told apart
        del conditions[0]
    kind = draw(st.sampled_from(("JOIN", "LEFT JOIN", ",")))
    if kind == "LEFT JOIN":
        whole = open_ and ENDS[end] and (not other or OTHERS[other])
        taken = taken and whole
    said = " AND ".join(draw(st.permutations(conditions)))
    source = versions.format(by=by, **words)
    is_named = draw(st.booleans())
    relation = "v" if is_named else f"{source} v"
    from_ = f"t, {relation} WHERE {said}" if kind == "," else f"t {kind} {relation} ON {said}"
    forms = READ[:-2] if kind == "," else READ
    query = draw(st.sampled_from(forms)).format(from_=from_, others=OTHERS_OF_KEY, on_others=ON_OTHERS)
    if "CROSS JOIN" in query and kind == "JOIN" and not (open_ and ENDS[end] and (not other or OTHERS[other])):
        taken = False  # the condition would be tested above another join
    if " w ON" in query:  # a join with versions in any case
        return RandomQuery(tables, f"WITH v AS {source} {query}" if is_named else query, nearest=True)
    query = f"WITH v AS {source} {query}" if is_named else query
    zone, ansi = draw(st.sampled_from(("UTC", "America/New_York"))), draw(st.booleans())
    return RandomQuery(tables, query, taken and not wrong and not missing, zone, ansi)


def _same(row: tuple[str, ...]) -> tuple[str, ...]:
    """The key, the second key and the time, such that equal ones are one: zeros of either sign are."""
    return tuple(value.replace("-0D", "0D") for value in row)


@given(cases())
def test_the_same_rows_as_plain_spark(session: SparkSession, share: Share, case: RandomQuery) -> None:
    plan = plan_of(session, case)
    assert_taken(session, case.query, plan, "nearest_versions", taken=share.count(case.nearest))
