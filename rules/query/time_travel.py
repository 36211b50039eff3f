"""Distinguishes Spark's own time travel from the times that Dovetail joins by: the table decides."""

from dovetail.planner.catalog import Catalog
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Scan

_NOW = ("PROCTIME()", "CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP()", "NOW()")
_PROCESSING_TIMES = ("proctime", "processingtime", "processtime")


def is_now(time: Scalar) -> bool:
    """Whether a time is the present one: ``PROCTIME()``, as Flink writes it, or ``now()``."""
    return time.shown.upper().replace(" ", "") in _NOW


def is_processing_time(column: str) -> bool:
    """Whether a column has a name that means the time at which a row is processed, as ``proc_time``."""
    return column.lower().replace("_", "") in _PROCESSING_TIMES


def can_spark_travel(scan: Scan, catalog: Catalog) -> bool:
    """Whether Spark reads a table as of the time behind its name: a table of Delta Lake or Iceberg, and a constant.

    Constants are also parameters, session variables and subqueries, which only Spark distinguishes from columns.
    """
    return catalog.schema(f"SELECT * FROM {scan.text} {scan.suffix}") is not None
