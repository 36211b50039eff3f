"""Tables with versions, and joins with one of them, as Spark runs them."""

from __future__ import annotations

from typing import ClassVar

from planner.expr import Scalar
from planner.logical import JoinKind, conjunction
from planner.logical.versions import Validity
from planner.physical.base import Physical
from planner.tree import Node, plan_node


@plan_node
class VersionedTable(Physical):
    """The same, as Spark reads it: a window over the key gives each version its end."""

    label: ClassVar[str] = "VersionedTable"
    validity: Validity

    @property
    def detail(self) -> str:
        return str(self.validity)

    @property
    def notes(self) -> tuple[str, ...]:
        since = self.validity.valid_from.name
        return (f"valid to: lead({since}) over {', '.join(self.validity.key)} by {since}",)

    @property
    def output(self) -> tuple[str, ...]:
        return (f"{self.validity.alias}.*",)


@plan_node
class AsofJoin(Physical):
    """Spark's own as-of join: the last version that does not begin after the time."""

    label: ClassVar[str] = "AsofJoin"
    left: Node
    right: Node
    kind: JoinKind
    time: str
    since: str
    condition: tuple[Scalar, ...]

    @property
    def detail(self) -> str:
        return f"{self.kind}, on {conjunction(self.condition)}, the last with {self.since} <= {self.time}"
