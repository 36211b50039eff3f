"""Types as Spark writes them."""

from __future__ import annotations

import pytest

from dovetail.planner.types.schema import sql_type


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("timestamp", "TIMESTAMP_LTZ"),
        ("timestamp_ntz", "TIMESTAMP_NTZ"),
        ("TIMESTAMP_LTZ(6)", "TIMESTAMP_LTZ"),
        ("timestamp_ntz(9)", "TIMESTAMP_NTZ(9)"),
        (
            "struct<timestamp:timestamp,T:array<timestamp_ntz>>",
            "struct<timestamp:TIMESTAMP_LTZ,t:array<timestamp_ntz>>",
        ),
        ("decimal(10, 2)", "DECIMAL(10,2)"),
    ],
)
def test_a_type_in_a_statement_says_whether_it_has_a_zone(text: str, said: str) -> None:
    assert sql_type(text).sql == said
