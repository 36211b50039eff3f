"""The base of logical nodes, and what their lines share."""

from __future__ import annotations

from typing import ClassVar

from planner.expr import Scalar, show_all
from planner.tree import Node


class Logical(Node):
    """The base of logical nodes."""

    label: ClassVar[str] = ""

    @property
    def detail(self) -> str:
        """What distinguishes this node from others of its kind, as one line."""
        return ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Further lines for a reader; nothing volatile."""
        return ()

    @property
    def output(self) -> tuple[str, ...]:
        """What comes out: item texts above a Project, ``name.*`` below."""
        return tuple(name for child in self.children for name in child.output)  # type: ignore[attr-defined]


def after(clause: Scalar, keyword: str) -> str:
    """A clause without its keyword, or with another one in small letters."""
    said = clause.shown
    if said.upper().startswith(keyword):
        return said[len(keyword) :].strip()
    word = next((w for w in ("SORT BY", "CLUSTER BY", "DISTRIBUTE BY", "OFFSET") if said.upper().startswith(w)), "")
    return word.lower() + said[len(word) :]


def conjunction(conjuncts: tuple[Scalar, ...]) -> str:
    """The conjuncts on one line."""
    return " AND ".join(show_all(conjuncts))
