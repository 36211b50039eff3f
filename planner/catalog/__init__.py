"""The catalog that planning reads: tables, settings, statistics, measurements, and cost thresholds."""

from dovetail.planner.catalog.interface import Catalog, Numbers, SequentialCatalog, Settings, UniqueKey, View

__all__ = ["Catalog", "Numbers", "SequentialCatalog", "Settings", "UniqueKey", "View"]
