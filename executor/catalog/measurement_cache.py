"""Caches measurements while the files that they read are unchanged.

A measurement (``planner/catalog/measure.py``) is a Spark job, often more expensive than the rest of planning, and a
repeated statement is planned again.  A cached answer stays valid while the query reads only files, each file has the
same size and modification time, and the session settings are unchanged.  All three are checked on every use.

A measurement of the same text is found without Spark's analysis, if the names in it have the same entries in Spark's
catalog.  That misses a table that was made anew at another place below a view, which may cost speed: measurements
decide nothing about rows.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Generic, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
TableName = tuple[str, ...]

_MOST = 200  # answers
_MOST_FILES = 5_000  # beyond this, checking the files costs about as much as measuring
_STATE = re.compile(r"\{path=(.*?); isDirectory=.*?; length=(\d+);.*?modification_time=(\d+);")
_NOW = re.compile(r"\b(?:current_\w+|now|localtimestamp|unix_timestamp|session_user|user)\(", re.IGNORECASE)
_DATASOURCES = "org.apache.spark.sql.execution.datasources"
_LOCAL = "file:"
_HELD = frozenset(("LocalRelation", "LogicalRDD", "Range"))  # leaves that contain their rows


@dataclass(frozen=True)
class FileIndex:
    """Spark's index of the files of a relation, the paths that it lists, and their bytes by its last listing."""

    location: Any
    roots: tuple[str, ...]
    bytes: int

    def list_files(self, session: SparkSession) -> Sequence[Hashable]:
        """List the current path, size and modification time of each file, which may differ from Spark's listing."""
        if all(root.startswith(_LOCAL) for root in self.roots):
            return sorted(entry for root in self.roots for entry in _here(re.sub("^file:/*", "/", root)))
        index, empty, nothing, no_cache = _of_jvm(session.sparkContext._jvm)
        paths = self.location.rootPaths()
        listed = index(session._jsparkSession, paths, empty, nothing, no_cache, nothing, nothing)
        return sorted(_STATE.findall(listed.allFiles().mkString("\n")))


def list_all(indexes: Iterable[FileIndex], session: SparkSession) -> tuple[Hashable, ...]:
    """List the files of several indexes, each after its bytes."""
    return tuple(about for index in indexes for about in (index.bytes, *index.list_files(session)))


@dataclass(frozen=True)
class CatalogQuery:
    """The cache key of a query over files: analyzed plan, path, size and modification time of each file, settings.

    ``indexes``: those of the files.  ``only_files``: the plan holds no rows itself.
    """

    plan: Any
    files: tuple[Hashable, ...]
    settings: str
    indexes: tuple[FileIndex, ...] = ()
    only_files: bool = True

    def matches(self, other: CatalogQuery) -> bool:
        """Whether both are the same query over the same files."""
        known = (self.files, self.settings) == (other.files, other.settings)
        return known and bool(self.plan.sameResult(other.plan))

    @cached_property
    def key(self) -> int:
        """A hash that is equal for equal queries."""
        return hash((self.plan.semanticHash(), self.files, self.settings))


class MeasurementCache(Generic[T]):
    """An LRU cache of measurements."""

    def __init__(self) -> None:
        self._answers: OrderedDict[int, tuple[CatalogQuery, T]] = OrderedDict()
        self._texts: OrderedDict[Hashable, tuple[dict[TableName, Any], CatalogQuery, T]] = OrderedDict()

    def find_text(self, text: Hashable, find_entry: Callable[[TableName], Any], session: SparkSession) -> T | None:
        """Return the cached answer of a text if its names have the same entries in the catalog, and its files are.

        ``find_entry``: returns the entry of a table or view; None if the catalog has none.
        """
        if (known := self._texts.get(text)) is None:
            return None
        entries, query, answer = known
        if any(find_entry(name) != entry for name, entry in entries.items()):
            return None
        return answer if list_all(query.indexes, session) == query.files else None

    def keep_text(self, text: Hashable, entries: dict[TableName, Any], query: CatalogQuery, answer: T) -> None:
        """Cache the answer of a text.  ``entries``: those of all names that it may have."""
        if any(entry is not None for entry in entries.values()):
            self._texts[text] = entries, query, answer
        if len(self._texts) > _MOST:
            self._texts.popitem(last=False)

    def find(self, query: CatalogQuery) -> T | None:
        """Return the cached answer of the same query over the same files, or None."""
        found = self._answers.get(query.key)
        if found is None or not found[0].matches(query):
            return None
        self._answers.move_to_end(query.key)
        return found[1]

    def keep(self, query: CatalogQuery, answer: T) -> None:
        """Cache an answer."""
        self._answers[query.key] = query, answer
        if len(self._answers) > _MOST:
            self._answers.popitem(last=False)


def catalog_query(frame: DataFrame, *, values: bool = False) -> CatalogQuery | None:
    """Build the cache key of a query of a classic session with its files' current state; None if it reads others.

    ``values``: rows in the plan itself are accepted too; they cannot change, and the key keeps them in memory.
    """
    try:
        plan = normalized_plan(frame)
        if not plan.deterministic() or _NOW.search(plan.toString()):
            return None
        found: dict[tuple[str, int], FileIndex] = {}
        only_files = True
        for part in (plan, *items(plan.subqueriesAll())):
            for leaf in items(part.collectLeaves()):
                kind = leaf.nodeName()
                if kind in ("OneRowRelation", "CTERelationRef"):
                    continue  # a definition's own leaves are among the plan's
                if values and kind in _HELD and not leaf.isStreaming():
                    only_files = False
                    continue
                location = _location(leaf.relation()) if kind == "LogicalRelation" else None
                if location is None:
                    return None
                roots, size = location.rootPaths().mkString("\n"), int(location.sizeInBytes())
                found[roots, size] = FileIndex(location, tuple(roots.split("\n")), size)
        indexes = tuple(found.values())
        files = list_all(indexes, frame.sparkSession)
        settings = settings_text(frame.sparkSession)
    except Py4JError:  # a Spark version with other internals
        return None
    return CatalogQuery(plan, files, settings, indexes, only_files) if len(files) <= _MOST_FILES else None


def settings_text(session: SparkSession) -> str:
    """Return the settings of a classic session as one text."""
    return str(session._jsparkSession.sessionState().conf().getAllConfs().mkString("\n"))


def normalized_plan(frame: DataFrame) -> Any:
    """Return the analyzed plan of a query of a classic session, with WITH definitions numbered deterministically."""
    return frame._jdf.queryExecution().normalized()


def items(sequence: Any) -> list[Any]:
    """Convert a Scala sequence to a list."""
    return [sequence.apply(n) for n in range(sequence.size())]


def _location(relation: Any) -> Any:
    """Return the file index of a relation; None if the relation does not read files."""
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return None
    location = relation.location()
    return location if location.getClass().getSimpleName() == "InMemoryFileIndex" else None


def _here(path: str) -> Iterator[tuple[str, int, int]]:
    """List the files below a local path, except hidden ones, which Spark does not read either."""
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
    """Return Spark's file index class, and arguments for an uncached listing."""
    return (
        getattr(jvm, f"{_DATASOURCES}.InMemoryFileIndex"),
        jvm.PythonUtils.toScalaMap({}),
        jvm.scala.Option.empty(),
        getattr(jvm, f"{_DATASOURCES}.NoopCache$").__getattr__("MODULE$"),
    )
