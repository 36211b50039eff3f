"""Programs that were written when ``planner/connectors`` was ``planner/lookup`` still run."""

from __future__ import annotations

import optimizer


def test_the_imports_of_earlier_docs_work() -> None:
    from planner.lookup.credentials import env
    from planner.lookup.http import HttpSource
    from planner.lookup.memory import MemorySource
    from planner.lookup.postgres import PostgresSource
    from planner.lookup.source import LookupSource
    from planner.lookup.spark_table import SparkTable
    from planner.lookup.sqlite import SQLiteSource

    for old in (HttpSource, LookupSource, MemorySource, PostgresSource, SQLiteSource, SparkTable, env):
        assert getattr(optimizer, old.__name__) is old
