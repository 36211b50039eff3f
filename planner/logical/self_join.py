"""Nodes for self-joins and shared scans: one scan of a source serves the relations that read it, under their names."""

from __future__ import annotations

from typing import ClassVar

from dovetail.planner.logical import Derived
from dovetail.planner.logical.alternatives import Alternatives
from dovetail.planner.tree import plan_node
from dovetail.planner.types.schema import Column


@plan_node
class Replacement(Derived):
    """A subquery that replaces a relation: it has the same ``columns``; ``description``: where they come from."""

    label: ClassVar[str] = ""
    rewritten: ClassVar[bool] = True
    columns: tuple[Column, ...] = ()
    description: str = ""

    @property
    def declared_columns(self) -> tuple[tuple[str | None, tuple[Column, ...]], ...]:
        return ((self.alias, self.columns),)

    @property
    def detail(self) -> str:
        return self.description


@plan_node
class SameRow(Replacement):
    """A relation whose row is the row of another one: ``LATERAL (SELECT x.id, x.v) AS y``."""


@plan_node
class HiddenRelation(Derived):
    """A relation whose columns are shown by a ``Replacement``: no ``*`` shows it."""

    label: ClassVar[str] = ""

    @property
    def declared_columns(self) -> tuple[tuple[str | None, tuple[Column, ...]], ...]:
        return ()

    @property
    def output(self) -> tuple[str, ...]:
        return ()


@plan_node
class HiddenRows(HiddenRelation):
    """The same, where conditions name its columns."""

    @property
    def declared_columns(self) -> None:  # type: ignore[override]
        return None


@plan_node
class ScalarAggregates(HiddenRelation):
    """One row: aggregates over the rows of one source, each over the rows that pass its filter."""


@plan_node
class ScalarAggregatesRow(Replacement):
    """A query of one row that ``ScalarAggregates`` has computed."""


@plan_node
class MergedScalarAggregates(Alternatives):
    """``other`` reads a source once for all the scalar aggregates that ``written`` reads it for one by one."""
