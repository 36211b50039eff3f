"""The catalog that planning reads: tables, settings, statistics, measurements, and cost thresholds."""

from dovetail.planner.catalog.interface import Catalog, Numbers, SequentialCatalog, UniqueKey, View
from dovetail.planner.catalog.settings import Settings

__all__ = ["Catalog", "Numbers", "SequentialCatalog", "Settings", "UniqueKey", "View"]
