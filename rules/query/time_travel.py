"""Distinguishes Spark's own time travel from the times that Dovetail joins by: the table decides."""

from dovetail.planner.catalog import Catalog
from dovetail.planner.logical import Scan


def can_spark_travel(scan: Scan, catalog: Catalog) -> bool:
    """Whether Spark reads a table as of the time behind its name: a table of Delta Lake or Iceberg, and a constant.

    Constants are also parameters, session variables and subqueries, which only Spark distinguishes from columns.
    """
    return catalog.schema(f"SELECT * FROM {scan.text} {scan.suffix}") is not None
