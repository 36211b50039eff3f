"""Columns by which a sink's files are partitioned are looked at before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dovetail import Optimizer, OptionError, Sink
from stream_feeds import Feed, out_of_order

if TYPE_CHECKING:
    from pathlib import Path

QUERY = "SELECT a.id, b.id AS bid, a.k FROM s a JOIN s b ON a.k = b.k AND a.ts >= b.ts"


@pytest.mark.parametrize("state_modules", [True, False])
@pytest.mark.parametrize(
    ("by", "said"),
    [
        (("kk",), "partition_by names 'kk', which the query does not return; did you mean 'k'[?] possible: bid, id, k"),
        (("k", "ID", "bid"), "partition_by names all columns of the query, k, ID, bid"),
        ("k", r"partition_by is 'k'; give the names of columns, as \('k',\)"),
    ],
)
def test_what_cannot_be_partitioned_by(
    opt: Optimizer, tmp_path: Path, by: Any, said: str, *, state_modules: bool
) -> None:
    Feed(opt.session, tmp_path / "s", "s", delay=5).add(out_of_order(1, 0, 5))
    sink = Sink("parquet", tmp_path / "out", partition_by=by)
    with pytest.raises(OptionError, match=said):
        opt.stream(QUERY, checkpoint=tmp_path / "checkpoint", sink=sink, state_modules=state_modules)
    assert not (tmp_path / "checkpoint").exists()
    assert not opt.session.streams.active


@pytest.mark.parametrize("state_modules", [True, False])
def test_names_are_compared_as_the_session_does(opt: Optimizer, tmp_path: Path, *, state_modules: bool) -> None:
    Feed(opt.session, tmp_path / "s", "s", delay=5).add(out_of_order(1, 0, 5))
    sink = Sink("parquet", tmp_path / "out", partition_by=("K",))
    more: Any = {"checkpoint": tmp_path / "checkpoint", "trigger": "available now", "state_modules": state_modules}
    opt.stream(QUERY, sink=sink, **more).awaitTermination()
    assert opt.session.read.parquet(str(tmp_path / "out")).where("K IS NOT NULL").count() >= 5
    opt.session.conf.set("spark.sql.caseSensitive", "true")
    with pytest.raises(OptionError, match="partition_by names 'K', which the query does not return"):
        opt.stream(QUERY, sink=sink, **more)
