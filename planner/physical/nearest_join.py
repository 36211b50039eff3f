"""The operator that finds the nearest right rows of each left row in a union of both sides (``nearest_union.py``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from dovetail.planner.expr import Scalar, quote
from dovetail.planner.logical.nearest_join import Nearest
from dovetail.planner.physical.base import Physical
from dovetail.planner.physical.nearest_union import NearestUnion
from dovetail.planner.physical.presort import presort_notes
from dovetail.planner.physical.time_ranges import TimeRanges, UnionInRanges
from dovetail.planner.rendered import NameGenerator, Rendered
from dovetail.planner.tree import Node, plan_node
from dovetail.planner.types.schema import SqlType

_ONE_TASK = "without equal keys all rows are sorted in one task"


@plan_node
class NearestJoin(Rendered, Physical):
    """Each left row with its nearest right rows; left rows without one stay in a left join."""

    left: Node
    right: Node
    kind: Literal["inner", "left"]
    nearest: Nearest
    foreign: bool = False  # whether Spark cannot run the join as written
    turned: bool = False  # whether it was a right join, whose right side comes first
    row_type: SqlType | None = None  # of the right row as a struct, where a NULL needs it (Engine.types_nulls)
    presorted: bool = True  # whether rows are sorted before they are shuffled (Engine.merges_runs)
    ranges: TimeRanges | None = None  # of time, so that many tasks sort the rows of a key

    @property
    def required(self) -> bool:  # type: ignore[override]
        return self.foreign

    @property
    def output(self) -> tuple[str, ...]:
        first, second = (self.right, self.left) if self.turned else (self.left, self.right)
        return (*first.output, *second.output)  # type: ignore[attr-defined]

    @property
    def detail(self) -> str:
        return f"{self.kind}, {self.nearest}"

    @property
    def notes(self) -> tuple[str, ...]:
        keys = ", ".join(key.left for key in self.nearest.keys)
        many = f"{self.nearest.count} right rows" if self.nearest.count > 1 else "right row"
        found = f"the last {many} so far" + (" and the next" if self.nearest.direction == "both" else "")
        sorts = "one sort" if self.nearest.sorts == 1 else f"{self.nearest.sorts} sorts"
        alone = [f"each {keys} for itself"] if keys else []
        alone = [*alone, self.ranges.note] if self.ranges else alone or [_ONE_TASK]
        presorted = presort_notes(self.nearest.time_type) if self.presorted else ()
        return f"no pairs are made: {found}, in {sorts} of both sides", *alone, *presorted

    def stars(self, of: Callable[[Node], list[str]]) -> list[str]:
        right = [f"{quote(shown.name)}.*" for shown in self.nearest.right if shown.values and not shown.hidden]
        right = right if any(shown.values for shown in self.nearest.right) else of(self.right)
        return [*right, *of(self.left)] if self.turned else [*of(self.left), *right]

    def render(
        self, sides: tuple[str, ...], names: NameGenerator, conjunction: Callable[[tuple[Scalar, ...]], str]
    ) -> str:
        """Render the hidden relation of both sides, and the relations that show its columns."""
        name, _ = names.new("row")
        arguments = self.nearest, name, self.kind, conjunction, self.row_type
        sql = UnionInRanges(self.ranges, *arguments) if self.ranges else NearestUnion(*arguments)
        presorted = sql.presorted() if self.presorted else ""
        union = f"FROM ({sql.union(sides[0], sides[1])}{presorted}))"
        return "\n".join(
            [
                f"(SELECT {', '.join([*sql.left_row(), sql.found()])}",
                *(sql.each_candidate(union) if sql.several else sql.one_candidate(union)),
                *(f"JOIN LATERAL (SELECT {columns}) AS {quote(alias)}" for alias, columns in sql.relations()),
            ]
        )
