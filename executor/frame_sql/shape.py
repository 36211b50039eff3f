"""The shape of a DataFrame's plan: which joins are written as SQL, and what of it is a relation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from dovetail.planner.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Kind = Literal[
    "alias", "select", "filter", "aggregate", "window", "sort", "limit", "distinct", "set", "join", "unwritten"
]
_MOST_OPERATORS = 30  # 20 subqueries in each other are planned in 2 s; at 60, Python's and Spark's parsers give up
_TOO_DEEP = (
    f"more than {_MOST_OPERATORS} operators follow each other, each of which would be a subquery; "
    "withColumns() adds many columns in one"
)


Same = TypeVar("Same")


class PlanOperator(Protocol):
    """An operator of a plan; ``kind``: what it is written as."""

    @property
    def name(self) -> str:
        """The name that messages have for it."""

    @property
    def kind(self) -> Kind:
        """What it is written as."""

    @property
    def children(self: Same) -> tuple[Same, ...]:
        """The operators below it."""

    def frame(self, session: SparkSession, /) -> DataFrame:
        """Return its DataFrame."""

    def has_rows_of(self, other: Any, /) -> bool:
        """Whether another operator returns the same rows."""


N = TypeVar("N", bound=PlanOperator)


class PlanShape(Generic[N]):
    """Where the joins of a plan are; ``is_cached``: whether Spark has the rows of an operator already.

    ``refused_at``: the operator that has joins below it, and is not written.
    """

    def __init__(self, plan: N, is_cached: Callable[[N], bool]) -> None:
        self.plan, self.is_cached = plan, is_cached
        self.refused_at: N | None = None
        self._joins: dict[N, bool] = {}

    def check(self) -> None:
        """Raise ``Refused`` for a plan without a join that is written, and for one of too many operators."""
        if not self.has_join(self.plan):
            raise Refused(self._without_join())
        if self._depth(self.plan) > _MOST_OPERATORS:
            raise Refused(_TOO_DEEP)

    def has_join(self, node: N) -> bool:
        """Whether an operator, or one below it, is a join that is written; then the operator is written, too."""
        if node not in self._joins:
            found = node.kind == "join" or (node.kind != "unwritten" and any(map(self.has_join, node.children)))
            self._joins[node] = found and not self.is_cached(node)
        return self._joins[node]

    def relations(self, node: N | None = None) -> Iterator[N]:
        """The largest parts of the plan that have no join."""
        node = node or self.plan
        if self.has_join(node):
            for child in node.children:
                yield from self.relations(child)
        else:
            yield node

    def part_below(self) -> N | None:
        """Return the part below what was refused; if nothing was, the highest join.  None if there is no such part."""
        if self.refused_at:
            return next((child for child in self.refused_at.children if _contains_join(child)), None)
        node: N | None = self.plan
        while node and node.kind != "join":
            node = next((child for child in node.children if self.has_join(child)), None)
        return node if node and self.has_join(self.plan) else None  # else the rows are cached

    def _depth(self, node: N) -> int:
        """Return how many operators with a join below them follow each other."""
        deepest = max((self._depth(child) for child in node.children if self.has_join(child)), default=0)
        return deepest + (node.kind != "alias")

    def _without_join(self) -> str:
        """Return why the plan has no join that is written."""
        node = self.plan
        if not _contains_join(node):
            return "the plan of the DataFrame has no join"
        while node.kind not in ("join", "unwritten") and not self.is_cached(node):
            node = next(child for child in node.children if _contains_join(child))
        if self.is_cached(node):
            return "the joins of the DataFrame are cached, so Spark has their rows already"
        self.refused_at = node
        return f"the joins of the DataFrame are below {node.name}, which is not written as SQL"


def cached_rows(session: SparkSession, *, has_cached: bool) -> Callable[[PlanOperator], bool]:
    """Return the check whether Spark has the rows of an operator already; ``has_cached``: whether it has any."""

    def is_cached(node: PlanOperator) -> bool:
        if not has_cached or node.kind == "alias":
            return False
        level = node.frame(session).storageLevel
        return bool(level.useMemory or level.useDisk or level.useOffHeap)

    return is_cached


def below_aliases(node: N) -> N:
    """The first operator that is more than a name."""
    while node.kind == "alias":
        (node,) = node.children
    return node


def operators_of(plan: N) -> Iterator[N]:
    """All operators of a plan."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.children


def _contains_join(node: PlanOperator) -> bool:
    return any(below.kind == "join" for below in operators_of(node))
