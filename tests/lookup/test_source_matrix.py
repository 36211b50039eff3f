"""Every type of Spark × every source × the values at its ends × as key and as value × every way to look up, in Spark.

All ways give the rows of a plain join with what is stored, which is read by other means than the connectors, or the
same error, before anything is returned.  The suite takes a sample, `make fuzz` all of it; all values that do not fit
are in tests/lookup/test_task_matrix.py, which has no Spark around the tasks.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dovetail import Optimizer, Options
from dovetail.executor.connectors.credentials import env
from effort import SEED, fuzzing
from matrix_counts import matrix_counts
from source_services import Http
from source_stores import Column, Memory, Postgres, Spark, SQLite, Store
from source_values import MISFIT, NO_KEYS, VALUES, shown, typed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

URI = env("DOVETAIL_TEST_POSTGRES")
WHOLE = fuzzing()
STORES = {"PostgreSQL": Postgres, "SQLite": SQLite, "HTTP": Http, "memory": Memory, "Spark table": Spark}

# How a statement is written and planned so that it goes this way; what its plan says then.
WAYS = {
    "keyed": ("/*+ LOOKUP('table'='c', 'batch'='3') */", "{}", "LookupJoin"),
    "whole": ("", "{}", "FullLookupJoin"),
    "cached": ("/*+ LOOKUP('table'='c', 'shuffle'='true', 'cache-ttl'='10 min') */", "{}", "HashLookupJoin"),
    "rows": ("/*+ LOOKUP('table'='c') */", "(SELECT * FROM {} LIMIT 1000)", "RowLookupJoin"),
}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    from sessions import for_few_rows

    own = for_few_rows(spark)
    own.conf.set("spark.sql.shuffle.partitions", "2")
    own.conf.set("spark.sql.session.timeZone", "UTC")
    own.conf.set("spark.sql.timeType.enabled", "true")
    return own


@pytest.fixture(scope="module")
def stores(session: SparkSession, postgres: str, tmp_path_factory: Any) -> Iterator[dict[str, Store]]:
    folder: Path = tmp_path_factory.mktemp("stores")
    http = Http()
    made = (Postgres(postgres, URI), SQLite(folder), http, Memory(), Spark(session, folder))
    yield {store.name: store for store in made}
    http.close()


counts = matrix_counts("sources, on Spark")


class Lookups:
    """Lookups in several tables as one statement: plain Spark over what is stored, and the optimizer over sources."""

    def __init__(self, session: SparkSession, columns: list[Column], key: str) -> None:
        self.session, self.columns, self.key = session, columns, key
        self.optimizer = Optimizer(session, Options(lookup_full_rows=10**9))
        for number, column in enumerate(columns):
            rows = [(n, text) for n, text in column.rows if key == "n" or text != MISFIT]
            self._view(f"stored{number}", rows, f"n, {typed(column.type, 'text')} AS x")
            texts = {text for _, text in column.rows if text not in (MISFIT, None)} | {*VALUES[column.type]}
            asked: list[Any] = [str(n) for n, _ in column.rows] if key == "n" else sorted(texts)
            as_key = "CAST(text AS INT)" if key == "n" else typed(column.type, "text")
            self._view(f"asked{number}", [*enumerate([*asked, *asked[:2], None])], f"n, text AS l, {as_key} AS k")
            self.optimizer.register_lookup(f"looked{number}", column.source(key))

    def _view(self, name: str, rows: list[tuple[int, str | None]], columns: str) -> None:
        """A view over texts, which a statement holds as hexadecimal digits."""
        values = ", ".join(f"({n}, {'NULL' if t is None else repr(t.encode().hex())})" for n, t in rows)
        texts = f"SELECT n, CAST(unhex(digits) AS STRING) AS text FROM VALUES {values} AS v(n, digits)"
        self.session.sql(f"SELECT {columns} FROM ({texts})").createOrReplaceTempView(name)

    def plain(self) -> Counter[Any]:
        return self._rows(self.session.sql(self._text("", "{}", "stored{} c")))

    def found(self, way: str, *, native: bool = False) -> Counter[Any]:
        hint, left, label = WAYS[way]
        plan = self.optimizer.plan(self._text(hint, left, "looked{} FOR SYSTEM_TIME AS OF PROCTIME() AS c"))
        text = plan.explain()
        assert native or len(re.findall(rf"\b{label}\b", text)) == len(self.columns), text
        if way == "cached":
            plan.dataframe().collect()
        return self._rows(plan.dataframe())

    def _text(self, hint: str, left: str, table: str) -> str:
        return "\nUNION ALL ".join(
            f"SELECT {hint} {number} AS number, l.l, c.n, {shown(column.type, 'c.x')} AS x "
            f"FROM {left.format(f'asked{number}')} l LEFT JOIN {table.format(number)} ON l.k = c.{self.key}"
            for number, column in enumerate(self.columns)
        )

    def _rows(self, frame: Any) -> Counter[Any]:
        return Counter(tuple(row) for row in frame.collect())


def ways_of(store: Store) -> list[str]:
    return [way for way in WAYS if way != "whole" or store.can_be_whole]


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", STORES if WHOLE else ["SQLite", "PostgreSQL"])
def test_all_types_of_a_source(
    session: SparkSession, stores: dict[str, Store], counts: Counter[str], name: str
) -> None:
    store = stores[name]
    choose = random.Random(f"{name} {SEED}")
    kinds = store.types() if WHOLE else choose.sample(store.types(), 3)
    columns = [store.column(kind) for kind in kinds]
    ways = ways_of(store) if WHOLE else choose.sample(ways_of(store), 2)
    as_keys = [column for column in columns if column.type not in NO_KEYS]
    as_values = [_fitting(column) for column in columns]
    for given, key in ((as_keys, "x"), (as_values, "n")):
        lookups = Lookups(session, given, key)
        plain = lookups.plain()
        for number in range(len(given)):
            assert any(row[0] == number and row[2] is not None for row in plain)
        for way in ways:
            assert lookups.found(way, native=name == "Spark table") == plain, f"{name}, by {key}, {way}"
            counts["cells"] += sum(len(column.rows) for column in given)
            counts["rows"] += plain.total()
    misfits = [column for column in columns if column.misfits]
    for column in choose.sample(misfits, min(len(misfits), 3 if WHOLE else 1)):
        misfit = Lookups(session, [column.one([choose.choice(column.misfits)])], "n")
        said = {}
        for way in ways:
            with pytest.raises(Exception, match=r"the column x (has|came back as) ") as failed:
                misfit.found(way)
            text = str(failed.value)
            said[way] = re.sub(r"\n.*", "", text[text.index("the column x ") :], flags=re.DOTALL)
            counts["cells"] += 1
            counts["errors"] += 1
        assert len(set(said.values())) == 1, said


def _fitting(column: Column) -> Column:
    """The same without what does not fit."""
    good = [n for n, text in column.rows if text != MISFIT]
    return column.one(good) if column.misfits else column
