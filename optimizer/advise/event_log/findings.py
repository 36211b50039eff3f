"""Findings: the joins of an application that Spark runs badly, with their rows, task time and skew."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median_low

from dovetail.optimizer.advise.event_log.join_nodes import JoinText, read_join
from dovetail.optimizer.advise.event_log.plan_nodes import ROWS, PlanNode, is_exchange, rows_metric
from dovetail.optimizer.advise.event_log.verdicts import Verdict, judge

PAIRED = ("BroadcastNestedLoopJoin", "CartesianProduct")
"""Joins that compare each row with each row."""

BY_KEY = ("SortMergeJoin", "ShuffledHashJoin")
"""Joins of which one key may have most of the rows."""


MOST_ACCUMULATORS = 1_000_000
"""Accumulators that are remembered, some 200 bytes each, beyond those of joins that may be findings."""

MOST_STAGES = 200_000
_MOST_STAGES_OF = 100
HOT_TIMES = 4.0
HOT_RECORDS = 2.0
HOT_SECONDS = 0.5


@dataclass(frozen=True)
class Candidate:
    """A join of a plan, before it is measured: with accumulators in the place of rows and stages."""

    execution: int
    join: JoinText
    verdict: Verdict
    rows: tuple[int | None, int | None, int | None]
    own: tuple[int, ...]
    around: tuple[int, ...]

    @property
    def accumulators(self) -> set[int]:
        """All accumulators that measure the join."""
        return {*self.own, *self.around, *(number for number in self.rows if number is not None)}


@dataclass(frozen=True)
class Origin:
    """Where an execution comes from, as far as its log has it: its SQL, the line that ran it, the job description."""

    sql: str | None = None
    call_site: str = ""
    description: str = ""


@dataclass(frozen=True)
class Finding:
    """A join that Spark ran badly.

    ``rows``: of the left side, of the right side, and out.  ``seconds``: task time of the stages that ran the join,
    which may have run other operators, too; ``share``: of the task time of the application.
    """

    execution: int
    origin: Origin
    join: JoinText
    verdict: Verdict
    rows: tuple[int | None, int | None, int | None]
    seconds: float
    share: float
    stages: tuple[int, ...]
    skew: Skew | None

    @property
    def sql(self) -> str | None:
        """The SQL of the execution; None where the log does not have it."""
        return self.origin.sql


@dataclass
class Measured:
    """The accumulators and stages of an application, as far as they were logged and are remembered.

    ``has_forgotten``: there were more accumulators than ``MOST_ACCUMULATORS``, so that one without a value may have had
    one.
    """

    values: dict[int, int] = field(default_factory=dict)
    stages_of: dict[int, tuple[int, ...]] = field(default_factory=dict)
    stages: dict[int, Stage] = field(default_factory=dict)
    has_forgotten: bool = False

    def note(self, accumulator: int, value: int, stage: int | None = None) -> None:
        """Note a value of an accumulator, which only grows, and the stage that has updated it."""
        self.values[accumulator] = max(value, self.values.get(accumulator, 0))
        known = self.stages_of.get(accumulator, ())
        if stage is not None and stage not in known and len(known) < _MOST_STAGES_OF:
            self.stages_of[accumulator] = (*known, stage)

    def add_task(self, stage: int, millis: int, records: int) -> None:
        """Add a task to its stage; the tasks of a stage after the first ``MOST_STAGES`` are left out."""
        if stage in self.stages or len(self.stages) < MOST_STAGES:
            self.stages.setdefault(stage, Stage()).add(millis, records)

    def forget(self, needed: set[int]) -> None:
        """Forget the older half of the accumulators, except those that are needed."""
        self.has_forgotten = True
        for number in list(self.values)[: len(self.values) // 2]:
            if number not in needed:
                del self.values[number]
                self.stages_of.pop(number, None)

    def ran_in(self, accumulators: tuple[int, ...]) -> tuple[int, ...]:
        """The stages that have updated any of the accumulators."""
        return tuple(sorted({stage for number in accumulators for stage in self.stages_of.get(number, ())}))


def candidates(root: PlanNode, execution: int) -> list[Candidate]:
    """The joins of a plan that may be a finding."""
    found, pieces = [], None
    for node in root.walk():
        join = read_join(node)
        if join is None or not (join.node not in BY_KEY or join.keys):
            continue
        if pieces is None:
            pieces = _accumulators_by_segment(root)
        rows = (rows_metric(node.children[0]), rows_metric(node.children[1]), node.metrics.get(ROWS))
        own, around = tuple(node.metrics.values()), tuple(pieces.get(node.segment, ()))
        found.append(Candidate(execution, join, judge(node, join), rows, own, around))
    return found


def _accumulators_by_segment(root: PlanNode) -> Mapping[int, list[int]]:
    """The accumulators of the nodes between two exchanges, which run in the same stages."""
    found: dict[int, list[int]] = {}
    for node in root.walk():
        if not is_exchange(node):
            found.setdefault(node.segment, []).extend(node.metrics.values())
    return found


def finding(candidate: Candidate, measured: Measured, total: int, origin: Origin) -> Finding | None:
    """Measure a candidate; None where Spark runs it well.

    A nested loop over at most one row is a filter, and a join by key is a finding where one key is hot.
    """
    stages = measured.ran_in(candidate.own) or measured.ran_in(candidate.around)
    missing = 0 if stages and not measured.has_forgotten else None
    left, right, out = (None if number is None else measured.values.get(number, missing) for number in candidate.rows)
    ran = [measured.stages[number] for number in stages if number in measured.stages]
    slowest = max(ran, key=lambda stage: stage.total, default=None)
    skew = skew_of(slowest) if slowest else None
    node = candidate.join.node
    if node in BY_KEY and not (skew and skew.is_hot_key):
        return None
    if node in PAIRED and any(rows is not None and rows <= 1 for rows in (left, right)):
        return None
    millis = sum(stage.total for stage in ran)
    share = millis / total if total else 0.0
    return Finding(
        candidate.execution,
        origin,
        candidate.join,
        candidate.verdict,
        (left, right, out),
        millis / 1000,
        share,
        stages,
        skew,
    )


@dataclass
class Stage:
    """All tasks of one stage that ended, over its attempts: a number each, in the order in which they ended."""

    millis: array[int] = field(default_factory=lambda: array("q"))
    records: array[int] = field(default_factory=lambda: array("q"))
    total: int = 0

    def add(self, millis: int, records: int) -> None:
        """Add a task."""
        self.total += millis
        self.millis.append(millis)
        self.records.append(records)


@dataclass(frozen=True)
class Skew:
    """The longest task of a stage, compared with the others.

    ``ratio``: its time ÷ the median of the others; ``records_ratio``: the same of the records that it read.
    """

    tasks: int
    longest: float
    median: float
    ratio: float
    records_ratio: float

    @property
    def is_hot_key(self) -> bool:
        """Whether one task took much longer than the others, because it had more records."""
        slow = self.ratio >= HOT_TIMES and self.longest - self.median >= HOT_SECONDS
        return slow and self.records_ratio >= HOT_RECORDS


def skew_of(stage: Stage) -> Skew | None:
    """The skew of a stage; None for fewer than two tasks."""
    if len(stage.millis) < 2:
        return None
    longest = max(range(len(stage.millis)), key=stage.millis.__getitem__)
    others = [*stage.millis[:longest], *stage.millis[longest + 1 :]]
    other_records = [*stage.records[:longest], *stage.records[longest + 1 :]]
    median = median_low(others)
    return Skew(
        len(stage.millis),
        stage.millis[longest] / 1000,
        median / 1000,
        stage.millis[longest] / max(median, 1),
        stage.records[longest] / max(median_low(other_records), 1),
    )
