"""Names to the left of a lookup whose left side can be read only once: columns, aliases, merged columns, stars.

The oracle is plain Spark: the same statement, with the table of the lookup as an ordinary view.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException

from dovetail import Optimizer, Options, QueryError
from dovetail.executor.connectors.memory import MemorySource
from effort import examples
from sessions import for_few_rows
from shares import Share, at_least

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

AT = " FOR SYSTEM_TIME AS OF PROCTIME() AS"
share = at_least(0.5)  # plain Spark takes the statement, and so do we

ROWS = "VALUES (1, 10, 5), (2, 20, 5), (3, 10, 7), (4, NULL, 8), (NULL, 20, 9), (20, 30, 10) AS t(x, y, z)"
ALIASES = ("a", "b", "c", "id", "`c.d`", "`a b`", "B")
LEFT_NAMES = ("id", "k", "w", "c", "C", "`c.d`", "`order`", "name")
LOOKUP_ALIASES = ("c", "a", "`c.d`", "id", "k")


@pytest.fixture(scope="module")
def opt(spark: SparkSession) -> Optimizer:
    session = for_few_rows(spark)
    ids = pa.array([5, 10, 20, 20], pa.int32())
    source = MemorySource(pa.table({"id": ids, "k": pa.array([1, 2, 3, 4], pa.int32()), "name": ["p", "q", "r", None]}))
    session.createDataFrame(source.table.to_pylist(), "id INT, k INT, name STRING").createOrReplaceTempView("places")
    session.sql(f"SELECT * FROM {ROWS}").createOrReplaceTempView("events")
    found = Optimizer(session, Options(strict=True, lookup_full_rows=0, lookup_rows_per_key=0))
    found.register_lookup("places", source)
    return found


@dataclass(frozen=True)
class Side:
    """A relation of the left side, with the names that its three columns go by."""

    alias: str
    names: tuple[str, str, str]
    once: bool

    def __str__(self) -> str:
        items = ", ".join(f"{column} AS {name}" for column, name in zip("xyz", self.names, strict=True))
        return f"(SELECT {items} FROM events{' ORDER BY x, y LIMIT 5' if self.once else ''}) AS {self.alias}"


@st.composite
def sides(draw: st.DrawFn, *, once: bool, taken: tuple[str, ...] = ()) -> Side:
    alias = draw(st.sampled_from([a for a in ALIASES if a.lower() not in taken]))
    names = draw(st.lists(st.sampled_from(LEFT_NAMES), min_size=3, max_size=3, unique_by=str.lower))
    return Side(alias, tuple(names), once)  # type: ignore[arg-type]


@st.composite
def statements(draw: st.DrawFn) -> str:
    first = draw(sides(once=True))
    from_, relations = str(first), [first]
    shared: list[str] = []
    if draw(st.integers(0, 3)):
        second = draw(sides(once=False, taken=(first.alias.lower(),)))
        relations.append(second)
        shared = [n for n in first.names if n.lower() in map(str.lower, second.names)]
        kind = draw(st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN"]))
        how = draw(st.sampled_from(["using", "using", "natural", "on"]))
        if how == "natural" and "SEMI" not in kind:  # Spark has no natural semi-join
            from_ += f" NATURAL {kind} {second}"
        elif how == "using" and shared:
            used = draw(st.lists(st.sampled_from(shared), min_size=1, max_size=2, unique=True))
            from_ += f" {kind} {second} USING ({', '.join(used)})"
        else:
            from_ += f" {kind} {second} ON {first.alias}.{first.names[0]} = {second.alias}.{second.names[0]}"
    alias = draw(st.sampled_from([a for a in LOOKUP_ALIASES if a not in [s.alias.lower() for s in relations]]))
    columns = [f"{s.alias}.{n}" for s in relations for n in s.names]
    alone = [*shared, *(n for s in relations for n in s.names)]
    key = draw(st.sampled_from([*columns, *columns, *alone]))
    more = draw(
        st.sampled_from(["", "", f" AND {alias}.k > 1", f" AND {draw(st.sampled_from(alone))} < {alias}.k * 9"])
    )
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]))
    using = draw(st.integers(0, 4)) == 0 and "id" in alone
    on = "USING (id)" if using else f"ON {key} = {alias}.id{more}"
    stars = ["*", "*", *(f"{s.alias}.*" for s in relations), f"*, {draw(st.sampled_from(columns))} AS more"]
    some = draw(st.lists(st.sampled_from([*columns, *alone]), min_size=1, max_size=3))
    items = draw(st.sampled_from([*stars, ", ".join(some), ", ".join(some)]))
    where = draw(st.sampled_from(["", "", f" WHERE {draw(st.sampled_from([*columns, *alone]))} IS NOT NULL"]))
    return f"SELECT {items} FROM {from_} {kind} places{{at}} {alias} {on}{where}"


@given(statement=statements())
@settings(max_examples=examples(1 / 3))
def test_plain_spark_agrees(opt: Optimizer, share: Share, statement: str) -> None:
    try:
        wanted = opt.session.sql(statement.format(at=""))
    except AnalysisException:
        return  # an ambiguous name, among others
    if not share.count(_is_planned(opt, statement)):
        return
    plan = opt.plan(statement.format(at=AT))
    found = plan.dataframe()
    assert "RowLookupJoin" in plan.explain()
    assert [(f.name, f.dataType) for f in found.schema] == [(f.name, f.dataType) for f in wanted.schema], plan.sql()
    assert Counter(map(repr, found.collect())) == Counter(map(repr, wanted.collect())), plan.sql()


def _is_planned(opt: Optimizer, statement: str) -> bool:
    """Whether a statement is planned: not if its condition does not name the left side, or it needs USING."""
    try:
        opt.plan(statement.format(at=AT))
    except QueryError as error:
        if re.search("USING or NATURAL merges columns|no equality between its left side", str(error)):
            return False
        raise
    return True


LEFT = "(SELECT x AS id, y AS k FROM events ORDER BY x, y LIMIT 5) a"
RENAMED = "c(p, q, r) ON k = c.p"
RIGHT = "(SELECT x AS id, z AS w FROM events) b"


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT * FROM {LEFT} JOIN {RIGHT} USING (id) JOIN places{{at}} c ON a.k = c.id",
        f"SELECT b.id, w FROM {LEFT} LEFT JOIN {RIGHT} USING (id) JOIN places{{at}} c ON a.k = c.id ORDER BY b.id",
        f"SELECT id, b.id, id + 1 FROM {LEFT} LEFT JOIN {RIGHT} USING (id) JOIN places{{at}} {RENAMED} WHERE id > 1",
        f"SELECT id, max(b.id) FROM {LEFT} RIGHT JOIN {RIGHT} USING (id) JOIN places{{at}} {RENAMED} GROUP BY id",
        f"SELECT a.id, c.name FROM {LEFT} JOIN places{{at}} c ON a.k = c.id LEFT JOIN places{{at}} d ON a.id = d.id",
        f"SELECT c.id FROM {LEFT} JOIN places{{at}} c ON c.id = CASE WHEN a.id = 1 THEN a.k END",
        f"SELECT *, id + 1 FROM {LEFT} RIGHT JOIN {RIGHT} USING (id) LEFT JOIN places{{at}} c(p, q, r) ON id * 9 = c.p",
        f"SELECT * FROM {LEFT} JOIN {RIGHT} USING (id) JOIN places{{at}} c USING (id) JOIN places{{at}} d ON w = d.id",
        f"SELECT * FROM {LEFT} JOIN places{{at}} `c.d` ON a.k = `c.d`.id AND exists(array(1, 2), c -> c = `c.d`.k)",
        f"SELECT * FROM (SELECT a.*, 3 AS c FROM {LEFT}) a LEFT JOIN places{{at}} c ON a.k = c.id AND c = c.k",
    ],
)
def test_cases_that_gave_wrong_columns(opt: Optimizer, statement: str) -> None:
    plan = opt.plan(statement.format(at=AT))
    found, wanted = plan.dataframe(), opt.session.sql(statement.format(at=""))
    assert "RowLookupJoin" in plan.explain()
    assert [(f.name, f.dataType) for f in found.schema] == [(f.name, f.dataType) for f in wanted.schema]
    assert Counter(map(repr, found.collect())) == Counter(map(repr, wanted.collect())), plan.sql()


def test_a_stream_with_merged_columns(opt: Optimizer, tmp_path: Path) -> None:
    events = opt.session.sql("SELECT x AS id, y AS k FROM events")
    events.write.parquet(str(tmp_path / "in"))
    opt.session.readStream.schema(events.schema).parquet(str(tmp_path / "in")).createOrReplaceTempView("arriving")
    events.createOrReplaceTempView("arrived")
    text = f"SELECT * FROM {{left}} a JOIN {RIGHT} USING (id) LEFT JOIN places{{at}} c ON a.k = c.id"
    frame = opt.sql(text.format(left="arriving", at=AT))
    frame.writeStream.format("memory").queryName("merged").trigger(availableNow=True).start().awaitTermination()
    wanted = opt.session.sql(text.format(left="arrived", at=""))
    assert frame.columns == wanted.columns
    rows = [tuple(row) for row in opt.session.table("merged").collect()]
    assert Counter(rows) == Counter(tuple(row) for row in wanted.collect())


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT b.id AS x FROM {LEFT} LEFT JOIN {RIGHT} USING (id) JOIN places{AT} c ON a.k = c.id ORDER BY id",
        f"SELECT id FROM {LEFT} FULL JOIN {RIGHT} USING (id) JOIN places{AT} c ON a.k = c.id",
    ],
)
def test_merged_columns_that_cannot_be_written_with_on(opt: Optimizer, text: str) -> None:
    with pytest.raises(QueryError, match=r"USING or NATURAL merges columns, and .* only once .*; write ON"):
        opt.sql(text)


def test_a_relation_with_the_name_of_a_column(opt: Optimizer) -> None:
    """Spark reads ``c.id`` as a field of the column ``c``, also where it shows the merged column by ``c.*``."""
    right = "(SELECT x AS id, named_struct('id', z) AS c FROM events) c"
    text = f"SELECT c.id FROM {LEFT} JOIN {right} USING (id) JOIN places{{at}} d ON a.k = d.id"
    assert set(opt.session.sql(text.format(at="")).collect()) <= {(5,), (7,), (8,), (9,), (10,)}
    with pytest.raises(QueryError, match="USING or NATURAL merges columns"):
        opt.sql(text.format(at=AT))
    other = f"SELECT b.* FROM {LEFT} JOIN {right.replace(') c', ') b')} USING (id) JOIN places{{at}} d ON a.k = d.id"
    plan = opt.plan(other.format(at=AT))
    wanted = opt.session.sql(other.format(at=""))
    assert Counter(map(repr, plan.dataframe().collect())) == Counter(map(repr, wanted.collect()))
