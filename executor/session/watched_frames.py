"""DataFrames whose actions run inside a context, which names their jobs and sees their errors.

Spark reads the description of a job from the thread that runs an action, long after the DataFrame was made.  So the
methods of a watched DataFrame run inside the context, and what they return is watched as well: DataFrames that are made
of it, groups of its rows, and writers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, wraps
from pathlib import Path
from types import CodeType, MethodType
from typing import Any, TypeVar

import pyspark

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Around = Callable[[], AbstractContextManager[None]]

_FILE = str(Path(pyspark.__file__).parent / "dovetail")
_AROUND = "_dovetail_around"
_KINDS = ("DataFrame", "GroupedData", "DataFrameWriter", "DataFrameWriterV2")


def _get_watched(self: Any, name: str) -> Any:
    """The ``__getattribute__`` of watched objects: a public method runs inside the context of its object."""
    value = object.__getattribute__(self, name)
    if name.startswith("_"):
        return value
    if not isinstance(value, MethodType):
        return watch(value, vars(self)[_AROUND]) if name == "write" else value

    @wraps(value)
    def call(*args: Any, **kwargs: Any) -> Any:
        return call_watched(self, lambda: value(*args, **kwargs))

    return as_part_of_pyspark(call, name)


def watch(value: T, around: Around) -> T:
    """Let the methods of a DataFrame run inside ``around()``; returns it.  Other values are returned as they are."""
    kind: type = type(value)
    watched = _watched_class(kind)
    if watched is not None:
        vars(value)[_AROUND] = around
        value.__class__ = watched
    return value


def call_watched(frame: object, call: Callable[[], T]) -> T:
    """Call a method inside the context of a DataFrame, if it is watched, and watch the result."""
    around = vars(frame).get(_AROUND)
    with around() if around else nullcontext():
        found = call()
    return watch(found, around) if around else found


def as_part_of_pyspark(method: F, name: str) -> F:
    """Let Spark's UI and event logs show the line that calls a method, not one of the method itself; returns it.

    PySpark takes the caller of the first function below its own folder for the call site of a job.
    """
    code: CodeType = method.__code__
    method.__code__ = code.replace(co_filename=_FILE, co_name=name)
    return method


@cache
def _watched_class(kind: type) -> type | None:
    """The class of watched objects of a class of PySpark; None for any other, and for what is watched already."""
    is_watched = vars(kind).get("__getattribute__") is _get_watched
    if is_watched or kind.__name__ not in _KINDS or not kind.__module__.startswith("pyspark.sql."):
        return None
    own = {"__getattribute__": _get_watched, "__module__": kind.__module__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), own)
