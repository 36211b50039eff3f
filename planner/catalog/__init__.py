"""What may be asked about the world: tables, settings, statistics, small measurements, thresholds of cost."""

from planner.catalog.interface import Catalog, Key, Numbers, OneByOne, Settings, View

__all__ = ["Catalog", "Key", "Numbers", "OneByOne", "Settings", "View"]
