"""What may be asked about the world: tables, settings, statistics, small measurements, thresholds of cost."""

from planner.catalog.interface import Catalog, Numbers, OneByOne, Settings, UniqueKey, View

__all__ = ["Catalog", "Numbers", "OneByOne", "Settings", "UniqueKey", "View"]
