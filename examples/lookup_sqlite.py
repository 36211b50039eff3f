"""Orders look up their customers in an SQLite database.

python examples/lookup_sqlite.py
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

from dovetail import Optimizer, SQLiteSource
from dovetail.executor.session.session import local_session  # quiet, for this machine; a session of yours does as well

QUERY = """
SELECT /*+ SHUFFLE_HASH('Customers') */ o.order_id, o.total, c.country, c.zip
FROM Orders AS o
LEFT JOIN Customers FOR SYSTEM_TIME AS OF PROCTIME() AS c ON o.customer_id = c.id
ORDER BY o.order_id
"""


def make_customers(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, country TEXT, zip TEXT)")
        rows = [(n, ("IT", "DE", "FR")[n % 3], f"{n:05}") for n in range(1, 101)]
        database.executemany("INSERT INTO customers VALUES (?, ?, ?)", rows)
    database.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, local_session("lookup-sqlite") as spark:
        path = Path(folder) / "shop.db"
        make_customers(path)
        orders = spark.range(1, 9).selectExpr("id AS order_id", "id * 17 AS customer_id", "id * 2.50 AS total")
        orders.createOrReplaceTempView("Orders")

        opt = Optimizer(spark)
        opt.register_lookup("Customers", SQLiteSource("customers", path=path))
        plan = opt.plan(QUERY)
        print(plan.explain())
        plan.dataframe().show()


if __name__ == "__main__":
    main()
