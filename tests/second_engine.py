"""DuckDB as a second engine: where plain Spark and Dovetail agree on a random query, does DuckDB agree as well?

    DOVETAIL_SECOND_ENGINE=differences.txt python -m pytest tests/answers/test_random_keys.py

Each query on which it does not is added to the file, with its tables, and ``same`` for any other; no test fails.  Most
differences are between the dialects.  One that is a fault of Spark belongs into docs/where-spark-is-wrong.md.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlglot import exp, parse_one

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OFFSET = re.compile(r"(?<=\d\d:\d\d:\d\d)(\.\d+)?[+-]\d\d(:\d\d)*$")
FILE = os.environ.get("DOVETAIL_SECOND_ENGINE", "")


def note_difference(session: SparkSession, query: str, rows: Counter[tuple[Any, ...]]) -> None:
    """Add the query to the file if DuckDB takes it and returns other rows; ``rows`` are texts, as Spark casts them."""
    import duckdb

    duck = duckdb.connect()
    with suppress(duckdb.Error, NotImplementedError):
        tree = parse_one(query, read="spark")
        defined = {cte.alias for cte in tree.find_all(exp.CTE)}
        names = {table.name for table in tree.find_all(exp.Table)} - defined
        tables = {name: session.table(name).toArrow() for name in sorted(names)}
        for name, table in tables.items():
            duck.register(name, table)
        duck.execute(f"SET TimeZone = '{session.conf.get('spark.sql.session.timeZone')}'")
        found = duck.sql(tree.sql(dialect="duckdb"))
        casts = ", ".join(f"CAST(#{n + 1} AS VARCHAR)" for n in range(len(found.columns)))
        theirs = _normal(Counter(duck.sql(f"SELECT {casts} FROM found").fetchall()))
        ours = _normal(rows)
        lines = [query, f"  Spark alone: {_some(ours - theirs)}", f"  DuckDB alone: {_some(theirs - ours)}"]
        if ours != theirs:
            texts = {name: duck.sql(f"SELECT COLUMNS(*)::VARCHAR FROM {name}").fetchall() for name in tables}
            lines += [f"  {name}: {some}" for name, some in texts.items()]
        with Path(FILE).open("a") as file:
            file.write("\n".join(lines) + "\n\n" if ours != theirs else "same\n")


def _normal(rows: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """The rows with one text for each number and each time."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row, count in rows.items():
        found[tuple(map(_value, row))] += count
    return found


def _value(text: str | None) -> Any:
    if text is None:
        return None
    with suppress(ValueError):
        return f"{float(text) + 0.0:.5g}"  # the digits of a FLOAT
    return _OFFSET.sub(r"\1", text)


def _some(rows: Counter[tuple[Any, ...]]) -> str:
    return str(sorted(rows.items(), key=str)[:5])
