"""A materialized view over four changing tables: the payments of each manager's regions.

python examples/materialize_orders.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from dovetail import Optimizer
from dovetail.executor.session.session import local_session  # quiet, for this machine; a session of yours does as well

QUERY = """
SELECT r.manager, count(*) AS payments, sum(p.amount) AS paid
FROM orders o JOIN customers c ON o.customer = c.id JOIN regions r ON c.region = r.name
JOIN payments p ON p.order_id = o.id
GROUP BY r.manager ORDER BY r.manager
"""
COLUMNS = {
    "orders": "id INT, customer STRING, _change_type STRING",
    "customers": "id STRING, region STRING, _change_type STRING",
    "regions": "name STRING, manager STRING",
    "payments": "order_id INT, amount DECIMAL(9,2)",
}
ARRIVES = [
    {
        "regions": "north,nora\nsouth,simon\n",
        "customers": "ann,north,insert\nbob,south,insert\n",
        "orders": "1,ann,insert\n2,bob,insert\n",
        "payments": "1,10.00\n2,7.50\n",
    },
    {"orders": "3,cleo,insert\n", "payments": "3,99.00\n1,2.50\n"},  # cleo's order comes before cleo is known
    {"customers": "cleo,south,insert\nbob,south,update_preimage\nbob,north,update_postimage\n"},  # bob moves
    {"orders": "3,cleo,delete\n"},
]


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch, local_session("materialize-orders") as spark:
        folder, opt, view = Path(scratch), Optimizer(spark), None
        for name, columns in COLUMNS.items():
            (folder / name).mkdir()
            spark.readStream.schema(columns).csv(str(folder / name)).createOrReplaceTempView(name)
            if "_change_type" in columns:
                opt.declare_changelog(name, "_change_type")
        for number, files in enumerate(ARRIVES):
            for name, rows in files.items():
                (folder / name / f"{number}.csv").write_text(rows)
            if view is None:
                view = opt.materialize(QUERY, "revenue", state=folder / "state")
                print(view.explain())
            else:
                view.refresh()
            spark.table("revenue").show()


if __name__ == "__main__":
    main()
