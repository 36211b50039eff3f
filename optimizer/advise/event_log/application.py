"""Reads the events of one application: plans, accumulators and tasks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from dovetail.optimizer.advise.event_log.findings import (
    MOST_ACCUMULATORS,
    Candidate,
    Finding,
    Measured,
    Origin,
    candidates,
    finding,
)
from dovetail.optimizer.advise.event_log.named_runs import NamedRun, StatementName
from dovetail.optimizer.advise.event_log.plan_nodes import read_plan, whole
from dovetail.planner.errors import DovetailError

_STATEMENT = re.compile(
    r"(?is)(\s|/\*.*?\*/|--[^\n]*\n|\()*(SELECT|WITH|FROM|INSERT|CREATE|MERGE|UPDATE|DELETE|TABLE)\s"
)
_STAGE = re.compile(rb'"Stage ID"\s*:\s*"?(\d+)')
_EXECUTION = re.compile(rb'"executionId"\s*:\s*"?(\d+)')
_MILLIS = re.compile(rb'"Executor Run Time"\s*:\s*"?(\d+)')
_SHUFFLED = re.compile(rb'"Total Records Read"\s*:\s*"?(\d+)')
_READ = re.compile(rb'"Records Read"\s*:\s*"?(\d+)')
_OF_JOB = re.compile(rb'"spark\.sql\.execution\.id"\s*:\s*"(\d+)"')
_CALL_SITE = re.compile(rb'"callSite\.short"\s*:\s*("(?:[^"\\]|\\.){1,1000}")')
_UNKNOWN_SITE = re.compile(r"NativeMethodAccessorImpl|<unknown>:0|^$")


_WRONG = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""Errors of an event with a value of an unexpected type, or with too many levels of nesting."""


class NotAnEvent(DovetailError):
    """A line that is no event, or that lacks a value of its event."""


@dataclass
class _Execution:
    start: bytes = b""
    plan: bytes = b""
    site: str = ""


