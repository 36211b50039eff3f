"""Aggregates of a block's own rows: as subqueries, as written, or as windows over these rows."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Logical
from dovetail.planner.logical.alternatives import Alternatives
from dovetail.planner.tree import plan_node


@dataclass(frozen=True)
class Rows:
    """The aggregated rows: those of ``relations`` joined, in the groups that are ``kept``.

    ``filters``: the conditions on each of the relations, which the block and the subqueries share.  ``kept``: other
    relations, and the conditions on them; a group is kept that has a row in each.  ``exists``: how many of the
    subqueries are EXISTS.  ``alone``: the block reads nothing but these rows, and all of them.  ``keys``: the keys by
    which the subqueries read them, in SQL over the relations.
    """

    relations: tuple[Logical, ...]
    filters: tuple[tuple[Scalar, ...], ...]
    kept: tuple[tuple[Logical, tuple[Scalar, ...]], ...]
    exists: int
    alone: bool
    keys: tuple[str, ...]


@plan_node
class SelfAggregate(Alternatives):
    """``other`` computes windows over ``rows``, which ``written`` reads once more for every subquery."""

    rows: Rows
