"""Joins of streams as they are read: what is kept of each input, for how long, and what an epoch asks.  No Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dovetail import Options
from dovetail.optimizer.streams.plan import StreamPlan
from dovetail.optimizer.streams.queries import StreamPlanner, StreamQuery
from dovetail.planner.offline_catalog.read_catalog import read_catalog
from dovetail.planner.state.fingerprint import fingerprint
from dovetail.planner.state.program import Read, Version
from dovetail.planner.state.stream import Stream

CATALOG = read_catalog(Path(__file__).parents[2] / "golden_plans" / "catalogs" / "ads.toml")
BERLIN = read_catalog(Path(__file__).parents[2] / "golden_plans" / "catalogs" / "ads_in_berlin.toml")
WITHIN = "c.ts BETWEEN v.ts AND v.ts + INTERVAL 10 MINUTES"


def plan(query: str, catalog: Any = CATALOG, timed: tuple[str, ...] = ("clicks", "views")) -> StreamPlan:
    """The plan of a query over `clicks` and `views` as streams; those in `timed` have a watermark."""

    def find(name: tuple[str, ...]) -> Stream | None:
        if name not in (("clicks",), ("views",)):
            return None
        columns = tuple((c.name, str(c.type).lower()) for c in catalog.columns(name))
        return Stream(columns, "ts" if name[0] in timed else None, 5_000)

    return StreamPlanner(catalog, Options(strict=True), find).plan(StreamQuery(query, state_modules=True))


def test_an_epoch_as_it_is_explained() -> None:
    found = plan(f"SELECT c.ad, v.page FROM clicks c LEFT JOIN views v ON c.user_id = v.user_id AND {WITHIN}")
    assert (
        found.explain()
        == """\
