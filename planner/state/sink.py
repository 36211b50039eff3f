"""The sink, output mode and trigger of a streaming query."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from dovetail.planner.catalog.settings import NameCase
from dovetail.planner.errors import OptionError, one_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUOTED = re.compile('`[^`]*`|"[^"]*"')
_PATH = re.compile(r"[/\\\\]|^[.~]")  # in no name of a table outside of backquotes

Mode = Literal["append", "update", "complete"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True)
class Sink:
    """A sink of Spark's own: ``format`` (``parquet``, ``kafka``, ``memory``, ``noop``, …), its path and options.

    In files that state modules write, each row of an epoch is there once, whatever happens.  While the epoch is being
    written, and after a crash until it has run again, a reader may see a part of it.  Where Spark's own join runs,
    Spark writes the files, and lists those that count in the folder ``_spark_metadata``, which others ignore.
    The printed form has neither the path nor the options, since these may hold keys and passwords.
    """

    format: str
    path: str | Path | None = field(default=None, repr=False)
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict, repr=False)


Target = str | Sink | Callable[["DataFrame", int], None]
"""A table by name; a ``Sink``; or a function of the rows of a micro-batch and its number, as in ``foreachBatch``."""


@dataclass(frozen=True)
class Destination:
    """Where a streaming query has its progress and writes its rows; ``trigger``, ``mode`` and ``name`` are Spark's."""

    checkpoint: str | Path
    sink: Target
    trigger: str | None = None
    mode: Mode = "append"
    name: str | None = None


def check(target: object, mode: str) -> None:
    """Raise ``OptionError`` for what is no target, or no output mode of Spark's."""
    if not isinstance(target, str | Sink) and not callable(target):
        raise OptionError(f"sink is {target!r}; name a table, or give a Sink or a function of (rows, number)")
    if target == "":
        raise OptionError("sink is empty; name a table, or give a Sink or a function of (rows, number)")
    if isinstance(target, str) and _PATH.search(_QUOTED.sub("", target)):
        raise OptionError(f"sink is {target!r}; a string names a table; for files write Sink('parquet', {target!r})")
    by: object = target.partition_by if isinstance(target, Sink) else ()
    if isinstance(by, str):
        raise OptionError(f"partition_by is {by!r}; give the names of columns, as ({by!r},)")
    options = target.options if isinstance(target, Sink) and target.path is not None else {}
    if twice := next((name for name in options if name.lower() == "path"), None):
        raise OptionError(f"The sink has a path and an option {twice}; leave out the option")
    if mode not in MODES:
        raise OptionError(f"mode {mode!r} does not exist; {one_of(MODES, mode)}")


def check_partitions(target: object, columns: Sequence[str], case: NameCase) -> None:
    """Raise ``OptionError`` for a sink whose ``partition_by`` names what is no column, or leaves none for the files."""
    named = target.partition_by if isinstance(target, Sink) else ()
    for name in named:
        if not case.is_among(name, columns):
            raise OptionError(f"partition_by names {name!r}, which the query does not return; {one_of(columns, name)}")
        if name.startswith("."):
            raise OptionError(
                f"partition_by names {name!r}, and readers skip folders whose names begin with a dot; "
                "give the column another name"
            )
    if named and len(set(named)) >= len(columns):
        raise OptionError(f"partition_by names all columns of the query, {', '.join(named)}; files need one more")


def trigger_of(trigger: str | None) -> dict[str, Any]:
    """Arguments of Spark's ``trigger``: for ``available now``, or the time between micro-batches, as ``10 seconds``.

    Nothing for None: a micro-batch begins when the one before has ended.  Raises ``OptionError``.
    """
    if trigger is None:
        return {}
    words = str(trigger).split()
    if [word.lower() for word in words] == ["available", "now"]:
        return {"availableNow": True}
    if not words or not words[0][0].isdigit():
        raise OptionError(f"trigger is {trigger!r}; write 'available now', or a time such as '10 seconds'")
    return {"processingTime": " ".join(words)}
