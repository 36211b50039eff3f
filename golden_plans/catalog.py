"""The catalog of a golden plan; see ``planner/offline_catalog/catalog.py``."""

from planner.offline_catalog.catalog import CatalogFile as CatalogFile
from planner.offline_catalog.catalog import Row as Row
from planner.offline_catalog.catalog import Table as Table
