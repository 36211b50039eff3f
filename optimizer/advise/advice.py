"""Plans each statement of a workload, without running it, and reports what is rewritten, what is declined, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter

from dovetail.optimizer.advise.planners import WorkloadPlanner, created_name
from dovetail.optimizer.advise.remedies import has_or, loop_remedy, remedy_of
from dovetail.optimizer.advise.report import DeclinedFinding, LoopFinding, Report, StatementAdvice, Status
from dovetail.optimizer.advise.workload import WorkloadStatement
from dovetail.optimizer.failures import describe_failure
from dovetail.optimizer.planning.plan import Plan
from dovetail.planner.errors import QueryError, Unsupported
from dovetail.planner.explain.records import Choice, Declined
from dovetail.planner.expr.tokens import tokenize

_COMMANDS = frozenset(
    "ADD ALTER ANALYZE BEGIN CACHE CALL CLEAR COMMENT CREATE DECLARE DELETE DESC DESCRIBE DROP EXECUTE EXPLAIN GRANT "
    "INSERT LIST LOAD MERGE MSCK OPTIMIZE REFRESH REPAIR RESET REVOKE SET SHOW TRUNCATE UNCACHE UNSET UPDATE USE "
    "VACUUM".split()
)
"""How statements begin that have no query, or whose query Dovetail does not read."""
_CHANGES = frozenset(("BEGIN", "DELETE", "MERGE", "UPDATE"))
"""How statements begin that Spark runs with joins of their own, which Dovetail does not read."""
_VARIABLE = re.compile(r"\$\{(?:(?:hiveconf|hivevar|sparkconf|spark):)?([^{}]+)\}")
_SET = re.compile(r"(?is)\s*SET\s+(?:(?:hiveconf|hivevar):)?([\w.]+)\s*=\s*(.*?)\s*;?\s*")
_JINJA = re.compile(r"\{\{|\{%|\{#")
_STRINGS = re.compile(r"""(?s)'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/""")


def advise(
    statements: Sequence[WorkloadStatement],
    planner: WorkloadPlanner,
    *,
    verify: bool = False,
    variables: Mapping[str, str] | None = None,
) -> Report:
    """Plan the statements in their order; ``verify`` runs the rewritten ones both ways.

    ``variables``: the values of ``${name}``; a SET among the statements adds to them.
    An exception concerns one statement; the others are planned.
    """
    start = perf_counter()
    found: list[StatementAdvice] = []
    values = dict(variables or {})
    for statement in statements:
        try:
            found.append(_advise(_prepared(statement, values), planner, verify=verify))
        except QueryError as error:
            found.append(_problem(statement, error.reason, error))
        except Exception as error:  # noqa: BLE001 - it concerns one statement of many
            found.append(_problem(statement, describe_failure(error)[0]))
    return Report.of(found, planner.description, perf_counter() - start)


def _prepared(statement: WorkloadStatement, values: dict[str, str]) -> WorkloadStatement:
    """The statement as Spark parses it; a SET adds to the values of variables.  Raises ``QueryError``."""
    if statement.problem:
        raise QueryError(statement.problem)
    check_template(statement.text)
    values |= [found] if (found := assignment(statement.text)) else []
    return replace(statement, text=substitute_variables(statement.text, values))


def _problem(statement: WorkloadStatement, reason: str, error: QueryError | None = None) -> StatementAdvice:
    place = statement.place(error.place if error else None)
    text = " ".join(reason.split())
    return StatementAdvice(statement.file, place, "problem", problem=text, text=statement.text, start=statement.start)


def _advise(statement: WorkloadStatement, planner: WorkloadPlanner, *, verify: bool) -> StatementAdvice:
    plan = planner.plan(statement.text)
    if plan.logical is None:
        return _unread(statement, plan.declined[0])
    if name := statement.creates or created_name(plan):
        planner.add_relation(name, plan)
    loops = _loops(statement, planner, plan)
    declined = _declined(statement, plan, loops)
    reasons = {d.place: d for d in declined if d.remedy}
    loops = tuple(_with_reason(loop, reasons.get(loop.place)) for loop in loops)
    status: Status = "nested loop" if loops else "declined" if declined else "unchanged"
    advice = StatementAdvice(
        statement.file,
        statement.start,
        status,
        loops=loops,
        declined=declined,
        text=statement.text,
        start=statement.start,
        rewriting=plan.rewriting or "",
    )
    if not plan.rewritten:
        return advice
    choices = tuple(decision for decision in plan.decisions if isinstance(decision, Choice))
    advice = replace(advice, status="rewritten", rules=plan.rules, choices=choices)
    if not verify:
        return advice
    try:
        found = planner.verify(statement.text)
    except Exception as error:  # noqa: BLE001 - it concerns one statement of many
        return replace(advice, verified=f"not verified: {describe_failure(error)[0]}")
    return replace(advice, verified=str(found), same=found.same, runs=found.runs)


