"""Prints a plan as a Mermaid flowchart, which GitHub and GitLab draw in pages and pull requests."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Any

from planner.explain.explanation import Explanation
from planner.tree import Node

_WIDTH = 48
_LINES = 4
_UNSAFE = re.compile(r"[^\w\s.,:+*/()\[\]{}|'!?=∧≤≥×◁⋈…·-]", re.ASCII)


def to_mermaid(explanation: Explanation) -> str:
    """Print the plan that runs as a flowchart: inputs below, the result on top, rewritten operators in color."""
    lines = ["flowchart BT"]
    if explanation.after is None:
        return "\n".join([*lines, '  n0["Spark runs the statement as written"]'])
    lines += _lines(explanation.after, 0)
    if explanation.rewritten and explanation.before is not None:
        before = {_title(node) for node in explanation.before.walk()}
        changed = [f"n{n}" for n, node in enumerate(explanation.after.walk()) if _title(node) not in before]
        if changed:
            lines.append("  classDef changed fill:#dafbe1,stroke:#116329,color:#0b3d1a")
            lines.append(f"  class {','.join(changed)} changed")
    return "\n".join(lines)


def _lines(node: Node, number: int) -> Iterator[str]:
    """A node and everything below it, numbered as ``Node.walk`` yields them."""
    yield f'  n{number}["{_label(node)}"]'
    below = number + 1
    arrows = ["-->"] * len(node.children) + [f'-. "subquery {n + 1}" .->' for n in range(len(node.subplans))]
    for child, arrow in zip((*node.children, *node.subplans), arrows, strict=True):
        yield from _lines(child, below)
        yield f"  n{below} {arrow} n{number}"
        below += sum(1 for _ in child.walk())


def _title(node: Any) -> str:
    return f"{node.label}  {node.detail}".rstrip()


def _label(node: Any) -> str:
    """The operator in bold, its detail in at most a few lines."""
    lines = textwrap.wrap(node.detail, _WIDTH, max_lines=_LINES, placeholder=" …")
    return "<br/>".join([f"<b>{_escape(node.label)}</b>", *map(_escape, lines)])


def _escape(text: str) -> str:
    """Write what Mermaid or HTML could read as syntax as an entity of Mermaid's, ``#60;`` for ``<``.

    Mermaid looks for formulas between ``$$`` after it has replaced entities, so a word joiner separates the signs.
    """
    text = re.sub(r"\$(?=\$)", "$\N{WORD JOINER}", text)
    return _UNSAFE.sub(lambda found: f"#{ord(found.group())};", text)
