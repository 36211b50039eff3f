"""Dovetail: finds the joins that Spark plans badly, rewrites them, explains itself, lets Spark run the result.

>>> from optimizer import Optimizer, Options
>>> opt = Optimizer(spark)                                        # doctest: +SKIP
>>> opt.plan("SELECT * FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi").explain()   # doctest: +SKIP
"""

from optimizer.api import Optimizer, optimized
from optimizer.materialized_view import MaterializedView
from optimizer.materialized_views import MaterializedViews
from optimizer.new_sessions import install_on_new_sessions
from optimizer.options import Options
from optimizer.plan import Plan
from optimizer.planning import plan_sql
from optimizer.statement_events import StatementEvent
from optimizer.verification import Verification
from planner.connectors.credentials import env
from planner.connectors.http import HttpSource
from planner.connectors.memory import MemorySource
from planner.connectors.postgres import PostgresSource
from planner.connectors.source import LookupSource
from planner.connectors.spark_table import SparkTable
from planner.connectors.sqlite import SQLiteSource
from planner.errors import (
    CatalogError,
    DovetailError,
    EnvironmentProblem,
    GoldenError,
    HintError,
    InputError,
    LookupFailed,
    OptionError,
    Place,
    QueryError,
    RuleError,
    SourceError,
    StateError,
)
from planner.explain.records import Declined, PlanWarning
from planner.state.sink import Sink

__all__ = [
    "CatalogError",
    "Declined",
    "DovetailError",
    "EnvironmentProblem",
    "GoldenError",
    "HintError",
    "HttpSource",
    "InputError",
    "LookupFailed",
    "LookupSource",
    "MaterializedView",
    "MaterializedViews",
    "MemorySource",
    "Optimizer",
    "OptionError",
    "Options",
    "Place",
    "Plan",
    "PlanWarning",
    "PostgresSource",
    "QueryError",
    "RuleError",
    "SQLiteSource",
    "Sink",
    "SourceError",
    "SparkTable",
    "StateError",
    "StatementEvent",
    "Verification",
    "env",
    "install_on_new_sessions",
    "optimized",
    "plan_sql",
]