def _unread(statement: WorkloadStatement, reason: Declined) -> StatementAdvice:
    """The advice on a statement without a plan: a command, one that a switch excludes, or one that cannot be read."""
    if (word := _first_word(statement.text)) in _CHANGES:
        return replace(_problem(statement, reason.reason), status="not read")
    if word in _COMMANDS:
        return StatementAdvice(statement.file, statement.start, "not a query", text=statement.text)
    if reason.rule == "switch":
        off = DeclinedFinding(statement.place(reason.place), reason.rule, reason.code, reason.reason, "")
        return replace(_problem(statement, ""), status="declined", declined=(off,))
    return _problem(statement, f"The statement cannot be read: {reason.reason}", QueryError("", reason.place))


def _declined(statement: WorkloadStatement, plan: Plan, loops: tuple[LoopFinding, ...]) -> tuple[DeclinedFinding, ...]:
    """The reasons of the rules, with remedies; that a join has equalities is no advice."""
    is_or = any(has_or(loop.condition) for loop in loops if not loop.removed)  # another bound would not help
    codes = [(d, "" if is_or and d.code == "one_sided" else remedy_of(d.code)) for d in plan.declined]
    return tuple(
        DeclinedFinding(statement.place(d.place), d.rule, d.code, d.reason, remedy)
        for d, remedy in codes
        if d.code != "equality_join"
    )


def _loops(statement: WorkloadStatement, planner: WorkloadPlanner, plan: Plan) -> tuple[LoopFinding, ...]:
    """The nested loops as written; one is removed if the rewriting has none with its condition."""
    written = planner.nested_loops(plan)
    remaining = planner.remaining_loops(plan, written) if written else ()
    left = Counter((loop.kind, loop.condition) for loop in remaining)
    found = []
    for loop in written:
        remains = left[loop.kind, loop.condition] > 0
        left[loop.kind, loop.condition] -= remains
        remedy = loop_remedy(loop) if remains else ""
        place = statement.place(loop.place)
        found.append(
            LoopFinding(place, loop.kind, loop.left, loop.right, loop.condition, loop.pairs, not remains, remedy)
        )
    return tuple(found)


def _with_reason(loop: LoopFinding, declined: DeclinedFinding | None) -> LoopFinding:
    """The finding with the remedy of the reason at its place, if a rule declined there."""
    if loop.removed or declined is None:
        return loop
    return replace(loop, remedy=declined.remedy)


def _first_word(text: str) -> str:
    try:
        return tokenize(text).word(0)
    except Unsupported:
        return ""


def assignment(text: str) -> tuple[str, str] | None:
    """The name and value of a ``SET name = value``; None for any other statement."""
    found = _SET.fullmatch(text)
    return (found[1], found[2]) if found else None


def substitute_variables(text: str, values: Mapping[str, str]) -> str:
    """A statement with values in the place of ``${name}``, as Spark replaces them.  Raises ``QueryError``."""

    def value(found: re.Match[str]) -> str:
        if found[1] in values:
            return values[found[1]]
        raise QueryError(
            f"{found[0]} has no value. Spark replaces it before it parses the statement; give a value with "
            f"--conf {found[1]}=VALUE, or with SET {found[1]} = VALUE in a statement before this one."
        )

    return _VARIABLE.sub(value, text)


def check_template(text: str) -> None:
    """Raise ``QueryError`` for a text with Jinja outside its strings and comments."""
    if found := _JINJA.search(_STRINGS.sub("", text)):
        raise QueryError(
            f"The statement is a Jinja template: it has {found[0]}. Run `dbt compile` and name the dbt project, or the "
            "folder target/compiled."
        )
