"""A DataFrame of Spark Connect as a statement, proved by the texts of optimized plans.

A server compares no optimized plans, and hands out their texts.  They count as equal if they are the same but for the
names and numbers of columns, where the numbers correspond one to one: so every operator, condition and expression is
the same over the same columns.  What a text does not show is the same by other means:

- The rows of a relation: each relation is a sample of all its rows in both plans, and the text has the seed of the
  sample.  It is a number for the relation, which stays at its place, and equal numbers are the same part of the plan.
- The names, types, nullability and metadata of columns: the schemas of both are compared.
- The types of literals (``1`` may be an INT or a BIGINT): the writer has them from the DataFrame, as values with types,
  or as the user's own text.  A string literal that looks like the number of a column is refused.
- Settings of the session: both plans are analyzed now, in the same session.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from dovetail.executor.connect.plan import RelationNode, frame_of, label, relation_of
from dovetail.executor.connect.plan_reader import ConnectPlanReader
from dovetail.executor.frame_sql.query_blocks import QueryBlocks
from dovetail.executor.frame_sql.shape import PlanShape, cached_rows
from dovetail.executor.frame_sql.written_frame import WrittenFrame
from dovetail.executor.session.named_frames import NamedFrames, run_over_frames
from dovetail.executor.session.schemas import fields_of
from dovetail.executor.session.settings import all_settings, name_case
from dovetail.planner.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIRST_LABEL = 730_000_000_000
_OPTIMIZED, _PHYSICAL = "== Optimized Logical Plan ==\n", "\n== Physical Plan ==\n"
_CUT = re.compile(r"\.\.\. \d+ more |Truncated plan")
_COLUMN = re.compile(r"\w*#(\d+)")
_CROSS = re.compile(r"^([ :+-]*Join )Cross, ", re.MULTILINE)
_LABEL = re.compile(rf"^[ :+-]*Sample 0\.0, 1\.0, false, {_FIRST_LABEL // 1000}\d{{3}}\b", re.MULTILINE)
_MOST_FIELDS = "spark.sql.debug.maxToStringFields"
_CACHED = re.compile(r"InMemoryTableScan|Scan In-memory table ")  # the latter of a cache that has a name
_RAISED = Lock()  # while the session shows whole lists: another thread would take its setting for the user's


def write_connect_frame(session: SparkSession, frame: DataFrame) -> WrittenFrame:
    """Write a DataFrame as a statement over views of its relations.  Raises ``Refused`` if it cannot be written."""
    try:
        plan = _checked_plan(session, frame)
        has_cached = _CACHED.search(frame._explain_string()) is not None  # type: ignore[operator]
        shape = PlanShape(plan, cached_rows(session, has_cached=has_cached))
        reader = ConnectPlanReader(session, shape, frame.columns, name_case(all_settings(session)))
        text = reader.blocks.write(reader.read(), frame.columns)
    except PySparkException as error:
        raise Refused(f"the DataFrame is not written as SQL: {_first_line(error)}") from error
    named = NamedFrames.of_views(text, reader.blocks.frames(session))
    return WrittenFrame(named, partial(_find_difference, session, frame, plan, reader.blocks, text))


def _checked_plan(session: SparkSession, frame: DataFrame) -> RelationNode:
    """Return the plan of a DataFrame.  Raises ``Refused`` for one that is not planned at all."""
    if not _is_of(frame, session):
        raise Refused("the DataFrame belongs to another session than the optimizer")
    plan = RelationNode(relation_of(frame))
    parts = {part.name for part, _ in plan.walk()}
    if "collect_metrics" in parts:
        raise Refused("the DataFrame observes metrics, and planning may read it before your action does")
    if "join" not in parts:
        in_text = " but those in the text of its SQL, which opt.sql() takes" if "sql" in parts else ""
        raise Refused(f"the DataFrame has no join{in_text}")
    if frame.isStreaming:
        raise Refused("the DataFrame is a stream; opt.stream() runs joins of streams")
    return plan


def _is_of(frame: DataFrame, session: SparkSession) -> bool:
    other = frame.sparkSession
    return other is session or (
        getattr(other, "client", None) is session.client and getattr(other, "session_id", None) == session.session_id  # type: ignore[attr-defined]
    )


def _find_difference(
    session: SparkSession, frame: DataFrame, plan: RelationNode, blocks: QueryBlocks, text: str
) -> str:
    """Return how a statement differs from the DataFrame; empty if it does not.  Replaces relations in the plan."""
    try:
        return _difference(session, frame, plan, blocks, text)
    except PySparkException as error:
        return _first_line(error)


def _difference(session: SparkSession, frame: DataFrame, plan: RelationNode, blocks: QueryBlocks, text: str) -> str:
    labelled: dict[str, DataFrame] = {}
    for carried in blocks.carried:
        relation: Any = carried.part
        numbered = label(relation.message, _FIRST_LABEL + list(blocks.views).index(carried.view))
        labelled[carried.view] = carried.renamed(frame_of(session, numbered))
        relation.message.CopyFrom(numbered)
    written = run_over_frames(session, text, None, labelled)
    if fields_of(written.schema) != fields_of(frame.schema):
        return "a column has another type"
    both = (plan.frame(session), written)
    texts = list(map(_optimized, both))
    if any(map(_CUT.search, texts)):
        with _whole_lists(session):
            texts = list(map(_optimized, both))
    if any(not text or _CUT.search(text) for text in texts):
        return "the server does not show all of Spark's optimized plan"
    return "" if _numbered(texts[0]) == _numbered(texts[1]) else "Spark plans it otherwise"


@contextmanager
def _whole_lists(session: SparkSession) -> Iterator[None]:
    """Let the session show lists of more than 25 columns in plans; its other threads see longer texts for a moment."""
    with _RAISED:
        before = session.conf.get(_MOST_FIELDS, None)
        session.conf.set(_MOST_FIELDS, str(2**31 - 1))
        try:
            yield
        finally:
            if before is None:
                session.conf.unset(_MOST_FIELDS)
            else:
                session.conf.set(_MOST_FIELDS, before)


def _optimized(frame: DataFrame) -> str:
    """Return the text of the optimized plan; empty if its ends are not certain, or if no relation has its label.

    A server of another engine has plans without numbers of columns, and without samples in Spark's words.
    """
    explained = str(frame._explain_string(extended=True))  # type: ignore[operator]
    if explained.count(_OPTIMIZED) != 1 or explained.count(_PHYSICAL) != 1:
        return ""
    text = explained.partition(_OPTIMIZED)[2].partition(_PHYSICAL)[0]
    return text if _LABEL.search(text) else ""


def _numbered(text: str) -> str:
    """Number the columns in the text of a plan in the order in which they appear, and leave out their names.

    A cross join with a condition is an inner join.
    """
    numbers: dict[str, int] = {}
    text = _COLUMN.sub(lambda m: f"#{numbers.setdefault(m[1], len(numbers))}", text)
    return _CROSS.sub(r"\1Inner, ", text)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
