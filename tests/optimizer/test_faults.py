"""Whatever fails in Dovetail, Spark gets the text as written: a fault is put at every seam, one after the other."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
import threading
from collections.abc import Iterator
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from comparing import assert_same
from dovetail import Optimizer, Options, QueryError, optimizer
from dovetail.executor import catalog, lookup
from dovetail.executor import session as session_room
from dovetail.executor.connectors.memory import MemorySource
from dovetail.optimizer.session.planner import SessionPlanner
from dovetail.optimizer.statements.outcomes import Statements
from dovetail.planner.errors import RuleError, Unsupported, is_user_error
from dovetail.rules.batches import RULES

if TYPE_CHECKING:
    from types import FrameType

    from pyspark.sql import SparkSession

BAND = "SELECT /*+ RANGE_JOIN(i, 4) */ p.id, i.w FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi"
QUERIES = (
    BAND,
    "SELECT x.v, y.x FROM p x JOIN p y ON x.id = y.id",
    "SELECT k.id, s.w FROM shown s JOIN p k ON s.id = k.id AND k.v > ?;",
    "SELECT a FROM (SELECT id AS a FROM p WHERE EXISTS (SELECT 1 FROM i WHERE p.x BETWEEN i.lo AND i.hi)",  # no SQL
)
ERRORS: tuple[Exception, ...] = (
    RuntimeError("put here"),
    TypeError("'SparkSession' object is not callable"),
    AssertionError(),
    RecursionError("too deep"),
    Py4JError("gone"),
    Unsupported("put here"),
    RuleError("put here"),
    KeyError("x"),
)
# What stands behind the last door, and the mending itself.
NOT_OURS = {"run", "_log_warnings", "summarize", "is_user_error", "has_possible_lookup", "classic"}
# The public methods, and those of the planner in which faults are caught.
BOUNDARY = {vars(SessionPlanner)[name] for name in ("plan", "plan_to_run", "_guard")} | {vars(Statements)["decide"]}


class Seam(NamedTuple):
    """Something that planning calls: ``owner.name``."""

    owner: Any
    name: str

    def __str__(self) -> str:
        return f"{getattr(self.owner, '__name__', type(self.owner).__name__)}.{self.name}"


def seams() -> Iterator[Seam]:
    """Every function that a module of the optimizer or of the runtime has or imports, every method, every rule."""
    modules = [
        importlib.import_module(found.name)
        for package in (optimizer, catalog, session_room, lookup)
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        if found.name.rpartition(".")[2] not in ("cli", "commands", "demo", "doctor", "session", "stream")
    ]
    seen: set[tuple[int, str]] = set()
    for module in modules:
        for name, value in vars(module).items():
            ours = getattr(value, "__module__", "").split(".")[0] == "dovetail"
            if name in NOT_OURS or not ours:
                continue
            if inspect.isfunction(value):
                yield Seam(module, name)
            elif inspect.isclass(value) and value.__module__ == module.__name__ and not issubclass(value, Exception):
                for method, function in vars(value).items():
                    own = inspect.isfunction(function) and not method.startswith("__")
                    if own and value is not Optimizer and function not in BOUNDARY and (id(value), method) not in seen:
                        seen.add((id(value), method))
                        yield Seam(value, method)
    yield from (Seam(rule, "function") for rule in RULES)


class Fault:
    """A seam that raises, and how often it was reached."""

    def __init__(self, seam: Seam, error: Exception):
        self.seam, self.error, self.reached = seam, error, 0

    def __enter__(self) -> Fault:
        self.before = inspect.getattr_static(self.seam.owner, self.seam.name)
        self._set(self._raise)
        return self

    def __exit__(self, *_: object) -> None:
        self._set(self.before)

    def _set(self, value: object) -> None:
        if isinstance(self.seam.owner, type) or inspect.ismodule(self.seam.owner):
            setattr(self.seam.owner, self.seam.name, value)
        else:
            object.__setattr__(self.seam.owner, self.seam.name, value)  # a rule is frozen

    def _raise(self, *_: object, **__: object) -> Any:
        self.reached += 1
        raise self.error


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    own.sql("SELECT id, id % 50 AS x, id % 7 AS v FROM range(60)").createOrReplaceTempView("p")
    own.sql("SELECT id AS w, id * 3 AS lo, id * 3 + 4 AS hi FROM range(20)").createOrReplaceTempView("i")
    own.sql(f"CREATE TEMP VIEW shown AS {BAND}")
    return own


def made(session: SparkSession, *, strict: bool = False) -> Optimizer:
    opt = Optimizer(session, Options(nested_loop_pairs=0, broadcast_pairs=0, window_share=1.0, strict=strict))
    opt.declare_key("p", ["id"])
    return opt


def args_of(text: str) -> list[Any] | None:
    return [2] if "?" in text else None


def called_by(opt: Optimizer, text: str) -> set[Any]:
    """The code of all functions that planning a statement calls, in whatever thread."""
    found: set[Any] = set()

    def note(frame: FrameType, *_: object) -> None:
        found.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        opt.plan(text, args_of(text))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def test_a_fault_anywhere_costs_nobody_a_query(session: SparkSession) -> None:
    opt = made(session)
    calls = [(text, called_by(opt, text)) for text in (*QUERIES, *QUERIES)]
    assert [opt.plan(text, args_of(text)).rewritten for text in QUERIES] == [True, True, True, False]
    kinds, reached = cycle(ERRORS), set()
    for seam in seams():
        code = inspect.getattr_static(seam.owner, seam.name).__code__
        text = next((text for text, called in calls if code in called), None)
        if text is None:
            continue
        opt = made(session)
        with Fault(seam, next(kinds)) as fault:
            plan = opt.plan(text, args_of(text))
            if not fault.reached:  # what is asked only when a statement comes again
                plan = opt.plan(text, args_of(text))
        if fault.reached:
            reached.add(seam)
        if not plan.rewritten:
            assert plan.sql() == text, seam
            assert plan.declined or plan.rejection, seam
        elif text == BAND:
            assert_same(session, text, plan)
    assert len(reached) > 60, reached


def test_the_rows_are_those_of_spark(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.optimizer.session.planner.plan_sql", _broken)
    opt = made(session)
    plan = opt.plan(BAND)
    assert [d.rule for d in plan.declined] == ["planning"]
    assert plan.declined[0].reason == "planning failed, so the statement runs as written: RuntimeError: broken"
    assert "RuntimeError: broken" in plan.explain("trace")
    assert plan.warnings == ()
    assert_same(session, BAND, plan)
    assert sorted(opt.sql(QUERIES[2], [2]).collect()) == sorted(session.sql(QUERIES[2], args=[2]).collect())
    assert opt.verify(BAND).same


def test_an_error_after_the_time_limit_is_no_fault(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark Connect raises an error of its own for a call that is canceled at the limit."""
    monkeypatch.setattr("dovetail.optimizer.session.planner.plan_sql", _broken)
    plan = Optimizer(session, Options(planning_seconds=1e-9)).plan(BAND)
    assert [d.rule for d in plan.declined] == ["planning time"]


def test_strict_raises(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.optimizer.session.planner.plan_sql", _broken)
    with pytest.raises(RuntimeError, match="broken"):
        made(session, strict=True).plan(BAND)


def test_a_lookup_has_nothing_to_fall_back_on(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    opt = made(session)
    opt.register_lookup("names", MemorySource(pa.table({"k": [1, 2], "name": ["a", "b"]})))
    monkeypatch.setattr("dovetail.optimizer.session.planner.plan_sql", _broken)
    text = "SELECT p.id, n.name FROM p LEFT JOIN names FOR SYSTEM_TIME AS OF PROCTIME() AS n ON p.x = n.k"
    with pytest.raises(QueryError, match="has a lookup, and its planning failed: RuntimeError: broken"):
        opt.plan(text)


def test_whose_error_it_is() -> None:
    assert is_user_error(QueryError("no"))
    assert not any(map(is_user_error, ERRORS))


def _broken(*_: object, **__: object) -> Any:
    raise RuntimeError("broken")
