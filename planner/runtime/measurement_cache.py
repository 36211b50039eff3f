"""What has been found out, kept as long as the files that it was found out of stay as they are.

What planning asks of the data (``planner/catalog/measure.py``) costs a Spark job, often more than the rest of planning;
and a statement that comes again is planned again.  A question that is asked again gets the answer at once, provided it
reads nothing but files, that each of them has the size and the time of change that it had, and that the session has
the settings that it had.  Databases keep statistics and plans until a table changes; files have no one to tell us, so
we look.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Generic, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

T = TypeVar("T")

_MOST = 200  # answers
_MOST_FILES = 5_000  # beyond, looking at them costs about what measuring costs
_STATE = re.compile(r"\{path=(.*?); isDirectory=.*?; length=(\d+);.*?modification_time=(\d+);")
_NOW = re.compile(r"\b(?:current_\w+|now|localtimestamp|unix_timestamp|session_user|user)\(", re.IGNORECASE)
_DATASOURCES = "org.apache.spark.sql.execution.datasources"
_LOCAL = "file:"


@dataclass(frozen=True)
class Question:
    """A query that reads files only: its analysed plan; the path, bytes and time of change of each file; settings.

    ``words``: what else the answer hangs on.
    """

    plan: Any
    files: tuple[Hashable, ...]
    settings: str
    words: Hashable = ()

    def same(self, other: Question) -> bool:
        """Whether it is the same question over the same files."""
        known = (self.files, self.settings, self.words) == (other.files, other.settings, other.words)
        return known and bool(self.plan.sameResult(other.plan))

    @cached_property
    def key(self) -> int:
        """The same for the same question."""
        return hash((self.plan.semanticHash(), self.files, self.settings, self.words))


class MeasurementCache(Generic[T]):
    """Answers to questions that may come again, the latest two hundred of them."""

    def __init__(self) -> None:
        self._answers: OrderedDict[int, tuple[Question, T]] = OrderedDict()

    def find(self, question: Question) -> T | None:
        """The answer to the same question over the same files; None where there is none."""
        kept = self._answers.get(question.key)
        if kept is None or not kept[0].same(question):
            return None
        self._answers.move_to_end(question.key)
        return kept[1]

    def keep(self, question: Question, answer: T) -> None:
        """Remember an answer."""
        self._answers[question.key] = question, answer
        if len(self._answers) > _MOST:
            self._answers.popitem(last=False)


def asked(frame: DataFrame, words: Hashable = ()) -> Question | None:
    """What a query of a classic session reads, if that is files and nothing else, as they are now; else None."""
    try:
        plan = meaning(frame)
        if not plan.deterministic() or _NOW.search(plan.toString()):
            return None
        found: dict[tuple[str, int], list[Hashable]] = {}
        for part in (plan, *items(plan.subqueriesAll())):
            for leaf in items(part.collectLeaves()):
                if leaf.nodeName() in ("OneRowRelation", "CTERelationRef"):
                    continue  # a definition's own leaves are among the plan's
                if (location := _location(leaf)) is None:
                    return None
                listed = location.rootPaths().mkString("\n"), int(location.sizeInBytes())
                if listed not in found:
                    found[listed] = [listed[1], *_files(frame, location, listed[0].split("\n"))]
        files = [about for all_of_one in found.values() for about in all_of_one]
        settings = frame.sparkSession._jsparkSession.sessionState().conf().getAllConfs().mkString("\n")
    except Py4JError:  # a version of Spark with other names inside
        return None
    return Question(plan, tuple(files), settings, words) if len(files) <= _MOST_FILES else None


def meaning(frame: DataFrame) -> Any:
    """The analysed plan of a query of a classic session; definitions in WITH are numbered the same each time."""
    return frame._jdf.queryExecution().normalized()


def items(sequence: Any) -> list[Any]:
    """A sequence of Scala's as a list."""
    return [sequence.apply(n) for n in range(sequence.size())]


def _location(leaf: Any) -> Any:
    """What lists the files of a leaf; None for what is not files."""
    if leaf.nodeName() != "LogicalRelation":
        return None
    relation = leaf.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return None
    location = relation.location()
    return location if location.getClass().getSimpleName() == "InMemoryFileIndex" else None


def _files(frame: DataFrame, location: Any, roots: list[str]) -> Sequence[Hashable]:
    """Path, bytes and time of change of each file as they are now, which need not be what Spark listed."""
    if all(root.startswith(_LOCAL) for root in roots):
        return sorted(entry for root in roots for entry in _here(re.sub("^file:/*", "/", root)))
    index, empty, nothing, no_cache = _of_jvm(frame.sparkSession.sparkContext._jvm)
    listed = index(frame.sparkSession._jsparkSession, location.rootPaths(), empty, nothing, no_cache, nothing, nothing)
    return sorted(_STATE.findall(listed.allFiles().mkString("\n")))


def _here(path: str) -> Iterator[tuple[str, int, int]]:
    """The files below a path of this machine, but for hidden ones: what Spark does not read either."""
    try:
        about = os.stat(path)  # noqa: PTH116 - a thousand files a query: twice as fast as Path
        if not os.path.isdir(path):  # noqa: PTH112
            yield path, about.st_size, about.st_mtime_ns
            return
        with os.scandir(path) as entries:
            found = list(entries)
    except OSError:
        yield path, -1, -1
        return
    for entry in found:
        if entry.name.startswith(".") or (entry.name.startswith("_") and "=" not in entry.name):
            continue
        if entry.is_dir():
            yield from _here(entry.path)
        else:
            about = entry.stat()
            yield entry.path, about.st_size, about.st_mtime_ns


@lru_cache(maxsize=1)
def _of_jvm(jvm: Any) -> tuple[Any, ...]:
    """What lists files anew, and what it takes: no options, nothing, and a cache that keeps nothing."""
    return (
        getattr(jvm, f"{_DATASOURCES}.InMemoryFileIndex"),
        jvm.PythonUtils.toScalaMap({}),
        jvm.scala.Option.empty(),
        getattr(jvm, f"{_DATASOURCES}.NoopCache$").__getattr__("MODULE$"),
    )
