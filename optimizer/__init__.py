"""Dovetail: finds the joins that Spark plans badly, rewrites them, explains itself, lets Spark run the result.

>>> from dovetail import Optimizer, Options
>>> opt = Optimizer(spark)                                        # doctest: +SKIP
>>> opt.plan("SELECT * FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi").explain()   # doctest: +SKIP
"""

from dovetail.executor.connectors.credentials import env
from dovetail.executor.connectors.http import HttpSource
from dovetail.executor.connectors.memory import MemorySource
from dovetail.executor.connectors.postgres import PostgresSource
from dovetail.executor.connectors.source import LookupSource
from dovetail.executor.connectors.spark_table import SparkTable
from dovetail.executor.connectors.sqlite import SQLiteSource
from dovetail.optimizer.api import Optimizer, optimized
from dovetail.optimizer.estimate.answer import Answer, EstimatedRow
from dovetail.optimizer.new_sessions import install_on_new_sessions
from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.optimizer.statements.events import StatementEvent
from dovetail.optimizer.verification import Verification
from dovetail.optimizer.views.materialized_view import MaterializedView
from dovetail.optimizer.views.materialized_views import MaterializedViews
from dovetail.planner.errors import (
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
from dovetail.planner.explain.records import Declined, PlanWarning
from dovetail.planner.state.sink import Sink

__all__ = [
    "Answer",
    "CatalogError",
    "Declined",
    "DovetailError",
    "EnvironmentProblem",
    "EstimatedRow",
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
