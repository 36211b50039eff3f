"""Two plans side by side: the nodes of either tree, line by line, with those that differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

from dovetail.planner.tree import Node


@dataclass(frozen=True)
class TreeLine:
    """A node of a plan: its depth, operator, detail and notes; ``subquery``: its number if it is one, else 0."""

    depth: int
    label: str
    detail: str
    notes: tuple[str, ...] = ()
    subquery: int = 0
    changed: bool = False


def tree_lines(node: Any, depth: int = 0, subquery: int = 0) -> list[TreeLine]:
    """The nodes of a plan, parents first."""
    lines = [TreeLine(depth, node.label, node.detail, node.notes, subquery)]
    for child in node.children:
        lines += tree_lines(child, depth + 1)
    for number, plan in enumerate(node.subplans, 1):
        lines += tree_lines(plan, depth + 1, number)
    return lines


def compare_trees(before: Node, after: Node) -> tuple[list[TreeLine], list[TreeLine]]:
    """The lines of both plans; ``changed`` are those that the other plan does not have.  Depth does not count."""
    old, new = tree_lines(before), tree_lines(after)
    keys = [[(line.label, line.detail, line.notes) for line in lines] for lines in (old, new)]
    for tag, a, b, c, d in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        if tag != "equal":
            old[a:b] = [replace(line, changed=True) for line in old[a:b]]
            new[c:d] = [replace(line, changed=True) for line in new[c:d]]
    return old, new
