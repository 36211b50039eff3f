"""The settings of a session as a plan sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dovetail.executor.catalog.spark_catalog import SparkCatalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_time_zone_that_is_not_set_is_the_machine_s(spark: SparkSession) -> None:
    """As Spark has it: a day of that zone may have 23 hours."""
    session, name = spark.newSession(), "spark.sql.session.timeZone"
    session.conf.set(name, "Asia/Tokyo")
    assert SparkCatalog(session).settings.time_zone == "Asia/Tokyo"
    session.conf.unset(name)
    zones: Any = session._jvm.java.util.TimeZone  # type: ignore[union-attr]
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone("Europe/Berlin"))
    try:
        found = SparkCatalog(session).settings
        assert (found.time_zone, found.has_fixed_offset_zone) == ("Europe/Berlin", False)
        assert session.sql("SELECT current_timezone()").collect()[0][0] == "Europe/Berlin"
    finally:
        zones.setDefault(before)
