"""Which statements can be estimated, and the statement that reads a sample of one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dovetail.golden_plans.case import read_case
from dovetail.optimizer.options import Options
from dovetail.planner.errors import QueryError
from dovetail.planner.offline_catalog.read_catalog import read_catalog
from dovetail.planner.sql.from_sql import from_sql
from dovetail.rules.context import Context
from dovetail.rules.estimate.query import EstimatedQuery, read_estimate
from dovetail.rules.estimate.sample_statement import sample_statement, size_statement

GOLDEN = Path(__file__).parents[2] / "golden_plans"
CATALOG = read_catalog(GOLDEN / "catalogs" / "ads.toml")
BAND = "v.user_id = c.user_id AND c.ts BETWEEN v.ts AND v.ts + INTERVAL 10 MINUTES"


def read(text: str) -> EstimatedQuery:
    return read_estimate(from_sql(text, CATALOG.settings)[0], Context(CATALOG, Options()))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT max(ad) FROM clicks", r"max\(ad\) depends on single rows"),
        ("SELECT count(DISTINCT ad) FROM clicks", r"count\(DISTINCT ad\) counts values that no sample has met"),
        ("SELECT count(*) FROM clicks LIMIT 3", "line 1, column 35: .*LIMIT 3 picks groups"),
        ("SELECT count(*) FROM clicks c FULL JOIN views v ON c.user_id = v.user_id", "outside a FULL JOIN"),
        ("SELECT count(*), sqrt(count(*)) FROM clicks", r"column 18: .*sqrt\(count\(\*\)\) is more than aggregates"),
        ("SELECT sum(user_id) + ad FROM clicks GROUP BY ad", r"sum\(user_id\) \+ ad is more than aggregates"),
        ("SELECT count(*) AS n, sum(user_id) / n FROM clicks", "/ n is more than aggregates"),
        ("SELECT ad FROM clicks", "no item of its select list is an aggregate"),
        ("SELECT ad, rank() OVER (ORDER BY count(*)) FROM clicks GROUP BY ad", "computes more than count"),
        ("SELECT percentile(user_id, 0.5) FROM clicks", "computes more than count"),
        ("SELECT count(*) FROM clicks UNION ALL SELECT 1", "UNION ALL combines two queries"),
        ("SELECT count(*) FROM clicks WHERE rand() < 0.5", "another value each time"),
        ("SELECT count(*) FROM clicks TABLESAMPLE (10 PERCENT)", "other rows each time"),
        ("SELECT ad, count(*) FROM clicks GROUP BY ROLLUP(ad)", "more than a list of expressions"),
        ("SELECT DISTINCT count(*) FROM clicks", "DISTINCT"),
        ("SELECT (SELECT 1), count(*) FROM clicks", "subquery beside the aggregates"),
        ("SELECT * FROM clicks", "is no aggregate"),
        ("SELECT 1", "has no FROM"),
        ("INSERT INTO t SELECT count(*) FROM clicks", "is no query"),
    ],
)
def test_the_reason_of_a_refusal(text: str, reason: str) -> None:
    with pytest.raises(QueryError, match=f"{reason}.*opt.sql"):
        read(text)


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("SELECT ad AS a, count(*) FROM clicks GROUP BY a", ["ad"]),
        ("SELECT ad, count(*) FROM clicks GROUP BY 1", ["ad"]),
        ("SELECT ad, count(*) FROM clicks GROUP BY ALL", ["ad"]),
        ("SELECT count(*) FROM clicks GROUP BY ad, user_id % 2", ["ad", "user_id % 2"]),
        ("SELECT upper(ad), count(*) FROM clicks GROUP BY ad", ["UPPER(ad)", "ad"]),
        ("SELECT 'x', count(*) FROM clicks", ["'x'"]),
    ],
)
def test_groups(text: str, groups: list[str]) -> None:
    assert [group.text.replace("upper", "UPPER") for group in read(text).groups] == groups


@pytest.mark.parametrize(
    ("tree", "sampled"),
    [
        (f"clicks c JOIN views v ON {BAND}", "v"),  # which has more rows
        (f"clicks c LEFT JOIN views v ON {BAND}", "c"),
        (f"clicks c RIGHT JOIN views v ON {BAND}", "v"),
        (f"clicks c LEFT SEMI JOIN views v ON {BAND}", "c"),
        (f"clicks c LEFT ANTI JOIN views v ON {BAND}", "c"),
        ("clicks c, views v", "v"),
        ("clicks", "clicks"),
        ("(SELECT * FROM views WHERE user_id > 3) AS w", "w"),
        ("(SELECT * FROM views WHERE user_id > 3)", "__dt_sampled"),
        ("views a JOIN views b ON a.ts = b.ts", "a"),
        (
            "clicks c LEFT JOIN (clicks d FULL JOIN views v USING (ts)) ON c.ts = d.ts JOIN views w ON w.ts = c.ts",
            "w",
        ),
    ],
)
def test_the_relation_that_is_sampled_has_one_row_behind_each_row_of_the_result(tree: str, sampled: str) -> None:
    assert read(f"SELECT count(*) FROM {tree}").sampled.name == sampled


@pytest.mark.parametrize(
    ("item", "plain"),
    [
        ("round(avg(user_id), 2)", "avg(user_id)"),
        ("CAST(sum(user_id) AS DECIMAL(20, 2))", "sum(user_id)"),
        ("coalesce(sum(user_id), 0)", "sum(user_id)"),
        ("round(100 * (sum(user_id) + 1) / nullif(count(*), 0), 1)", "100 * (sum(user_id) + 1) / count(*)"),
        ("try_divide(sum(user_id), count(*))", "sum(user_id) / count(*)"),
        ("try_sum(user_id)", "sum(user_id)"),
        ("round(sum(try_divide(user_id, 0)), 1)", "sum(try_divide(user_id, 0))"),
        ("avg(round(coalesce(user_id, 0), 2))", "avg(round(coalesce(user_id, 0), 2))"),
        ("count_if(ad = 'x')", "count(CASE WHEN ad = 'x' THEN 1 END)"),
        ("count(*) FILTER (WHERE ad = 'x')", "count(CASE WHEN ad = 'x' THEN 1 END)"),
        ("sum(user_id) FILTER (WHERE ad = 'x')", "sum(CASE WHEN ad = 'x' THEN user_id END)"),
    ],
)
def test_what_is_written_around_aggregates(item: str, plain: str) -> None:
    one, other = (read(f"SELECT {text} FROM clicks") for text in (item, plain))
    assert one.columns == other.columns
    assert one.totals == other.totals
    assert [a.tree for a in one.arguments] == [a.tree for a in other.arguments]


@pytest.mark.parametrize(
    "item", ["count(DISTINCT ad) FILTER (WHERE ad > 'x')", "floor(sum(user_id))", "coalesce(sum(user_id), 1)"]
)
def test_what_is_left_around_aggregates(item: str) -> None:
    with pytest.raises(QueryError):
        read(f"SELECT {item} FROM clicks")


def test_totals_are_shared() -> None:
    query = read("SELECT count(*), sum(user_id), avg(user_id), 2 * sum(user_id) / count(user_id) FROM clicks")
    assert query.totals == [
        "count(*)",
        "max(__dt_cluster_rows)",
        "count(__dt_argument0)",
        "coalesce(sum(CAST(__dt_argument0 AS DOUBLE)), 0D)",
    ]
    assert [column.present for column in query.columns] == [(), (2,), (2,), (2,)]
    assert (2,) in read("SELECT sum(user_id) FROM clicks").products  # which tells whether the sum is NULL


@pytest.mark.parametrize(
    ("condition", "own"),
    [
        ("v.user_id > 3 AND c.ad < 'x' AND v.page = c.ad", ["v.user_id > 3"]),
        ("page = 'x' AND 1 = 1", ["page = 'x'"]),
        ("v.user_id IN (SELECT user_id FROM clicks)", []),  # the subquery may read other relations
    ],
)
def test_conditions_on_the_sampled_relation_filter_it_before_its_rows_are_counted(
    condition: str, own: list[str]
) -> None:
    query = read(f"SELECT count(*) FROM clicks c JOIN views v ON {BAND} WHERE {condition}")
    assert [conjunct.text for conjunct in query.sampled.own] == own
    for text in own:
        assert sample_statement(query, 0, 1024, 7).count(text) == 1
        assert text in size_statement(query, 7)


@pytest.mark.parametrize("case", sorted((GOLDEN / "cases" / "estimate").glob("*.plan")), ids=lambda path: path.stem)
def test_golden_plans_of_estimates_plan_the_statement_that_reads_the_sample(case: Path) -> None:
    golden = read_case(case)
    (estimated,) = re.findall(r"(?m)^-- of (SELECT .*)$", golden.above)
    written = " ".join(golden.sql.split())
    assert " ".join(sample_statement(read(estimated), 0, 1024, 7).split()) == written
