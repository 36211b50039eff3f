"""Types as Spark writes them."""

from __future__ import annotations

import pytest

from planner.schema import sql_type


@pytest.mark.parametrize(
    ("text", "path", "field"),
    [
        ("struct<x:int,y:decimal(10,2)>", ("Y",), "DECIMAL(10,2)"),
        ("STRUCT<x: INT, in: STRUCT<m: MAP<STRING, INT>, t: TIMESTAMP>>", ("in", "t"), "TIMESTAMP"),
        ("struct<x:int,y:int>", ("z",), None),
        ("struct<x:int,X:bigint>", ("x",), None),
        ("array<struct<x:int>>", ("x",), None),
        ("struct<a:int,b:int,... 2 more fields>", ("... 2 more fields",), None),
        ("int", (), "INT"),
    ],
)
def test_the_type_of_a_field(text: str, path: tuple[str, ...], field: str | None) -> None:
    found = sql_type(text).field(path)
    assert (found and str(found)) == field
