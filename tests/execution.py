"""How Spark runs what a test asks for: as it does for users, or without compilers, which few rows do not repay.

Which expression is evaluated on which row differs between the two, so that both are tested: a hash of a test's name
decides, and of a random example the text of its query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary
from zlib import crc32

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT, INTERPRETED = "default", "interpreted"
_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
_sessions: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()
_current = [DEFAULT]


def execution_of(name: str) -> str:
    """How a test or query of this name is run: more than half of them as users run them."""
    return DEFAULT if crc32(name.encode()) % 5 < 3 else INTERPRETED


def execute(session: SparkSession, execution: str) -> None:
    """Run what comes next on a session in this way."""
    if _sessions.get(session, DEFAULT) == execution:
        return
    for name, value in _SETTINGS.items():
        if execution == INTERPRETED:
            session.conf.set(name, value)
        else:
            session.conf.unset(name)
    _sessions[session] = execution


def follow_tests(session: SparkSession) -> None:
    """From now on a session runs each test in the way of that test."""
    _sessions[session] = DEFAULT
    execute(session, _current[0])


def begin(test: str) -> None:
    """Tell the sessions which test begins."""
    _current[0] = execution_of(test)
    for session in list(_sessions):
        execute(session, _current[0])


def begin_example(session: SparkSession, query: str) -> None:
    """Tell a session which query of a random test begins."""
    if session in _sessions:
        execute(session, execution_of(query))
