"""Reads the catalog of a golden plan; see ``planner/offline_catalog/read_catalog.py``."""

from planner.offline_catalog.read_catalog import read_catalog as read_catalog
