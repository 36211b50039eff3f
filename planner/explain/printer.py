"""The one printer: a node a line, properties beneath, rewrites as the lines that differ.  Nothing volatile."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any, Protocol

from planner.errors import Place
from planner.tree import Node

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


class Remark(Protocol):
    """Something to say about a place in the SQL."""

    @property
    def reason(self) -> str: ...
    @property
    def place(self) -> Place | None: ...


class ShownRefusal(Remark, Protocol):
    """A rule that held back, as far as the printer goes."""

    @property
    def rule(self) -> str: ...


def show_tree(plan: Node) -> str:
    """The plan as a tree of lines of about a hundred columns; no ids, no estimates."""
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


def _own(node: Any, width: int) -> list[str]:
    """The node's own lines: operator, two spaces, what distinguishes it; wrapped where it is long."""
    head = f"{node.label}  {node.detail}".rstrip()
    notes = list(getattr(node, "notes", ()))
    if len(head) <= width:
        return [head, *notes]
    first, *more = textwrap.wrap(head, max(40, width - 6), break_long_words=False, break_on_hyphens=False)
    return [first.replace(" ", "  ", 1), *(f"    {line}" for line in more), *notes]


def show_steps(steps: Iterable[ShownStep]) -> str:
    """Every rewriting: number, batch / rule, why, and the lines that differ."""
    said = []
    for number, step in enumerate(steps, 1):
        why = textwrap.wrap(step.rule.why, WIDTH - 3)
        said.append(f"{number}. {step.batch} / {step.rule.name}")
        said += [f"   {line}" for line in why]
        said += [f"   {line}" for line in _diff(show_tree(step.before), show_tree(step.after))]
    return "\n".join(said)


def show_refusals(refusals: Iterable[ShownRefusal]) -> str:
    """Every rule that held back: why, and where in the SQL."""
    return _remarks((f"{r.rule} held back", r) for r in refusals)


def show_error(error: Remark | None) -> str:
    """Why a statement cannot run."""
    return _remarks([("error", error)]) if error else ""


def show_warnings(warnings: Iterable[Remark]) -> str:
    """Every warning: what it is about, and where in the SQL."""
    return _remarks(("warning", w) for w in warnings)


def _remarks(remarks: Iterable[tuple[str, Remark]]) -> str:
    lines = []
    for head, r in remarks:
        where = (
            f" ({r.place})".replace(" ", "\N{NO-BREAK SPACE}").replace("\N{NO-BREAK SPACE}", " ", 1) if r.place else ""
        )
        said = f"-- {head}: {r.reason}{where}"
        wrapped = textwrap.wrap(said, WIDTH, subsequent_indent="--   ", break_long_words=False, break_on_hyphens=False)
        lines += [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrapped]
    return "\n".join(lines)


def _diff(before: str, after: str) -> list[str]:
    old, new = before.splitlines(), after.splitlines()
    lines: list[str] = []
    bare = [[line.lstrip("│├└─ ") for line in side] for side in (old, new)]  # what moved in or out is the same line
    for tag, a, b, c, d in SequenceMatcher(None, bare[0], bare[1], autojunk=False).get_opcodes():
        if tag != "equal":
            lines += [f"- {line}" for line in old[a:b]]
            lines += [f"+ {line}" for line in new[c:d]]
    return lines


def to_json(plan: Node) -> dict[str, Any]:
    """The plan as nested dicts for programs: operator, detail, notes, inputs, subqueries."""
    node: Any = plan
    said: dict[str, Any] = {"operator": node.label, "detail": node.detail}
    if notes := list(getattr(node, "notes", ())):
        said["notes"] = notes
    for key, below in (("inputs", plan.children), ("subqueries", plan.subplans)):
        if below:
            said[key] = [to_json(n) for n in below]
    return said


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Two columns of text."""
    width = max((len(a) for a, _ in rows), default=0)
    return "\n".join(f"{a:<{width}}  {b}".rstrip() for a, b in rows)