Epoch
├─ Build  clicks
│     keeps user_id, ts, ad
│     until the watermark has passed `ts`
├─ Build  views
│     keeps user_id, ts, page
│     of rows where (`user_id` IS NOT NULL) AND (`ts` IS NOT NULL)
│     until the watermark has passed `ts` + 10m
├─ HalfJoin  ◁ inner, on c.user_id = v.user_id AND c.ts BETWEEN v.ts AND v.ts + INTERVAL 10 MINUTES
│  ├─ Arrangement  what is new of clicks
│  └─ Arrangement  all of views
├─ HalfJoin  ◁ inner, on c.user_id = v.user_id AND c.ts BETWEEN v.ts AND v.ts + INTERVAL 10 MINUTES
│  ├─ Arrangement  what was there before of clicks
│  └─ Arrangement  what is new of views
└─ HalfJoin  ◁ anti, on c.user_id = v.user_id AND c.ts BETWEEN v.ts AND v.ts + INTERVAL 10 MINUTES
   ├─ Arrangement  what nothing can match any more of clicks
   └─ Arrangement  all of views"""
    )


FINGERPRINTS = {  # of states that Dovetail 0.1 has written
    "JOIN": "1a26fc0f04925188e87300a6882d49b68f59731588058816e60a9d39b84136ad",
    "LEFT JOIN": "a145eff5b3a4d8be93d15add6312ee21322ec5c21a308c1c418188c852ba4d89",
    "RIGHT JOIN": "dcac308f3abc3b8985a75aa0462bc563e1d353ec0d170ae6ed4817d3cd9b2377",
    "FULL JOIN": "e443ee5fedda60f4765ed82a762c20392b922432f839419ffe42b0e0fef6f806",
    "LEFT SEMI JOIN": "77086afbf3314d8030807724bf582ed09d763b4fb5ed27be7d2a9c9fd441822f",
    "LEFT ANTI JOIN": "c4a58898cee2ae5c4aa1a45d35051f4496e71b578693e6bbff77f39963b81a03",
}


@pytest.mark.parametrize("kind", FINGERPRINTS)
def test_a_state_of_an_earlier_version_is_recognized(kind: str) -> None:
    found = plan(f"SELECT c.ad FROM clicks c {kind} views v ON c.user_id = v.user_id AND {WITHIN}").join
    assert found
    assert fingerprint("salt", found.identity) == FINGERPRINTS[kind]
    written = json.dumps({"format": 2, "text": found.text, "salt": "salt", "fingerprint": FINGERPRINTS[kind]})
    found.check_same(written, "state")


@pytest.mark.parametrize("kind", FINGERPRINTS)
def test_statements_read_the_versions_of_their_steps(kind: str) -> None:
    found = plan(f"SELECT c.ad FROM clicks c {kind} views v ON c.user_id = v.user_id AND {WITHIN}").join
    assert found
    known: set[Read | None] = set()
    for step in found.program.steps:
        assert set(re.findall(r"__dt_[a-z]+_\d", step.sql)) == {read.view for read in step.flow.reads}
        assert all(
            r in known for r in step.flow.reads if r.version in (Version.MATCHED, Version.FIRST, Version.UNMATCHED)
        )
        known.add(step.into)


def test_the_versions_that_a_step_requires() -> None:
    found = plan(f"SELECT c.ad FROM clicks c FULL JOIN views v ON c.user_id = v.user_id AND {WITHIN}").join
    assert found
    required = [" ".join(f"{read.version.name} {read.side}" for read in s.flow.required) for s in found.program.steps]
    assert required == ["NEW 0 ALL 1", "BEFORE 0 NEW 1", "FINAL 0", "UNMATCHED 0", "FINAL 1", "UNMATCHED 1"]


LASTING = {
    WITHIN: ("`ts`", "`ts` + 10m"),
    "c.ts > v.ts": ("`ts`", ""),
    "v.ts - c.ts < INTERVAL 1 HOUR": ("`ts` + 1h", ""),
    "abs(unix_micros(c.ts) - unix_micros(v.ts)) < 5": ("", ""),
    "c.ts = v.ts": ("`ts`", "`ts`"),
    "c.ts BETWEEN v.ts + INTERVAL 1 MINUTE AND v.ts + INTERVAL 2 MINUTES": ("`ts` - 1m", "`ts` + 2m"),
    "date_trunc('DAY', c.ts) = date_trunc('DAY', v.ts)": ("", ""),
}


@pytest.mark.parametrize("condition", LASTING)
def test_how_long_rows_are_kept(condition: str) -> None:
    found = plan(f"SELECT c.ad FROM clicks c JOIN views v ON c.user_id = v.user_id AND {condition}")
    assert found.join, found.reason
    assert tuple(i.lasts for i in found.join.inputs) == LASTING[condition]
    assert [bool(i.expires) for i in found.join.inputs] == [bool(said) for said in LASTING[condition]]


def test_the_other_sides_watermark_counts() -> None:
    query = f"SELECT c.ad FROM clicks c JOIN views v ON {WITHIN}"
    for timed, lasting in ((("clicks",), ("", "`ts` + 10m")), (("views",), ("`ts`", "")), ((), ("", ""))):
        found = plan(query, timed=timed)
        assert found.join
        assert tuple(i.lasts for i in found.join.inputs) == lasting


def test_calendar_days_leave_room_where_days_differ() -> None:
    query = "SELECT c.ad FROM clicks c JOIN views v ON c.ts BETWEEN v.ts AND v.ts + INTERVAL 1 DAY"
    in_utc, in_berlin = plan(query), plan(query, BERLIN)
    assert in_utc.join
    assert in_berlin.join
    assert [i.lasts for i in in_utc.join.inputs] == ["`ts`", "`ts` + 1d"]
    assert [i.lasts for i in in_berlin.join.inputs] == ["`ts`", "`ts` + 2d2h"]


def test_the_other_side_waits_for_rows_that_may_have_matched() -> None:
    """A view may match a click from it to ten minutes later, and the click is final when it has come."""
    ends = {}
    for kind in ("INNER", "LEFT", "RIGHT", "LEFT SEMI"):
        found = plan(f"SELECT v.page FROM views v {kind} JOIN clicks c ON {WITHIN}")
        assert found.join
        ends[kind] = tuple(i.lasts for i in found.join.inputs)
    assert ends["INNER"] == ("`ts` + 10m", "`ts`")
    assert ends["LEFT"] == ends["LEFT SEMI"] == ("`ts` + 10m", "the later of `ts` and `ts` + 10m")
    assert ends["RIGHT"] == ("`ts` + 10m", "`ts`")


def test_all_reasons_have_a_place_or_a_code() -> None:
    query = f"SELECT explode(array(1)), count(*) AS n FROM clicks c JOIN views v ON {WITHIN} GROUP BY 1 ORDER BY 1"
    found = plan(query)
    assert [(d.reason, d.place and d.place.column, d.code) for d in found.declined] == [
        ("Sort stands above the join", None, "clause_above_join"),
        ("Aggregate stands above the join", None, "clause_above_join"),
        ("explode(array(1)) is not computed row by row", 8, None),
        ("count(*) is not computed row by row", 27, None),
    ]
    assert found.reason == "Sort stands above the join"
    assert set(found.declined) <= set(found.explanation().declined)
    assert "is not computed row by row" in found.explain("html")


def test_one_stream_is_kept_once() -> None:
    query = f"""WITH x AS (SELECT ts, ad FROM clicks WHERE user_id > 1)
        SELECT c.ad, v.ts FROM x c JOIN (SELECT ts FROM clicks WHERE ad = 'hats') v ON {WITHIN}"""
    found = plan(query).join
    assert found
    (kept,) = found.inputs
    assert [c.name for c in kept.columns] == ["user_id", "ts", "ad"]
    assert kept.keep == "((`user_id` > 1) AND (`ts` IS NOT NULL)) OR ((`ad` = 'hats') AND (`ts` IS NOT NULL))"
    assert len(kept.marks) == 1


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (f"SELECT c.ad FROM clicks c FULL JOIN views v ON {WITHIN}", "when a row of clicks that has no match is final"),
        (f"SELECT c.ad FROM clicks c LEFT ANTI JOIN views v ON {WITHIN}", "views needs one, and the condition a bound"),
    ],
)
def test_nothing_says_when_a_row_is_final(query: str, said: str) -> None:
    assert said in plan(query, timed=("clicks",)).reason
    assert plan(query).join


def test_changelogs_of_a_schema_are_named_as_the_statement_names_them(tmp_path: Path) -> None:
    """The statement of a step reads ``db.orders AS orders``, so ``*`` is ``orders.id``, and not ``db.id``."""
    tables = "".join(
        f"""[tables."db.{name}"]
        columns = {{ id = "BIGINT", {column} = "BIGINT", op = "STRING" }}
        stream = true
        changelog = {{ change = "op", key = ["id"] }}
        """
        for name, column in (("orders", "customer"), ("customers", "region"))
    )
    (tmp_path / "changes.toml").write_text(tables)

    def find(name: tuple[str, ...]) -> Stream:
        return Stream(
            (("id", "bigint"), ("customer" if name[-1] == "orders" else "region", "bigint"), ("op", "string")),
            change="op",
        )

    planner = StreamPlanner(read_catalog(tmp_path / "changes.toml"), Options(strict=True), find)
    query = "SELECT * FROM db.orders JOIN db.customers ON orders.customer = customers.id"
    found = planner.plan(StreamQuery(query), ()).join
    assert found
    for step in found.program.steps:
        assert step.sql.startswith("SELECT orders.id, orders.customer, customers.id, customers.region, ")
