"""Prints plans: one node per line with its properties below, and rewrites as diffs.  The output is deterministic."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Any, Protocol

from dovetail.planner.errors import Place, QueryError
from dovetail.planner.explain.records import Declined, PlanWarning
from dovetail.planner.tree import Node

WIDTH = 100


class ShownRule(Protocol):
    """A rule, as far as the printer goes."""

    @property
    def name(self) -> str: ...
    @property
    def why(self) -> str: ...


class ShownStep(Protocol):
    """A rewriting, as far as the printer goes."""

    @property
    def batch(self) -> str: ...
    @property
    def rule(self) -> ShownRule: ...
    @property
    def before(self) -> Node: ...
    @property
    def after(self) -> Node: ...


def show_tree(plan: Node) -> str:
    """Print the plan as a tree, about a hundred columns wide; no ids, no estimates."""
    return "\n".join(_lines(plan, "", ""))


def _lines(node: Node, first: str, rest: str) -> list[str]:
    below = [*((None, c) for c in node.children), *((n + 1, p) for n, p in enumerate(node.subplans))]
    bar = "│  " if below else "   "
    head, *more = _own(node, WIDTH - len(first))
    lines = [first + head, *(f"{rest}{bar}{line}" for line in more)]
    for index, (number, child) in enumerate(below):
        last = index == len(below) - 1
        tag = f"subquery {number}: " if number else ""
        lines += _lines(child, f"{rest}{'└─ ' if last else '├─ '}{tag}", f"{rest}{'   ' if last else '│  '}")
    return lines


def _own(node: Node, width: int) -> list[str]:
    """Return the node's own lines: operator, two spaces, properties; wrapped if long."""
    head = f"{node.label}  {node.detail}".rstrip()
    if len(head) <= width:
        return [head, *node.notes]
    first, *more = textwrap.wrap(head, max(40, width - 6), break_long_words=False, break_on_hyphens=False)
    return [first.replace(" ", "  ", 1), *(f"    {line}" for line in more), *node.notes]


def show_steps(steps: Iterable[ShownStep]) -> str:
    """Print every rewrite: number, batch / rule, reason, and diff."""
    lines = []
    for number, step in enumerate(steps, 1):
        why = textwrap.wrap(step.rule.why, WIDTH - 3)
        lines.append(f"{number}. {step.batch} / {step.rule.name}")
        lines += [f"   {line}" for line in why]
        lines += [f"   {line}" for line in diff(step.before, step.after)]
    return "\n".join(lines)


def show_declined(declined: Iterable[Declined]) -> str:
    """Print every rule that declined, with its reason and the place in the SQL."""
    return _format_comments((f"{d.rule} declined", d.reason, d.place) for d in declined)


def show_error(error: QueryError | None) -> str:
    """The reason why a statement cannot run, with the place in the SQL."""
    return _format_comments([("error", error.reason, error.place)]) if error else ""


def show_warnings(warnings: Iterable[PlanWarning]) -> str:
    """Every warning, with the place in the SQL."""
    return _format_comments(("warning", w.reason, w.place) for w in warnings)


def show_note(text: str) -> str:
    """A sentence about the whole plan."""
    return f"-- {text}"


def _format_comments(comments: Iterable[tuple[str, str, Place | None]]) -> str:
    lines = []
    for head, reason, place in comments:
        where = f" ({place})".replace(" ", "\N{NO-BREAK SPACE}").replace("\N{NO-BREAK SPACE}", " ", 1) if place else ""
        text = f"-- {head}: {reason}{where}"
        wrapped = textwrap.wrap(text, WIDTH, subsequent_indent="--   ", break_long_words=False, break_on_hyphens=False)
        lines += [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrapped]
    return "\n".join(lines)


def diff(before: Node, after: Node) -> list[str]:
    """The lines of both trees that differ, after ``-`` and ``+``."""
    old, new = show_tree(before).splitlines(), show_tree(after).splitlines()
    lines: list[str] = []
    bare = [[line.lstrip("│├└─ ") for line in side] for side in (old, new)]  # what moved in or out is the same line
    for tag, a, b, c, d in SequenceMatcher(None, bare[0], bare[1], autojunk=False).get_opcodes():
        if tag != "equal":
            lines += [f"- {line}" for line in old[a:b]]
            lines += [f"+ {line}" for line in new[c:d]]
    return lines


def to_json(plan: Node) -> dict[str, Any]:
    """Convert the plan to nested dicts: operator, detail, notes, inputs, subqueries."""
    lines: dict[str, Any] = {"operator": plan.label, "detail": plan.detail}
    if plan.notes:
        lines["notes"] = list(plan.notes)
    for key, below in (("inputs", plan.children), ("subqueries", plan.subplans)):
        if below:
            lines[key] = [to_json(n) for n in below]
    return lines
