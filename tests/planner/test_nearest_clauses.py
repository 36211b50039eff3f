"""ASOF and NEAREST BY are read where they cannot be names; their words stay names everywhere else."""

from __future__ import annotations

import pytest

from dovetail.optimizer.planning.validation import compare_readings, has_same_tokens
from dovetail.planner.catalog import Settings
from dovetail.planner.errors import Unsupported
from dovetail.planner.logical import Join, Scan
from dovetail.planner.logical.nearest_syntax import AsofJoin, NearestByJoin
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.sql.to_sql import to_sql
from dovetail.planner.sql.whole_statement import without_nearest_clauses

READ = {  # what stands behind FROM: the kind, how many rows, whether by similarity, the expression
    "l JOIN r EXACT NEAREST BY DISTANCE abs(l.x - r.x)": ("inner", 1, False, "abs(l.x - r.x)"),
    "l INNER JOIN r approx nearest 3 by similarity -abs(l.x - r.x)": ("inner", 3, True, "-abs(l.x - r.x)"),
    "l LEFT OUTER JOIN r AS q(a) APPROX NEAREST 03 BY DISTANCE abs(l.x - a) WHERE x": (
        "left",
        3,
        False,
        "abs(l.x - a)",
    ),
    "l LEFT JOIN (r JOIN s) EXACT NEAREST 2 BY DISTANCE r.x JOIN t ON true": ("left", 2, False, "r.x"),
    "z, l JOIN r EXACT NEAREST 5 BY DISTANCE abs(l.x - r.x)": ("inner", 5, False, "abs(l.x - r.x)"),
    "l JOIN r JOIN s EXACT NEAREST 5 BY DISTANCE abs(l.x - s.x), t": ("inner", 5, False, "abs(l.x - s.x)"),
    "l JOIN r exact EXACT NEAREST 2 BY DISTANCE exact.x": ("inner", 2, False, "exact.x"),
    "l JOIN nearest APPROX NEAREST BY DISTANCE distance - similarity": ("inner", 1, False, "distance - similarity"),
    "l JOIN r EXACT NEAREST 0 BY DISTANCE l.x": ("inner", 0, False, "l.x"),
    "l JOIN r `exact` EXACT /* a */ NEAREST /* b */ 4 -- c\n BY DISTANCE l.x": ("inner", 4, False, "l.x"),
    "l JOIN VALUES (1), (2) AS r(x) EXACT NEAREST 3 BY DISTANCE abs(l.x - r.x)": ("inner", 3, False, "abs(l.x - r.x)"),
    "l JOIN r EXACT NEAREST BY DISTANCE l.x IN (SELECT 1) LATERAL VIEW explode(y) e AS z": (
        "inner",
        1,
        False,
        "l.x IN (__plan_0)",
    ),
}
NAMES = """
SELECT asof FROM l JOIN r ON l.asof = r.x
SELECT * FROM l JOIN r EXACT
SELECT * FROM l JOIN r exact ON exact.x = l.x
SELECT * FROM l JOIN exact nearest ON nearest.x = l.x
SELECT * FROM exact nearest JOIN approx AS similarity ON nearest.distance = similarity.by
SELECT nearest, exact AS approx, distance AS similarity FROM l JOIN r USING (nearest) ORDER BY nearest, exact
SELECT * FROM l JOIN exact nearest GROUP BY distance
SELECT * FROM l JOIN r ON l.exact = r.nearest AND l.x = 'EXACT NEAREST 3 BY DISTANCE x'
""".strip().splitlines()


@pytest.mark.parametrize("text", READ)
def test_the_clause_is_read(text: str) -> None:
    text = f"SELECT * FROM {text}"
    plan, notes = from_sql(text)
    (join,) = (node for node in plan.walk() if isinstance(node, NearestByJoin))
    assert (join.kind, join.count, join.is_similarity, join.match.text) == READ[text[len("SELECT * FROM ") :]]
    assert not notes
    assert has_same_tokens(plan, text)
    assert from_sql(to_sql(plan))[0] == plan
    assert compare_readings(plan, text, Settings()) is None


@pytest.mark.parametrize("relations", ["l ASOF JOIN r ON l.x >= r.x", "l a ASOF JOIN r USING (x)", "l AS asof JOIN r"])
def test_an_as_of_join_without_match_condition_is_not_read(relations: str) -> None:
    with pytest.raises(Unsupported, match="ASOF JOIN needs MATCH_CONDITION"):
        from_sql(f"SELECT * FROM {relations}")


@pytest.mark.parametrize("relation", ["l asof", "l AS asof", "db.l asof", "(SELECT * FROM l) asof"])
@pytest.mark.parametrize("join", ["LEFT JOIN", "INNER JOIN", "LEFT OUTER JOIN"])
def test_asof_stays_an_alias(relation: str, join: str) -> None:
    text = f"SELECT * FROM {relation} {join} r ON asof.x >= r.x"
    plan, _ = from_sql(text)
    assert [type(node) for node in plan.walk() if isinstance(node, Join | AsofJoin)] == [Join]
    assert has_same_tokens(plan, text)
    assert without_nearest_clauses(text) == text


@pytest.mark.parametrize("text", NAMES)
def test_its_words_are_names_elsewhere(text: str) -> None:
    plan, _ = from_sql(text)
    assert not any(isinstance(node, NearestByJoin | AsofJoin) for node in plan.walk())
    assert all(isinstance(side, Scan) for node in plan.walk() if isinstance(node, Join) for side in node.children)
    assert has_same_tokens(plan, text)
    assert without_nearest_clauses(text) == text
    assert compare_readings(plan, text, Settings()) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("l CROSS JOIN r EXACT NEAREST 3 BY DISTANCE l.x", "CROSS JOIN has no NEAREST BY"),
        ("l RIGHT JOIN r EXACT NEAREST 3 BY DISTANCE l.x", "RIGHT JOIN has no NEAREST BY"),
        ("l SEMI JOIN r EXACT NEAREST 3 BY DISTANCE l.x", "SEMI JOIN has no NEAREST BY"),
        ("l NATURAL JOIN r EXACT NEAREST 3 BY DISTANCE l.x", "NATURAL JOIN has no NEAREST BY"),
        ("l JOIN r EXACT NEAREST 3 BY DISTANCE", "NEAREST BY has no expression"),
    ],
)
def test_what_spark_refuses_is_not_read(text: str, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        from_sql(f"SELECT * FROM {text}")


def test_both_clauses_are_read_in_one_from() -> None:
    text = (
        "SELECT * FROM l JOIN r EXACT NEAREST 2 BY DISTANCE abs(l.x - r.x) "
        "ASOF JOIN s MATCH_CONDITION (r.x >= s.x) ON s.k = l.k LEFT JOIN t APPROX NEAREST BY SIMILARITY -abs(s.x - t.x)"
    )
    plan, _ = from_sql(text)
    kinds = [type(node) for node in plan.walk() if isinstance(node, AsofJoin | NearestByJoin)]
    assert kinds == [NearestByJoin, AsofJoin, NearestByJoin]
    assert compare_readings(plan, text, Settings()) is None
    plain = without_nearest_clauses(text)
    assert len(plain) == len(text)
    assert " ".join(plain.split()) == (
        "SELECT * FROM l JOIN r ON abs(l.x - r.x) JOIN s ON s.k = l.k LEFT JOIN t ON -abs(s.x - t.x)"
    )
