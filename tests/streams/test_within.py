"""What an epoch reads of large segments: rows that what is new can reach, in the order in which they are kept."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail import Optimizer, Sink
from dovetail.executor.state.segments import Segments
from dovetail.planner.state import segment_pruning
from dovetail.planner.state.compaction import FEW_ROWS
from dovetail.planner.state.manifest import Segment
from dovetail.planner.state.segment_pruning import prune_segments
from dovetail.planner.state.spec import Input, Reach, StoredColumn
from effort import examples

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

MARKS = ("UNIX_MICROS(`at`)", "`n`", "UNIX_DATE(`day`)", "`n` + 1")
COLUMNS = (StoredColumn("c0", "at", "timestamp"), StoredColumn("c1", "n", "int"), StoredColumn("c2", "day", "date"))
STATE = Input("s", "s", COLUMNS, "", "", "`at`", "timestamp", 0, MARKS, "", "", late=False)


@pytest.fixture(autouse=True, scope="module")
def few_rows_are_filtered() -> Iterator[None]:
    """The segments here are small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_pruning, "FEW_ROWS", 0)
        yield


def test_few_rows_get_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_pruning, "FEW_ROWS", FEW_ROWS)
    one = Segment("one", (), FEW_ROWS - 1, ((-800, 800),) * 5, None, None, 0)
    for segments, expected in (([one], ""), ([one, replace(one, rows=1)], "`at` >= timestamp_micros(95L)")):
        assert prune_segments(STATE, segments, 1, [(100, 200)] * 5, [Reach((0, 0), (1, 0), -5)]) == expected


@pytest.mark.parametrize(
    ("reaches", "said"),
    [
        ([Reach((0, 0), (1, 0), -5)], "`at` >= timestamp_micros(95L)"),
        ([Reach((1, 0), (0, 0), -5)], "`at` <= timestamp_micros(205L)"),
        ([Reach((0, 1), (1, 1), 0), Reach((1, 1), (0, 1), 0)], "`n` >= 7L AND `n` <= 9L"),
        ([Reach((0, 1), (1, 1), 0), Reach((0, 1), (1, 1), 2)], "`n` >= 9L"),
        ([Reach((0, 1), (1, 1), -6)], ""),  # of 0 to 19, from 1 on
        ([Reach((0, 1), (1, 1), -4)], "`n` >= 3L"),
        ([Reach((1, 1), (0, 1), -8)], ""),  # to 17
        ([Reach((0, 2), (1, 2), 1)], "`day` >= date_from_unix_date(4)"),
        ([Reach((0, 2), (1, 2), 2**31)], ""),  # a day that Spark does not have
        ([Reach((0, 0), (1, 0), 2**63)], ""),
        ([Reach((0, 3), (1, 3), 0)], ""),  # no column
        ([Reach((0, 4), (1, 1), 0)], ""),  # no new row has a position; its segments are not reached, either
    ],
)
def test_a_reach_as_a_condition_on_columns(reaches: Sequence[Reach], said: str) -> None:
    segments = [Segment("one", (), 1, ((-800, 0), (0, 9), (3, 3), (0, 0), (0, 0)), None, None, 0)]
    segments.append(Segment("other", (), 1, ((0, 800), (0, 19), (0, 9), (0, 9), None), None, None, 0))
    assert prune_segments(STATE, segments, 1, [(100, 200), (7, 9), (3, 3), (0, 0), None], reaches) == said


ENDS = [-(2**63), -(2**63) + 1, -(2**31), -(2**31) + 1, -1, 0, 1, 2**31 - 2, 2**31 - 1, 2**63 - 2, 2**63 - 1]
anywhere = st.one_of(st.sampled_from(ENDS), st.integers(-(2**63), 2**63 - 1), st.integers(-30, 30))


def near(end: int) -> st.SearchStrategy[int]:
    return st.integers(-3, 3).map(lambda n: min(max(end + n, -(2**63)), 2**63 - 1))


