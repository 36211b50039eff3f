"""Installs optimizers on the DataFrames of a session: an action, such as ``count``, runs the planned DataFrame.

A DataFrame cannot be planned where it is made: a later ``select(left["id"])`` names a column of its parts.  An action
names no column, so the DataFrame that it runs can be another one with the same rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from threading import Lock, local
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from dovetail.executor.connect.plan import joins_something
from dovetail.executor.session.batch import classic
from dovetail.executor.session.installation import PLANNED
from dovetail.executor.session.watched_frames import as_part_of_pyspark, call_watched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ACTIONS = (
    "collect", "count", "explain", "foreach", "foreachPartition", "isEmpty", "show", "tail", "toArrow",
    "toLocalIterator", "toPandas", "writeTo",
)  # fmt: skip
"""The methods that run the planned DataFrame; so does the property ``write``.  ``first`` and ``take`` call collect."""
_ATTRIBUTE = "_dovetail_frames"  # of a session: its InstalledFrames
_METRICS = "_execution_info"  # of a DataFrame of Spark Connect whose action has run
_LOCK = Lock()
_INSIDE = local()  # an action that an action calls is not planned again


class PlansFrames(Protocol):
    """What can be installed."""

    def dataframe(self, frame: DataFrame, /) -> DataFrame:
        """Return the DataFrame that runs instead."""


class InstalledFrames:
    """The optimizers of a session's DataFrames, the last of which plans; ``joins``: whether a DataFrame has a join."""

    def __init__(self, session: SparkSession) -> None:
        self.optimizers: tuple[PlansFrames, ...] = ()
        self.of_frames = type(session.range(0))
        self.joins = _classic_joins(session) if classic(session) else joins_something

    def plan(self, frame: DataFrame) -> DataFrame:
        """Return the DataFrame that runs: the same if it joins nothing."""
        optimizers = self.optimizers
        try:
            joins = bool(optimizers) and self.joins(frame)
        except (Py4JError, PySparkException):  # the action will show what is wrong
            return frame
        return optimizers[-1].dataframe(frame) if joins else frame


def _classic_joins(session: SparkSession) -> Callable[[DataFrame], bool]:
    """The check whether a DataFrame of a classic session has a join: three calls to the JVM."""
    join = session._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.JOIN()  # type: ignore[union-attr]
    return lambda frame: bool(frame._jdf.queryExecution().analyzed().containsPattern(join))


def install_frames(session: SparkSession, optimizer: PlansFrames) -> None:
    """Let the actions of a session's DataFrames plan with an optimizer until ``uninstall_frames``, in all threads."""
    with _LOCK:
        installed = vars(session).get(_ATTRIBUTE)
        if installed is None:
            installed = InstalledFrames(session)
            setattr(session, _ATTRIBUTE, installed)
        installed.optimizers = (*installed.optimizers, optimizer)
        if installed.of_frames not in _replaced:
            _replaced[installed.of_frames] = _Replaced(installed.of_frames)
        _replaced[installed.of_frames].users += 1


def uninstall_frames(session: SparkSession, optimizer: PlansFrames) -> None:
    """Undo the last ``install_frames`` of an optimizer; nothing happens if it is not installed."""
    with _LOCK:
        installed = vars(session).get(_ATTRIBUTE)
        if installed is None:
            return
        places = [n for n, other in enumerate(installed.optimizers) if other is optimizer]
        for place in places[-1:]:
            installed.optimizers = (*installed.optimizers[:place], *installed.optimizers[place + 1 :])
            if not installed.optimizers:
                delattr(session, _ATTRIBUTE)
            replaced = _replaced[installed.of_frames]
            replaced.users -= 1
            if not replaced.users:
                replaced.undo()
                del _replaced[installed.of_frames]


class _Replaced:
    """The methods of a class of DataFrames that plan before they act, and how many installed optimizers need them."""

    def __init__(self, of_frames: type) -> None:
        self.of_frames, self.users = of_frames, 0
        self.before = {name: vars(of_frames).get(name) for name in (*ACTIONS, "write") if hasattr(of_frames, name)}
        self.ours: dict[str, Any] = {}
        for name in self.before:  # Spark 3.5 has no toArrow
            action: Any = getattr(of_frames, name)
            is_property = isinstance(action, property)
            self.ours[name] = property(_planning(action.fget)) if is_property else _planning(action)
            setattr(of_frames, name, self.ours[name])

    def undo(self) -> None:
        """Put back what the class had; what another library has replaced since stays."""
        for name, before in self.before.items():
            if vars(self.of_frames).get(name) is not self.ours[name]:
                continue
            if before is None:  # a class above has the method
                delattr(self.of_frames, name)
            else:
                setattr(self.of_frames, name, before)


_replaced: dict[type, _Replaced] = {}


def _planning(action: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(action)
    def planned_action(frame: DataFrame, *args: Any, **kwargs: Any) -> Any:
        installed = vars(frame.sparkSession).get(_ATTRIBUTE)
        if installed is None or getattr(_INSIDE, "action", False) or PLANNED in vars(frame) or _is_ours():
            return action(frame, *args, **kwargs)
        _INSIDE.action = True
        try:
            planned = installed.plan(frame)
            result = call_watched(planned, lambda: action(planned, *args, **kwargs))
            if _METRICS in vars(planned):
                setattr(frame, _METRICS, vars(planned)[_METRICS])
            return result
        finally:
            _INSIDE.action = False

    return as_part_of_pyspark(planned_action, action.__name__)


def _is_ours() -> bool:
    """Whether Dovetail's own code called the action, perhaps by a method of PySpark."""
    caller: FrameType | None = sys._getframe(2)
    while caller is not None:
        module = str(caller.f_globals.get("__name__", ""))
        package = module.partition(".")[0]
        if package != "pyspark" and module != call_watched.__module__:
            return package == "dovetail"
        caller = caller.f_back
    return False
