"""A view made through the optimizer returns what plain Spark's returns, whatever its tables have become since."""

from __future__ import annotations

from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from comparing import assert_same
from dovetail import Optimizer, Options
from effort import examples
from sessions import for_few_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

NUMBERS = "TINYINT SMALLINT INT BIGINT DECIMAL(12,2) DECIMAL(38,0) FLOAT DOUBLE STRING".split()
TIMES = "DATE TIMESTAMP TIMESTAMP_NTZ STRING".split()
OF_NUMBERS = (
    "SELECT p.x, i.w FROM {p} p JOIN {i} i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT p.x, i.w FROM {p} p LEFT JOIN {i} i ON p.x BETWEEN i.lo - 3 AND i.lo + 3",
    "SELECT p.x, i.w FROM {p} p FULL JOIN {i} i ON abs(p.x - i.lo) <= 2",
    "SELECT a.w, b.w AS other FROM {i} a JOIN {i} b ON a.lo <= b.hi AND b.lo <= a.hi",
    "SELECT i.w, count(*) AS n, sum(p.x) AS s FROM {p} p JOIN {i} i ON p.x BETWEEN i.lo AND i.hi GROUP BY i.w",
    "SELECT a.x, b.id FROM {p} a JOIN {p} b ON a.id = b.id AND b.x > 1",
    "SELECT * FROM {p} p JOIN {i} i ON p.x BETWEEN i.lo AND i.hi",
)
OF_TIMES = (
    OF_NUMBERS[0],
    "SELECT p.x, i.w FROM {p} p LEFT JOIN {i} i ON p.x BETWEEN i.lo - INTERVAL 3 DAY AND i.lo + INTERVAL 3 DAY",
    OF_NUMBERS[3],
)
MORE = ("", ", 7 AS __dt1_bin", ", 7 AS __dt1, 8 AS __dt2_width, 9 AS __dt3")
_names = count()


class Tables:
    """A database of its own, whose tables can be made anew with other types."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.session, self.folder = for_few_rows(spark), folder
        self.session.sql("CREATE DATABASE other_types")
        self.session.sql("USE other_types")
        self.optimizer = Optimizer(self.session, Options(nested_loop_pairs=0, broadcast_pairs=0, strict=True))

    def make(self, type_: str, more: str, *, times: bool) -> None:
        def value(text: str) -> str:
            at = f"DATE '2024-01-01' + CAST({text} AS INT)" if times else text
            return f"CAST({at} AS {type_})"

        self._make("p", f"SELECT id, {value('id * 7 % 20')} AS x{more} FROM range(12)")
        self._make("i", f"SELECT {value('id * 3')} AS lo, {value('id * 3 + 4')} AS hi, id AS w{more} FROM range(8)")
        self.optimizer.declarations.keys.clear()
        self.optimizer.declare_key("p", ["id"])

    def _make(self, name: str, query: str) -> None:
        self.session.sql(f"DROP TABLE IF EXISTS {name}")
        place = self.folder / f"t{next(_names)}"
        place.mkdir()
        rows = self.session.sql(query)
        pq.write_table(rows.toArrow(), place / "rows.parquet")
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in rows.schema.fields)
        self.session.sql(f"CREATE TABLE {name} ({columns}) USING parquet LOCATION '{place}'")


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    yield Tables(spark, tmp_path_factory.mktemp("types"))
    spark.sql("DROP DATABASE other_types CASCADE")


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    times = draw(st.integers(0, 3)) == 0
    types = st.sampled_from(TIMES if times else NUMBERS)
    return {
        "times": times,
        "query": draw(st.sampled_from(OF_TIMES if times else OF_NUMBERS)).format(p="p", i="i"),
        "kind": draw(st.sampled_from(("VIEW", "TEMP VIEW"))),
        "types": (draw(types), draw(types)),
        "more": draw(st.sampled_from(MORE)),
    }


# A case is read as it is: to shrink one takes minutes.
@settings(max_examples=examples(1 / 10), phases=(Phase.explicit, Phase.generate))
@given(case=cases())
def test_views_over_tables_made_anew(tables: Tables, case: dict[str, Any]) -> None:
    note(str(case))
    before, after = case["types"]
    tables.make(before, "", times=case["times"])
    try:
        tables.optimizer.sql(f"CREATE OR REPLACE {case['kind']} ours AS {case['query']}")
    except PySparkException:
        with pytest.raises(PySparkException):  # what Spark does not take of these types
            tables.session.sql(case["query"])
        return
    tables.session.sql(f"CREATE OR REPLACE {case['kind']} plain AS {case['query']}")
    try:
        for type_, more in ((before, ""), (after, case["more"])):
            tables.make(type_, more, times=case["times"])
            for run in (partial(tables.session.table, "ours"), partial(tables.optimizer.sql, "SELECT * FROM ours")):
                ours: Any = SimpleNamespace(dataframe=run)
                assert_same(tables.session, "SELECT * FROM plain", ours)
    finally:
        for name in ("ours", "plain"):
            tables.session.sql(f"DROP VIEW IF EXISTS {name}")