@dataclass
class Application:
    """An application as far as its log has been read."""

    id: str = ""
    name: str = ""
    spark: str = ""
    ended: bool = False
    measured: Measured = field(default_factory=Measured)
    total: int = 0
    _open: dict[int, _Execution] = field(default_factory=dict)
    _running: dict[int, bytes] = field(default_factory=dict)
    _candidates: dict[object, Candidate] = field(default_factory=dict)
    runs: list[NamedRun] = field(default_factory=list)
    _origins: dict[int, Origin] = field(default_factory=dict)
    _most: int = MOST_ACCUMULATORS

    def read(self, name: bytes, line: bytes) -> None:
        """Read an event.  Raises ``NotAnEvent``."""
        read = _READERS.get(name)
        if read is None:
            return
        try:
            read(self, line)
        except _WRONG as error:
            raise NotAnEvent from error

    def findings(self) -> list[Finding]:
        """The findings, those with the most task time first; executions that have not ended count as well."""
        for number in list(self._open):
            with suppress(NotAnEvent, *_WRONG):
                self._resolve(number)
        while self._running:
            self._read_running(next(iter(self._running)))
        found = [
            finding(candidate, self.measured, self.total, self._origins.get(candidate.execution, Origin()))
            for candidate in self._candidates.values()
        ]
        return sorted((f for f in found if f), key=lambda f: (-f.seconds, f.execution))

    def _log_start(self, line: bytes) -> None:
        self.spark = str(_event(line).get("Spark Version", ""))

    def _application_start(self, line: bytes) -> None:
        event = _event(line)
        self.id, self.name = str(event.get("App ID") or ""), str(event.get("App Name") or "")

    def _application_end(self, line: bytes) -> None:
        self.ended = True

    def _job_start(self, line: bytes) -> None:
        """Note the call site of a job of an execution; PySpark sets it for collect, toPandas and foreach."""
        job, site = _OF_JOB.search(line), _CALL_SITE.search(line)
        execution = self._open.get(int(job[1])) if job else None
        if execution and site:
            execution.site = execution.site or str(json.loads(site[1]))

    def _task_end(self, line: bytes) -> None:
        stage = int(_first(_STAGE, line))
        millis, shuffled, read = (pattern.search(line) for pattern in (_MILLIS, _SHUFFLED, _READ))
        if not line.rstrip().endswith(b"}"):
            raise NotAnEvent
        if millis is None:  # a task that failed has no metrics
            _event(line)
            return
        records = int(shuffled[1]) if shuffled else 0
        records = records or (int(read[1]) if read else 0)
        self.total += int(millis[1])
        self.measured.add_task(stage, int(millis[1]), records)
        self._running[stage] = line

    def _read_running(self, stage: int) -> None:
        """Note the accumulators of a stage that has not completed: its last task has their sums so far."""
        with suppress(NotAnEvent, *_WRONG):
            self._accumulables(_object(_object(json.loads(self._running.pop(stage)))["Task Info"]), stage)

    def _stage_completed(self, line: bytes) -> None:
        info = _object(_event(line)["Stage Info"])
        self._accumulables(info, info["Stage ID"])
        self._running.pop(int(info["Stage ID"]), None)

    def _accumulables(self, info: dict[str, Any], stage: Any) -> None:
        """Note the values of the accumulators of SQL, which grow, and the stage that has updated them."""
        for one in info.get("Accumulables") or ():
            if one.get("Metadata") != "sql":
                continue
            number, value = whole(one.get("ID")), whole(one.get("Value"))
            if number is not None and value is not None:
                self.measured.note(number, value, int(stage))
        self._forget()

    def _driver_values(self, line: bytes) -> None:
        for update in _event(line)["accumUpdates"]:
            number, value = whole(update[0]), whole(update[1])
            if number is not None and value is not None:
                self.measured.note(number, value)
        self._forget()

    def _forget(self) -> None:
        """Forget accumulators if there are too many; those of candidates are needed."""
        if len(self.measured.values) > self._most:
            needed = set().union(*(candidate.accumulators for candidate in self._candidates.values()))
            self.measured.forget(needed)
            self._most = MOST_ACCUMULATORS + len(needed)

    def _keep(self, line: bytes, part: Literal["start", "plan"]) -> None:
        """Keep the line of a plan until its execution ends: only the last plan counts."""
        if not line.rstrip().endswith(b"}"):
            raise NotAnEvent
        number = int(_first(_EXECUTION, line))
        setattr(self._open.setdefault(number, _Execution()), part, line)

    def _execution_end(self, line: bytes) -> None:
        event = _event(line)  # an execution that ended well has an empty message
        self._resolve(int(_first(_EXECUTION, line)), whole(event.get("time")), failed=bool(event.get("errorMessage")))

    def _resolve(self, number: int, end: int | None = None, *, failed: bool = False) -> None:
        """Read the joins of the last plan of an execution, and the name of its statement; forget the plan."""
        execution = self._open.pop(number, None)
        if execution is None:
            return
        start = _object(json.loads(execution.start)) if execution.start else {}
        last = _object(json.loads(execution.plan)) if execution.plan else start
        description = str(start.get("description") or "")
        name = StatementName.read(description, start.get("jobTags") or ())
        if name:
            description = name.own
            begin, root = whole(start.get("time")), start.get("rootExecutionId")
            if begin is not None and end is not None and root in (None, number):  # others are parts of one
                self.runs.append(NamedRun(name, (end - begin) / 1000, failed))
        plan = read_plan(last.get("sparkPlanInfo"))
        for candidate in candidates(plan, number) if plan else ():
            # a cached plan, or the plan of a command, is logged with each execution that shows it
            self._candidates.setdefault(candidate.own or object(), candidate)
            self._origins[number] = _origin(description, execution.site)


def _origin(description: str, site: str) -> Origin:
    """Where an execution comes from: Spark describes it by its SQL, by the user's description, or by its call site."""
    is_sql, is_site = _STATEMENT.match(description), re.search(r" at \S+:\d+$", description)
    call_site = description if is_site and not site else site
    return Origin(
        description if is_sql else None,
        "" if _UNKNOWN_SITE.search(call_site) else call_site,
        "" if is_sql or is_site else description,
    )


def _event(line: bytes) -> dict[str, Any]:
    return _object(json.loads(line))


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise NotAnEvent
    return value


def _first(pattern: re.Pattern[bytes], line: bytes) -> bytes:
    found = pattern.search(line, 0, 400)
    if found is None:
        raise NotAnEvent
    return found[1]


_READERS: dict[bytes, Callable[[Application, bytes], None]] = {
    b"SparkListenerLogStart": Application._log_start,
    b"SparkListenerApplicationStart": Application._application_start,
    b"SparkListenerApplicationEnd": Application._application_end,
    b"SparkListenerJobStart": Application._job_start,
    b"SparkListenerTaskEnd": Application._task_end,
    b"SparkListenerStageCompleted": Application._stage_completed,
    b"SparkListenerDriverAccumUpdates": Application._driver_values,
    b"SparkListenerSQLExecutionStart": lambda log, line: log._keep(line, "start"),
    b"SparkListenerSQLAdaptiveExecutionUpdate": lambda log, line: log._keep(line, "plan"),
    b"SparkListenerSQLExecutionEnd": Application._execution_end,
}
