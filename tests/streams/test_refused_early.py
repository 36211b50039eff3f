"""What cannot run is refused with its reason before anything is written, and leaves no folder behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dovetail import Optimizer, OptionError, QueryError, Sink, StateError
from stream_feeds import Feed

if TYPE_CHECKING:
    from pathlib import Path

JOIN = "SELECT a.id, b.id AS bid FROM s a JOIN t b ON a.k = b.k"


@pytest.fixture
def feeds(opt: Optimizer, tmp_path: Path) -> list[Feed]:
    found = [Feed(opt.session, tmp_path / "in" / name, name) for name in "stu"]
    for feed in found:
        feed.add([(1, 1, 0), (2, 1, 1000), (3, 2, 2000)])
    return found


@pytest.mark.parametrize("name", ["u", "U", "`u`"])
def test_a_view_does_not_take_the_name_of_a_stream(
    opt: Optimizer, feeds: list[Feed], tmp_path: Path, name: str
) -> None:
    said = "is a stream, which the view would hide from its readers; give the view another name"
    with pytest.raises(QueryError, match=said):
        opt.materialize(JOIN, name, state=tmp_path / "state")
    with pytest.raises(QueryError, match=said):
        opt.materialize_all({"one": JOIN, name: JOIN}, state=tmp_path / "state")
    assert not (tmp_path / "state").exists()
    assert opt.materialize(JOIN, "kept", state=tmp_path / "state").refresh().table().count() == 5
    assert opt.session.table("u").isStreaming


@pytest.mark.parametrize(
    ("clauses", "items"),
    [
        ("ORDER BY id DESC LIMIT 2", "a.id, stddev(b.id) AS d"),
        ("ORDER BY d, id", "a.id, stddev(b.id) AS d"),
        ("", "a.id, max(struct(a.id, b.k, b.id AS other)), stddev(b.id) AS d"),
        ("HAVING min(struct(b.id)) > struct(0)", "a.id, stddev(b.id) AS d"),
    ],
)
def test_columns_that_both_relations_have(
    opt: Optimizer, feeds: list[Feed], tmp_path: Path, clauses: str, items: str
) -> None:
    where = f"SELECT {items} FROM s a JOIN t b ON a.k = b.k GROUP BY a.id {clauses}"
    found = opt.materialize(where, "kept", state=tmp_path / "state").table()
    for feed in feeds:
        feed.table()
    plain = opt.session.sql(where.replace("s a", "s_table a").replace("t b", "t_table b"))
    assert found.schema.simpleString() == plain.schema.simpleString()
    assert sorted(map(str, found.collect())) == sorted(map(str, plain.collect()))


def test_a_column_whose_type_has_changed(opt: Optimizer, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("1,1\n2,1\n")
    query = "SELECT k, max(id) AS m FROM csv GROUP BY k"

    def typed(type_: str) -> None:
        opt.session.readStream.schema(f"id {type_}, k INT").csv(str(tmp_path / "in")).createOrReplaceTempView("csv")

    typed("INT")
    opt.materialize(query, "kept", state=tmp_path / "state")
    typed("STRING")
    with pytest.raises(
        StateError, match=r"other columns: struct<.*int.*>; now: struct<.*string.*>; restore the column types"
    ):
        opt.materialize(query, "kept", state=tmp_path / "state")


PLACES: tuple[tuple[Any, str], ...] = (
    ("foo://there/it", "foo://there/it cannot be used"),
    ("s3a://key:hidden@bucket/it?sig=hidden", "s3a://bucket/it cannot be used"),
    ("a:b", "a:b cannot be used"),
    ("", "is empty"),
    (None, "is empty"),
)


@pytest.mark.parametrize(("place", "said"), PLACES)
def test_folders_that_are_none(
    opt: Optimizer, feeds: list[Feed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Any, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    sink = Sink("parquet", tmp_path / "out")
    with pytest.raises((OptionError, QueryError), match=said) as no_view:
        opt.materialize(JOIN, "kept", state=place)
    with pytest.raises((OptionError, QueryError), match=said) as no_stream:
        opt.stream(JOIN, checkpoint=place, sink=sink, state_modules=True)
    with pytest.raises((OptionError, QueryError), match=said) as no_query:
        opt.stream("SELECT id FROM s", checkpoint=place, sink=sink)
    assert not any("hidden" in str(error.value) for error in (no_view, no_stream, no_query))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in"]
