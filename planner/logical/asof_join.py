"""Spark's as-of join (SPARK-58092): ``t ASOF JOIN q MATCH_CONDITION (t.ts >= q.ts) ON t.sym = q.sym``."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from planner.errors import Unsupported
from planner.expr import Scalar
from planner.logical.base import Logical, conjunction
from planner.rendered import NameGenerator, Rendered
from planner.tree import Node, plan_node


@plan_node
class AsofJoin(Rendered, Logical):
    """Each left row with the right row nearest by ``match``, among those that fulfil ``condition`` or ``using``."""

    label: ClassVar[str] = "AsofJoin"
    adds_columns: ClassVar[bool] = False
    left: Logical
    right: Logical
    kind: Literal["inner", "left"]
    keyword: str
    match: Scalar
    condition: tuple[Scalar, ...] = ()
    using: tuple[str, ...] = ()

    @property
    def detail(self) -> str:
        on = f", on {conjunction(self.condition)}" if self.condition else ""
        using = f", using {', '.join(self.using)}" if self.using else ""
        return f"{self.kind}, match {self.match.shown}{on}{using}"

    def stars(self, of: Callable[[Node], list[str]]) -> list[str]:
        if self.using:
            raise Unsupported("* over USING would show a column that the rewriting adds")
        return super().stars(of)

    def render(
        self, sides: tuple[str, ...], names: NameGenerator, conjunction: Callable[[tuple[Scalar, ...]], str]
    ) -> str:
        """``left ASOF JOIN right MATCH_CONDITION (match) ON condition``, in the user's words."""
        text = f"{sides[0]}\n{self.keyword} {sides[1]} MATCH_CONDITION ({self.match.text})"
        if self.using:
            return f"{text} USING ({', '.join(self.using)})"
        return f"{text} ON {conjunction(self.condition)}" if self.condition else text
