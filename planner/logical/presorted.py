"""A relation whose rows are sorted before a window shuffles them, so that the window merges runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from planner.expr import Scalar, quote
from planner.logical.base import Logical
from planner.rendered import NameGenerator, Rendered
from planner.tree import plan_node


@plan_node
class Presorted(Rendered, Logical):
    """The rows of a relation called ``name``, sorted by ``number``, a BIGINT that is nearly in the order of ``detail``.

    The order is only a hint: a window above sorts by its own keys.
    """

    label: ClassVar[str] = "Presorted"
    adds_columns: ClassVar[bool] = False
    rewritten: ClassVar[bool] = True
    child: Logical
    name: str
    number: str
    order: str

    @property
    def detail(self) -> str:
        return self.order

    @property
    def notes(self) -> tuple[str, ...]:
        return ("rows are sorted by one number before they are shuffled",)

    def render(
        self, sides: tuple[str, ...], names: NameGenerator, conjunction: Callable[[tuple[Scalar, ...]], str]
    ) -> str:
        """``(SELECT x.* FROM events x SORT BY number) AS x``."""
        name = quote(self.name)
        return f"(SELECT {name}.*\nFROM {sides[0]}\nSORT BY {self.number}) AS {name}"
