"""Approval of a case: formats the plan, compares it with the approved text, and writes it below the cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import NoReturn

from dovetail.golden_plans.case import CUT, Case, Header, read_case
from dovetail.golden_plans.planned import catalog_of, measured_plan, plan_case, stream_plan
from dovetail.optimizer.planning.plan import Plan
from dovetail.planner.errors import GoldenError, one_of
from dovetail.planner.explain.printer import show_declined, show_error, show_steps, show_tree, show_warnings
from dovetail.planner.logical import Logical
from dovetail.planner.offline_catalog.measured import Measured
from dovetail.planner.physical.base import Physical
from dovetail.planner.sql.lookup_views import lookups_of, needs_sql
from dovetail.planner.tree import Node
from dovetail.rules.batches import RULES

AS_WRITTEN = "Spark runs the statement as written"
NOTHING_RUNS = "an error: nothing runs"
_CONTEXT = 3


def format_approved(plan: Plan, measured: Iterable[Measured] = (), stream: str = "") -> str:
    """Format the text below the cut: the plan, the measurements for it, and the plan of a join of streams."""
    logical = show_tree(plan.logical) if plan.logical else "not carried"
    messages = (
        show_steps(plan.trace.steps),
        show_error(plan.error),
        show_declined(plan.declined),
        show_warnings(plan.warnings),
    )
    rewrites = "\n".join(m for m in messages if m)
    sections = {"logical": logical, "rewrites": rewrites or "no rule fired"}
    if found := "\n\n".join(map(str, measured)):
        sections |= {"measured": found, "choices": "\n".join(plan.choices)}
    sections["plan"] = format_final_plan(plan)
    if plan.rewritten and not plan.error:
        sections["sql"] = statements(plan)
    if stream:
        sections["stream"] = stream
    return "\n".join(f"== {title} ==\n{text}\n" for title, text in sections.items())


def statements(plan: Plan) -> str:
    """The SQL that Spark runs: the queries for the keys of lookups, then the statement."""
    key_queries = [
        f"-- {join.view} holds what {join.spec.table} has for\n{needs_sql(plan.physical, join)}\n"
        for join in lookups_of(plan.physical)
        if plan.physical
    ]
    return "\n".join([*key_queries, plan.sql()])


def format_final_plan(plan: Plan) -> str:
    """Format the plan that runs."""
    if plan.error:
        return NOTHING_RUNS
    return show_tree(plan.physical) if plan.rewritten and plan.physical else AS_WRITTEN


def approved_as_written(case: Case) -> bool:
    """Whether the approved plan is the original statement, or an error; does not plan the case."""
    return case.sections.get("plan") in (AS_WRITTEN, NOTHING_RUNS)


def check_claims(case: Case, plan: Plan) -> None:
    """Raise ``GoldenError`` for a claim that the plan breaks, or that is not well formed."""
    runs: Node | None = plan.physical if plan.rewritten else plan.logical
    used = tuple(dict.fromkeys([*(n.label for n in runs.walk()), *plan.rules])) if runs else ()
    errors = case.values("error")
    if plan.error and not errors:
        case.fail(f"it is an error: {plan.error}; if it is meant, write `-- error: …` with words of it")
    for header in case.headers:
        if header.key == "error":
            if not plan.error or header.value not in plan.error.reason:
                _broken(case, header, f"it says: {plan.error}" if plan.error else "it is no error", plan)
        elif header.key in ("must use", "must not use"):
            for name in _names(case, header):
                if (name in used) != (header.key == "must use"):
                    _broken(case, header, f"it uses {', '.join(used) or 'nothing: ' + AS_WRITTEN}", plan)
        elif header.key == "refused" and not any(header.value in d.reason for d in plan.declined):
            _broken(case, header, "no reason below holds these words" if plan.declined else "no rule declined", plan)
        elif header.key == "same plan as":
            _check_equal(case, header, plan)


def _names(case: Case, header: Header) -> list[str]:
    known = {*labels(Logical), *labels(Physical), *(r.name for r in RULES)}
    names = [n.strip() for n in header.value.split(",")]
    for name in names:
        if name not in known:
            case.fail(f"there is no operator or rule {name!r}; {one_of(known, name)}", header.line)
    return names


def labels(base: type[Node]) -> Iterator[str]:
    """The labels of the operators below a class of nodes."""
    for below in base.__subclasses__():
        yield from below.labels()
        yield from labels(below)


def _check_equal(case: Case, header: Header, plan: Plan) -> None:
    other = case.path.parent / f"{header.value.removesuffix('.plan')}.plan"
    if not other.is_file():
        names = [p.stem for p in case.path.parent.glob("*.plan") if p != case.path]
        case.fail(f"there is no case {header.value!r}; {one_of(names, header.value)}", header.line)
    if other.resolve() == case.path.resolve():
        case.fail("a case always has the same plan as itself", header.line)
    theirs = format_final_plan(plan_case(read_case(other)))
    if not plan.rewritten and theirs == AS_WRITTEN:
        case.fail(f"an equation that says nothing: {AS_WRITTEN}, here and there", header.line)
    if theirs != format_final_plan(plan):
        difference = "\n".join(_difference(f"== plan ==\n{theirs}", f"== plan ==\n{format_final_plan(plan)}"))
        _broken(case, header, f"the plans differ\n--- {other.stem}\n+++ {case.path.stem}\n{difference}\n", plan)


def _broken(case: Case, header: Header, why: str, plan: Plan) -> NoReturn:
    reasons = show_declined(plan.declined)
    message = f"the plan breaks a claim\n-- {header.key}: {header.value}\n{why}"
    case.fail(f"{message}\n{reasons}".rstrip(), header.line)


def check(case: Case, shown_path: str = "") -> None:
    """Raise ``GoldenError`` unless the claims hold and the plan is the approved one."""
    plan, measured = measured_plan(case)
    check_claims(case, plan)
    now = format_approved(plan, measured, stream_plan(case, catalog_of(case)))
    if now == case.approved:
        return
    head = "no plan is approved yet" if case.approved is None else "the plan has changed"
    lines = _difference(case.approved or "", now)
    mend = f"If this is what you meant:  pytest --update-plans {shown_path or case.path.name}"
    raise GoldenError("\n".join([f"{case.path.name}: {head}", "--- approved", "+++ now", *lines, "", mend]))


def update(case: Case) -> bool:
    """Write the plan below the cut, unless it breaks a claim; returns whether the file changed.

    Raises ``GoldenError`` for a broken claim, and leaves the file alone.
    """
    plan, measured = measured_plan(case)
    check_claims(case, plan)
    now = format_approved(plan, measured, stream_plan(case, catalog_of(case)))
    if now == case.approved:
        return False
    newline = "\r\n" if "\r\n" in case.above else "\n"
    above = case.above if case.above.endswith("\n") else case.above + newline
    if CUT not in above:
        above = above.rstrip() + newline + CUT + newline
    case.path.write_bytes((above + now.replace("\n", newline)).encode())
    return True


def _difference(old: str, new: str) -> list[str]:
    """A unified diff with the title of the section above each hunk, and no line numbers."""
    a, b = old.splitlines(), new.splitlines()
    lines = []
    for group in SequenceMatcher(None, a, b, autojunk=False).get_grouped_opcodes(_CONTEXT):
        start = group[0][3]
        titles = [n for n, line in enumerate(b[: start + 1]) if line.startswith("== ")]
        if titles and titles[-1] < start:
            lines += [f" {b[titles[-1]]}", *([" …"] if titles[-1] < start - 1 else [])]
        elif lines:
            lines.append(" …")
        for tag, i, j, k, m in group:
            if tag == "equal":
                lines += [f" {line}".rstrip() for line in a[i:j]]
            else:
                lines += [f"-{line}" for line in a[i:j]] + [f"+{line}" for line in b[k:m]]
    return lines
