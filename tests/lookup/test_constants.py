"""Constants that no column can have."""

from __future__ import annotations

import pytest

from dovetail import Optimizer


@pytest.mark.parametrize("table", ["names", "files"])
@pytest.mark.parametrize("left", ["range(3)", "(SELECT * FROM range(3) LIMIT 3)"])
@pytest.mark.parametrize(
    ("constant", "found"),
    [
        ("n.kind = 300", []),
        ("n.kind = -129", []),
        ("n.kind = 99999999999999999999", []),
        ("n.id = 99999999999999999999999999999999999999", []),
        ("n.kind = 2", [(1, "b")]),
        ("n.name = 'a'", [(0, "a")]),
    ],
)
def test_a_constant_that_fits_no_column_matches_nothing(
    opt: Optimizer, table: str, left: str, constant: str, found: list[tuple[int, str]]
) -> None:
    look = f"{table} FOR SYSTEM_TIME AS OF PROCTIME() AS n ON l.id = n.id AND {constant}"
    hint = "/*+ LOOKUP('table'='n') */"
    assert list(map(tuple, opt.sql(f"SELECT {hint} l.id, n.name FROM {left} l JOIN {look}").collect())) == found
    outer = opt.sql(f"SELECT {hint} l.id, n.name FROM {left} l LEFT JOIN {look}").collect()
    assert {row["id"]: row["name"] for row in outer} == {n: dict(found).get(n) for n in range(3)}
