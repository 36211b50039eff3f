"""Many small queries, planned one by one and run together: as written in one statement, as rewritten in another."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from dovetail import Optimizer, Plan
from dovetail.planner.expr.functions import ROW_FUNCTIONS
from rule_places import VIEW, Place, query
from spark_calls import REFUSED, Call, make_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOGETHER = 8


@dataclass(frozen=True)
class Piece:
    """A query that was rewritten."""

    place: Place
    call: Call
    setting: str
    text: str
    plan: Plan


@dataclass(frozen=True)
class Failure:
    """What must not be: ``kind`` is raises, rows, lost, fault or repeated."""

    kind: str
    setting: str
    place: str
    functions: tuple[str, ...]
    text: str
    rewriting: str
    reason: str

    def __str__(self) -> str:
        return "\n".join(
            [
                f"[{self.kind}] {self.setting} · {self.place} · {', '.join(self.functions)}",
                self.text,
                self.rewriting,
                self.reason,
            ]
        )


@dataclass
class Tally:
    """What has been looked at."""

    functions: set[str] = field(default_factory=set)
    rewritten_functions: set[str] = field(default_factory=set)
    places: Counter[str] = field(default_factory=Counter)
    settings: Counter[str] = field(default_factory=Counter)
    planned: int = 0
    rewritten: int = 0
    declined: int = 0
    compared: int = 0
    empty: int = 0
    raised: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = Counter(f.kind for f in self.failures)
        return (
            f"functions {len(self.functions)} ({len(self.rewritten_functions)} in something rewritten), "
            f"places {len(self.places)}, settings {len(self.settings)}, planned {self.planned}, "
            f"rewritten {self.rewritten}, declined {self.declined}, compared {self.compared} "
            f"({self.empty} without rows), plain Spark raises {self.raised}, "
            f"failures {len(self.failures)} {dict(kinds)}"
        )


def planned(
    session: SparkSession, optimizer: Optimizer, setting: str, cases: Iterable[tuple[Place, Call]], tally: Tally
) -> list[Piece]:
    """Plan each case; those that are rewritten."""
    found = []
    made: set[str] = set()
    for place, call in cases:
        text = query(place, call)
        if text is None:
            continue
        if call.name not in made:
            made.add(call.name)
            for table in make_tables(session, call.name, [call]):
                optimizer.declare_key(table, ["id"])
        if VIEW in text:
            body = f"SELECT id, g, k, {call.over('')} AS v FROM t_{call.name}"
            session.sql(f"CREATE OR REPLACE TEMP VIEW {VIEW}_{call.name} AS {body}")
        tally.planned += 1
        tally.functions.update(call.functions)
        tally.settings[setting] += 1

        def fail(kind: str, rewriting: str, reason: str, text: str = text) -> None:
            tally.failures.append(Failure(kind, setting, place.name, call.functions, text, rewriting, reason))  # noqa: B023

        try:
            plan = optimizer.plan(text)
        except Exception as error:  # noqa: BLE001  whatever it is, it would have cost the query its rewriting
            fail("fault", "", f"{type(error).__name__}: {error}"[-600:])
            continue
        if not plan.rewritten:
            tally.declined += 1
            for d in plan.declined:
                if d.rule == "schema check":
                    fail("lost", "", d.reason[:600])
                tally.reasons[f"{d.rule}: {d.reason}"[:120]] += 1
            continue
        tally.rewritten += 1
        tally.rewritten_functions.update(call.functions)
        tally.places[place.name] += 1
        if not call.deterministic:
            if repeated(call, text, plan):
                fail("repeated", plan.sql(), "")
            continue
        found.append(Piece(place, call, setting, text, plan))
    return found


def repeated(call: Call, text: str, plan: Plan) -> bool:
    """Whether a rewriting writes a call more often than the user did; a query reads the clock once anyway."""
    name = call.functions[0] + "("
    of_a_query = call.functions[0].upper() in ROW_FUNCTIONS
    return not of_a_query and plan.sql().lower().count(name) > text.lower().count(name)


def compare(session: SparkSession, pieces: list[Piece], tally: Tally) -> None:
    """Run all of them as written and as rewritten; what differs is a failure."""
    some = [piece for piece in pieces if not piece.call.guarded]
    for start in range(0, len(some), _TOGETHER):
        _compare(session, some[start : start + _TOGETHER], tally)
    for piece in pieces:
        if piece.call.guarded:  # these may raise
            _compare(session, [piece], tally)


def _compare(session: SparkSession, some: list[Piece], tally: Tally) -> None:
    frames = [session.sql(p.text) for p in some], [p.plan.dataframe() for p in some]
    before, after = (_rows(each) for each in frames)
    if isinstance(before, str) or isinstance(after, str):
        if len(some) > 1:
            middle = len(some) // 2
            _compare(session, some[:middle], tally)
            _compare(session, some[middle:], tally)
            return
        if isinstance(before, str):
            tally.raised += 1
            return
    for n, piece in enumerate(some):
        tally.compared += 1
        tally.empty += not before[n]
        found = after if isinstance(after, str) else after[n]
        if found != before[n]:
            kind = "raises" if isinstance(found, str) else "rows"
            reason = f"plain {said(before[n])}\nfound {said(found)}"
            names = piece.call.functions
            tally.failures.append(
                Failure(kind, piece.setting, piece.place.name, names, piece.text, piece.plan.sql(), reason)
            )


def said(rows: Counter[str] | str) -> str:
    """Rows, or what Spark says, for a report."""
    return rows[:300] if isinstance(rows, str) else str(sorted(rows.items(), key=str))[:300]


def rows_of(run: Callable[[], DataFrame]) -> Counter[str] | str:
    """The rows of a query as text, or what Spark says against it."""
    try:
        return Counter(row for (row,) in run().selectExpr("CAST(struct(*) AS STRING)").collect())
    except REFUSED as error:
        return str(error).strip().splitlines()[0]


def _rows(frames: list[DataFrame]) -> dict[int, Counter[str]] | str:
    """The rows of each frame as text, all of them computed at once; or what Spark says against one of them."""
    from pyspark.sql import functions

    found: dict[int, Counter[str]] = defaultdict(Counter)
    try:
        said = [f.select(functions.lit(n), functions.struct("*").cast("string")) for n, f in enumerate(frames)]
        for n, row in _together(said).collect():
            found[n][row] += 1
    except REFUSED as error:
        return str(error).strip().splitlines()[0]
    return found


def _together(frames: list[DataFrame]) -> DataFrame:
    """UNION ALL of frames with one schema, analyzed once for all."""
    session = frames[0].sparkSession
    jvm: Any = session._jvm
    plans = jvm.PythonUtils.toSeq([f._jdf.queryExecution().analyzed() for f in frames])
    union = jvm.org.apache.spark.sql.catalyst.plans.logical.Union(plans, False, False)
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, union), session)
