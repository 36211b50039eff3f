"""Answers to measurements, kept as long as the files that were measured stay as they are.

What planning asks of the data (``planner/measure.py``) costs a Spark job, often more than the rest of planning.  A
question that is asked again gets the answer at once, provided that it reads nothing but files and that each of them
has the size and the time of change that it had.  Databases keep statistics until the table changes; files have no one
to tell us, so we look.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from planner.catalog import Numbers

Answer = tuple[Numbers, ...]

_MOST = 200  # answers
_MOST_FILES = 5_000  # beyond, looking at them costs about what measuring costs
_STATE = re.compile(r"\{path=(.*?); isDirectory=.*?; length=(\d+);.*?modification_time=(\d+);")
_NOW = re.compile(r"\b(?:current_\w+|now|localtimestamp|unix_timestamp|session_user|user)\(", re.IGNORECASE)
_DATASOURCES = "org.apache.spark.sql.execution.datasources"


@dataclass(frozen=True)
class Question:
    """A query that reads files only: its analysed plan, and the path, bytes and time of change of each file."""

    plan: Any
    files: tuple[tuple[str, ...], ...]


class Remembered:
    """The answers that an optimizer has got, the latest two hundred of them."""

    def __init__(self) -> None:
        self._answers: OrderedDict[int, tuple[Question, Answer]] = OrderedDict()

    def answer(self, frame: DataFrame, measure: Callable[[], Answer]) -> Answer:
        """What ``measure`` returns for a query, or has returned for the same one over the same files."""
        question = asked(frame)
        if question is None:
            return measure()
        key = hash((question.plan.semanticHash(), question.files))
        if key in self._answers:
            before, answer = self._answers[key]
            if before.files == question.files and before.plan.sameResult(question.plan):
                self._answers.move_to_end(key)
                return answer
        answer = measure()
        self._answers[key] = question, answer
        if len(self._answers) > _MOST:
            self._answers.popitem(last=False)
        return answer


def asked(frame: DataFrame) -> Question | None:
    """What a query of a classic session reads, if that is files and nothing else, as they are now; else None."""
    plan = frame._jdf.queryExecution().analyzed()
    if not plan.deterministic() or _NOW.search(plan.toString()):
        return None
    files: list[tuple[str, ...]] = []
    try:
        for part in (plan, *items(plan.subqueriesAll())):
            for leaf in items(part.collectLeaves()):
                found = _files(frame, leaf)
                if found is None:
                    return None
                files += found
    except Py4JError:  # a version of Spark with other names inside
        return None
    return Question(plan, tuple(files)) if len(files) <= _MOST_FILES else None


def items(sequence: Any) -> list[Any]:
    """A sequence of Scala's as a list."""
    return [sequence.apply(n) for n in range(sequence.size())]


def _files(frame: DataFrame, leaf: Any) -> list[tuple[str, ...]] | None:
    """Path, bytes and time of change of each file of a leaf, listed anew; None for what is not files."""
    if leaf.nodeName() == "OneRowRelation":
        return []
    if leaf.nodeName() != "LogicalRelation":
        return None
    relation = leaf.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return None
    location = relation.location()
    if location.getClass().getSimpleName() != "InMemoryFileIndex":
        return None
    jvm: Any = frame.sparkSession.sparkContext._jvm
    nothing = jvm.scala.Option.empty()
    listed = getattr(jvm, f"{_DATASOURCES}.InMemoryFileIndex")(
        frame.sparkSession._jsparkSession,
        location.rootPaths(),
        jvm.PythonUtils.toScalaMap({}),
        nothing,
        getattr(jvm, f"{_DATASOURCES}.NoopCache$").__getattr__("MODULE$"),
        nothing,
        nothing,
    )
    return sorted(_STATE.findall(listed.allFiles().mkString("\n")))