@st.composite
def probes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], list[Reach], list[int]]:
    """A segment's span, what is new, its reaches, and stored positions: all near one end, or anywhere."""
    positions = draw(st.one_of(st.sampled_from(ENDS).map(near), st.just(anywhere)))
    spans = st.tuples(positions, positions).map(lambda span: tuple(sorted(span)))
    ends = st.sampled_from([((0, 0), (1, 0)), ((1, 0), (0, 0))])
    reach = st.builds(
        lambda ends, least: Reach(ends[0], ends[1], least), ends, st.one_of(st.integers(-2, 2), st.integers(-9, 9))
    )
    reaches = st.lists(reach, min_size=1, max_size=3)
    return draw(spans), draw(spans), draw(reaches), draw(st.lists(positions, min_size=1, max_size=9))


@given(type_=st.sampled_from(["bigint", "timestamp", "date"]), probe=probes())
@settings(max_examples=examples(20))
def test_no_row_in_reach_stays_behind(
    type_: str, probe: tuple[tuple[int, int], tuple[int, int], list[Reach], list[int]]
) -> None:
    segment, probing, reaches, stored = probe
    mark = {"bigint": "`at`", "timestamp": "UNIX_MICROS(`at`)", "date": "UNIX_DATE(`at`)"}[type_]
    state = Input("s", "s", (StoredColumn("c0", "at", type_),), "", "", "`at`", type_, 0, (mark,), "", "", late=False)
    condition = prune_segments(state, [Segment("one", (), 1, (segment,), None, None, 0)], 1, [probing], reaches)
    compared = re.findall(r"`at` ([<>]=) (?:\w+\()?(-?\d+)L?\)?(?: AND |$)", condition)
    assert bool(compared) == bool(condition)
    for at in stored:
        in_reach = all(probing[1] - at >= r.least if r.small == (1, 0) else at - probing[0] >= r.least for r in reaches)
        if in_reach:
            assert all(at <= int(end) if sign == "<=" else at >= int(end) for sign, end in compared), condition
    for _, end in compared:
        assert abs(int(end)) < (2**31 if type_ == "date" else 2**63)


@pytest.mark.parametrize("type_", ["TIMESTAMP", "TIMESTAMP_NTZ", "DATE", "INT", "BIGINT"])
def test_keys_at_the_ends_of_their_type(opt: Optimizer, tmp_path: Path, type_: str) -> None:
    session, ends = opt.session, (ENDS[2], ENDS[3], ENDS[-4], ENDS[-3])
    position = {
        "TIMESTAMP": "timestamp_micros({}L)",
        "TIMESTAMP_NTZ": "timestampadd(MICROSECOND, {}L, TIMESTAMP_NTZ '1970-01-01 00:00:00')",
        "DATE": "date_from_unix_date(CAST({}L AS INT))",
        "INT": "CAST({}L AS INT)",
        "BIGINT": "{}L",
    }[type_]
    if type_ in ("BIGINT", "TIMESTAMP"):
        ends = (ENDS[0], ENDS[1], ENDS[-2], ENDS[-1])
    least, second, last, greatest = (
        position.format(end).replace("-9223372036854775808L", "(-9223372036854775807L - 1L)") for end in ends
    )
    one = position.format(1)
    epochs = {"a": [one, least, greatest, second, last, one], "b": [least, one, last, greatest, least, second]}
    for name, keys in epochs.items():
        for epoch, key in enumerate(keys):
            rows = session.sql(f"SELECT {key} AS k, {epoch} AS v").coalesce(1)
            rows.write.parquet(str(tmp_path / name / f"{epoch}"))
        schema = session.read.parquet(f"{tmp_path}/{name}/0").schema
        read = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"{tmp_path}/{name}/*")
        read.createOrReplaceTempView(name)
        session.read.schema(schema).parquet(f"{tmp_path}/{name}/*").createOrReplaceTempView(f"{name}_table")
    query = "SELECT a.k, a.v, b.v AS w FROM {} a JOIN {} b ON a.k = b.k"
    opt.stream(
        query.format("a", "b"),
        checkpoint=tmp_path / "checkpoint",
        sink=Sink("parquet", tmp_path / "out"),
        trigger="available now",
        state_modules=True,
    ).awaitTermination()
    texts = "string(k) AS k", "v", "w"
    found = Counter(map(tuple, session.read.parquet(str(tmp_path / "out")).selectExpr(*texts).collect()))
    expected = Counter(map(tuple, session.sql(query.format("a_table", "b_table")).selectExpr(*texts).collect()))
    assert found == expected
    assert len(expected) == 7


