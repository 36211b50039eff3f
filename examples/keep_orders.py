"""Revenue by region over orders, customers and payments that keep arriving, without joining anything twice.

python examples/keep_orders.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from optimizer import Optimizer
from planner.runtime.session import local_session

QUERY = """
SELECT c.region, count(*) AS payments, sum(p.amount) AS paid
FROM orders o JOIN customers c ON o.customer = c.id JOIN payments p ON p.order_id = o.id
GROUP BY c.region ORDER BY c.region
"""
COLUMNS = {
    "orders": "id INT, customer STRING",
    "customers": "id STRING, region STRING",
    "payments": "order_id INT, amount DECIMAL(9,2)",
}
ARRIVES = [
    {"customers": "ann,north\nbob,south\n", "orders": "1,ann\n2,bob\n", "payments": "1,10.00\n"},
    {"orders": "3,cleo\n", "payments": "2,7.50\n3,99.00\n"},  # cleo's payment comes before cleo is known
    {"customers": "cleo,south\n", "payments": "1,2.50\n"},
]


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch, local_session("keep-orders") as spark:
        folder = Path(scratch)
        for name, columns in COLUMNS.items():
            (folder / name).mkdir()
            spark.readStream.schema(columns).csv(str(folder / name)).createOrReplaceTempView(name)
        view = None
        for number, files in enumerate(ARRIVES):
            for name, rows in files.items():
                (folder / name / f"{number}.csv").write_text(rows)
            if view is None:
                view = Optimizer(spark).keep(QUERY, "revenue", state=folder / "state")
                print(view.explain())
            else:
                view.refresh()
            spark.table("revenue").show()


if __name__ == "__main__":
    main()
