"""ASOF and NEAREST BY are read where they cannot be names; their words stay names everywhere else."""

from __future__ import annotations

import pytest

from optimizer.validation import compare_readings, has_same_tokens
from planner.catalog import Settings
from planner.errors import Unsupported
from planner.logical import Join, Scan
from planner.logical.nearest_syntax import AsofJoin, NearestByJoin
from planner.sql.from_sql import from_sql
from planner.sql.to_sql import to_sql
from planner.sql.whole_statement import without_nearest_clauses

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
AS_OF = {  # what stands behind FROM, where no MATCH_CONDITION is: the kind, the comparison, the other conditions
    "l a ASOF JOIN r ON a.k = r.k AND a.x >= r.x": ("inner", "a.x >= r.x", ("a.k = r.k",)),
    "l AS a ASOF JOIN r ON (a.x < r.x)": ("inner", "(a.x < r.x)", ()),
    "l a ASOF JOIN r ON (a.k = r.k AND a.x < r.x)": ("inner", "a.x < r.x", ("a.k = r.k",)),
    "l a ASOF LEFT JOIN r ON ((a.x < r.x AND (a.k = r.k)))": ("left", "a.x < r.x", ("(a.k = r.k)",)),
    "l a ASOF JOIN r ON (a.x < r.x) AND (a.k = r.k)": ("inner", "(a.x < r.x)", ("(a.k = r.k)",)),
    "l a ASOF LEFT JOIN r MATCH_CONDITION (a.x < r.x) ON a.k = r.k": ("left", "a.x < r.x", ("a.k = r.k",)),
    "l a ASOF INNER JOIN r q MATCH_CONDITION (a.x < q.x) JOIN s USING (k)": ("inner", "a.x < q.x", ()),
    "db.l `a` ASOF LEFT JOIN r AS q ON a.x <= q.x AND a.k = q.k": ("left", "a.x <= q.x", ("a.k = q.k",)),
    "l a asof left outer join (SELECT * FROM r) q ON q.x > a.x AND q.k <=> a.k": (
        "left",
        "q.x > a.x",
        ("q.k <=> a.k",),
    ),
    "(SELECT * FROM l) a LEFT ASOF JOIN r ON a.x > r.x WHERE a.x > 2": ("left", "a.x > r.x", ()),
    "(SELECT * FROM l) AS a ASOF INNER JOIN r ON a.x > r.x": ("inner", "a.x > r.x", ()),
    "l JOIN s ON l.k = s.k ASOF JOIN r ON s.x >= r.x AND r.k = l.k": ("inner", "s.x >= r.x", ("r.k = l.k",)),
    "l JOIN s USING (k) ASOF JOIN r ON s.x >= r.x": ("inner", "s.x >= r.x", ()),
    "z, l a ASOF JOIN r ON a.x >= r.x": ("inner", "a.x >= r.x", ()),
    "l JOIN (s b ASOF JOIN r ON b.x >= r.x) ON l.k = b.k": ("inner", "b.x >= r.x", ()),
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


@pytest.mark.parametrize("text", AS_OF)
def test_an_as_of_join_with_its_comparison_in_on(text: str) -> None:
    whole = f"SELECT * FROM {text}"
    plan, notes = from_sql(whole)
    (join,) = (node for node in plan.walk() if isinstance(node, AsofJoin))
    assert (join.kind, join.match.text, tuple(c.text for c in join.condition)) == AS_OF[text]
    assert not notes
    assert has_same_tokens(plan, whole)
    assert from_sql(to_sql(plan))[0] == plan
    assert compare_readings(plan, whole, Settings()) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("l ASOF JOIN r ON l.x >= r.x", "ASOF may be an alias"),
        ("l AS asof JOIN r ON asof.x >= r.x", "ASOF may be an alias"),
        ("db.l ASOF JOIN r ON l.x >= r.x", "ASOF may be an alias"),
        ("l JOIN r ASOF JOIN s ON r.x >= s.x", "ASOF may be an alias"),
        ("(SELECT * FROM l) ASOF JOIN r ON l.x >= r.x", "ASOF may be an alias"),
        ("range(3) ASOF JOIN r ON id >= r.x", "ASOF may be an alias"),
        ("l TABLESAMPLE (5 ROWS) ASOF JOIN r ON l.x >= r.x", "ASOF may be an alias"),
        ("l a ASOF JOIN r ON a.k = r.k", "one comparison by order in ON; it has 0"),
        ("l a ASOF JOIN r ON a.x > r.x AND a.z < r.z", "one comparison by order in ON; it has 2"),
        ("l a ASOF JOIN r USING (x)", "it has 0"),
        ("l a ASOF JOIN r", "it has 0"),
    ],
)
def test_other_as_of_joins_are_not_read(text: str, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        from_sql(f"SELECT * FROM {text}")


@pytest.mark.parametrize(
    ("join", "has_note"), [("LEFT JOIN r ON r.x <= y", True), ("LEFT JOIN r ON asof.x = 1", False)]
)
def test_an_alias_that_may_be_meant_otherwise_is_a_note(join: str, *, has_note: bool) -> None:
    _, notes = from_sql(f"SELECT * FROM l ASOF {join}")
    assert ["ASOF is an alias here" in note.reason for note in notes] == [True] * has_note


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
