"""Joins that Spark's syntax limits to the nearest rows of the right side.

t ASOF JOIN q MATCH_CONDITION (t.ts >= q.ts) ON t.sym = q.sym       SPARK-58092, Spark 4.3
t JOIN q EXACT NEAREST 3 BY DISTANCE abs(t.x - q.x)                 SPARK-56395, Spark 4.2
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from dovetail.planner.errors import ShowsAddedColumn
from dovetail.planner.expr import Scalar
from dovetail.planner.logical.base import Logical, conjunction
from dovetail.planner.rendered import NameGenerator, Rendered
from dovetail.planner.tree import Node, plan_node


@plan_node
class NearestSyntax(Rendered, Logical):
    """Each left row with the right rows that are nearest by ``match``."""

    label: ClassVar[str] = ""
    adds_columns: ClassVar[bool] = False
    left: Logical
    right: Logical
    kind: Literal["inner", "left"]
    keyword: str
    match: Scalar


@plan_node
class AsofJoin(NearestSyntax):
    """Each left row with the right row nearest by ``match``, among those that fulfill ``condition`` or ``using``."""

    condition: tuple[Scalar, ...] = ()
    using: tuple[str, ...] = ()

    @property
    def detail(self) -> str:
        on = f", on {conjunction(self.condition)}" if self.condition else ""
        using = f", using {', '.join(self.using)}" if self.using else ""
        return f"{self.kind}, match {self.match.shown}{on}{using}"

    def stars(self, of: Callable[[Node], list[str]]) -> list[str]:
        if self.using:
            raise ShowsAddedColumn("* over USING")
        return super().stars(of)

    def render(
        self, sides: tuple[str, ...], names: NameGenerator, conjunction: Callable[[tuple[Scalar, ...]], str]
    ) -> str:
        """``left ASOF JOIN right MATCH_CONDITION (match) ON condition``, in the user's words."""
        text = f"{sides[0]}\n{self.keyword} {sides[1]} MATCH_CONDITION ({conjunction((self.match,))})"
        if self.using:
            return f"{text} USING ({', '.join(self.using)})"
        return f"{text} ON {conjunction(self.condition)}" if self.condition else text


@plan_node
class NearestByJoin(NearestSyntax):
    """Each left row with the ``count`` right rows for which the ranking expression ``match`` is the least.

    Or the greatest, for a similarity.  ``by`` has the words before it, as ``EXACT NEAREST 3 BY DISTANCE``.
    """

    by: str
    count: int

    @property
    def is_similarity(self) -> bool:
        """Whether the right rows with the greatest values are the nearest."""
        return self.by.upper().endswith("SIMILARITY")

    @property
    def detail(self) -> str:
        return f"{self.kind}, {' '.join(self.by.split())} {self.match.shown}"

    def render(
        self, sides: tuple[str, ...], names: NameGenerator, conjunction: Callable[[tuple[Scalar, ...]], str]
    ) -> str:
        """``left JOIN right EXACT NEAREST 3 BY DISTANCE match``, in the user's words."""
        return f"{sides[0]}\n{self.keyword} {sides[1]} {self.by} {conjunction((self.match,))}"