TYPES = {
    "TIMESTAMP": ("timestamp_micros(n * 1000)", "INTERVAL 2 MILLISECONDS"),
    "TIMESTAMP_NTZ": (
        "timestampadd(MICROSECOND, n * 1000, TIMESTAMP_NTZ '1970-01-01 00:00:00')",
        "INTERVAL 2 MILLISECONDS",
    ),
    "DATE": ("date_from_unix_date(CAST(n AS INT))", "INTERVAL 2 DAYS"),
    "INT": ("CAST(n AS INT)", "2"),
    "BIGINT": ("n", "2"),
}


@pytest.mark.parametrize("type_", TYPES)
def test_all_pairs_are_found_whatever_the_type(opt: Optimizer, tmp_path: Path, type_: str) -> None:
    """Ten epochs, so that segments are merged; later ones go back in time, to before 1970 and before 1582."""
    session = opt.session
    session.conf.set("spark.sql.session.timeZone", "America/Sao_Paulo")
    position, width = TYPES[type_]
    starts = [0, 1, -1, 7, 3, -719_000, 40_000, -141_428, 2, -719_003]
    for epoch, start in enumerate(starts):
        rows = session.range(5).selectExpr("id", f"CAST({start} + id AS BIGINT) AS n", "CAST(id % 2 AS INT) AS k")
        rows.selectExpr(f"{epoch} * 5 + id AS id", "k", f"{position} AS at").coalesce(1).write.parquet(
            str(tmp_path / "in" / f"{epoch}")
        )
    schema = session.read.parquet(str(tmp_path / "in" / "0")).schema
    assert schema["at"].dataType.simpleString() == type_.lower()
    read = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"{tmp_path}/in/*")
    read.createOrReplaceTempView("s")
    session.read.schema(schema).parquet(f"{tmp_path}/in/*").createOrReplaceTempView("s_table")
    query = f"SELECT a.id, b.id AS bid FROM {{0}} a JOIN {{0}} b ON a.k = b.k AND a.at BETWEEN b.at - {width} AND b.at"
    opt.stream(
        query.format("s"),
        checkpoint=tmp_path / "checkpoint",
        sink=Sink("parquet", tmp_path / "out"),
        trigger="available now",
        state_modules=True,
    ).awaitTermination()
    found = Counter(map(tuple, session.read.parquet(str(tmp_path / "out")).collect()))
    expected = Counter(map(tuple, session.sql(query.format("s_table")).collect()))
    assert found == expected
    assert len(expected) > 100


def test_merged_rows_lie_in_the_order_of_the_band(
    opt: Optimizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind an equality, too; and a probe is handed the rows in reach alone."""
    session = opt.session
    for epoch in range(9):
        rows = session.range(20).selectExpr("id", "CAST((id * 7 + 3) % 20 AS BIGINT) AS n", "id % 3 AS k")
        rows.selectExpr("id", "k", f"n + {epoch} AS at").coalesce(1).write.parquet(str(tmp_path / "in" / f"{epoch}"))
    read = session.readStream.schema("id BIGINT, k BIGINT, at BIGINT").option("maxFilesPerTrigger", 1)
    read.parquet(f"{tmp_path}/in/*").createOrReplaceTempView("s")
    asked: list[tuple[str, int]] = []
    whole = Segments.side

    def side(self: Segments, session: Any, number: Any, segments: Any, which: str = "") -> DataFrame:
        rows = whole(self, session, number, segments, which)
        if which:
            asked.append((which, rows.where(f"NOT ({which})").count()))
        return rows

    monkeypatch.setattr(Segments, "side", side)
    opt.stream(
        "SELECT a.id, b.id AS bid FROM s a JOIN s b ON a.k = b.k AND a.at BETWEEN b.at AND b.at + 1",
        checkpoint=tmp_path / "checkpoint",
        sink=Sink("noop"),
        trigger="available now",
    ).awaitTermination()
    assert ("`at` >= 7L", 0) in asked  # of the last epoch
    assert not any(others for _, others in asked)
    merged = next((tmp_path / "checkpoint" / "dovetail").glob("merged-*/input=0/*.parquet"))
    lying = [row[0] for row in session.read.parquet(str(merged)).select("c2").collect()]
    assert len(lying) == 160
    assert lying == sorted(lying)
