"""What a view has stored is there, whole, or the view says so: it never returns the rows that are left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from command_line import dovetail
from dovetail import Optimizer, StateError
from stream_feeds import grow_ids

if TYPE_CHECKING:
    from pathlib import Path

QUERY = "SELECT a.id, count(*) AS n FROM s a JOIN t b ON a.id = b.id GROUP BY a.id"


@pytest.mark.parametrize("harm", ["file gone", "file cut", "list gone"])
@pytest.mark.parametrize("together", [False, True])
def test_what_is_stored_is_there_or_missed(opt: Optimizer, tmp_path: Path, harm: str, together: bool) -> None:
    state = tmp_path / "state"

    def refreshed() -> None:
        if together:
            opt.materialize_all({"counts": QUERY}, state=state)
        else:
            opt.materialize(QUERY, "counts", state=state)

    for first in (0, 10):
        grow_ids(opt.session, tmp_path, first)
        refreshed()
    assert dovetail("state", str(state), "--check").exit_code == 0
    view = state / "views" / "counts" if together else state
    file = next(view.glob("rows-*/kept-*.parquet" if harm != "list gone" else "parts-*.json"))
    if harm == "file cut":
        file.write_bytes(file.read_bytes()[:-9])
    else:
        file.unlink()
    word = "parts-" if harm == "list gone" else file.name
    grow_ids(opt.session, tmp_path, 20)
    with pytest.raises(StateError, match=word):
        refreshed()
    checked = dovetail("state", str(state), "--check")
    assert checked.exit_code != 0
    assert word in checked.output
