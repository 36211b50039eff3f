"""The relation of FROM that is sampled: each row of the result comes from one of its rows, and from no other.

It is on the side that outer, semi and anti joins preserve, or of an inner join.  Its clusters of rows split the rows of
the result in disjoint parts, and a total of the result is the sum over these parts.  Of several relations, the largest
is sampled, which saves most.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.planner.bind.names import Source
from dovetail.planner.bind.scope import Scope
from dovetail.planner.errors import Refused
from dovetail.planner.estimate.looks import CLUSTERS
from dovetail.planner.expr import Scalar, column_ref, columns_in, quote
from dovetail.planner.logical import (
    Derived,
    Join,
    LateralView,
    Logical,
    Nested,
    Project,
    Scan,
    expressions,
    hint_name,
)
from dovetail.planner.logical.relations import subquery_as
from dovetail.rules.context import Context
from dovetail.rules.query.from_items import with_leaves
from dovetail.rules.query.query_block import QueryBlock, where

CLUSTER, CLUSTER_ROWS = "__dt_cluster", "__dt_cluster_rows"
_UNNAMED = "__dt_sampled"  # a subquery without an alias
_FEWEST = 8  # columns that are hashed, if there are so many: rows that agree in all of them are in one cluster
_UNHASHED = re.compile(r"\b(map<|variant\b|geometry\b|geography\b)", re.IGNORECASE)


@dataclass(frozen=True)
class SampledRelation:
    """A relation of FROM, the name of its columns in the statement, and those of its columns that are hashed.

    ``own``: the conjuncts of WHERE that read it alone, and so filter it before it is sampled; ``rest``: the others.
    """

    tree: Logical
    relation: Logical
    name: str
    columns: tuple[str, ...]
    own: tuple[Scalar, ...]
    rest: tuple[Scalar, ...]

    def over_clusters(self, first: int, end: int, seed: int) -> Logical:
        """FROM and WHERE over the rows that are in the clusters from ``first`` up to ``end``."""
        cluster = self._cluster(seed)
        rows = where(self.relation, (*self.own, Scalar(f"{cluster} >= {first}"), Scalar(f"{cluster} < {end}")))
        part = Project(rows, (Scalar("*"), Scalar(f"{cluster} AS {CLUSTER}")))
        counted = Scalar(f"count(1) OVER (PARTITION BY {CLUSTER}) AS {CLUSTER_ROWS}")
        sized = Project(subquery_as(part, self.name), (Scalar("*"), counted))
        return where(with_leaves(self.tree, [(self.relation, subquery_as(sized, self.name))]), self.rest)

    def clusters(self, seed: int) -> Logical:
        """The cluster of each row."""
        return Project(where(self.relation, self.own), (Scalar(f"{self._cluster(seed)} AS {CLUSTER}"),))

    def _cluster(self, seed: int) -> str:
        hashed = ", ".join((*map(quote, self.columns), str(seed)))
        return f"pmod(xxhash64({hashed}), {CLUSTERS})"


def find_sampled_relation(query: Logical, block: QueryBlock, ctx: Context) -> SampledRelation:
    """Find the relation to sample.  Raises ``Refused`` if there is none."""
    candidates = list(_preserved(block.tree))
    if not candidates:
        raise Refused(
            "none of its relations can be sampled: each row of the result has to come from one row of a table or "
            "subquery, and FROM has none outside a FULL JOIN"
        )
    found = ctx.statistics_of(*candidates)
    sizes = [one.rows or 0 for one in found] if all(one.known for one in found) else [one.bytes or 0 for one in found]
    largest = sizes.index(max(sizes))
    relation = candidates[largest]
    name = hint_name(relation) or _UNNAMED
    (source,) = ctx.names.sources(relation)
    own = [conjunct for conjunct in block.condition if _reads_only(conjunct, source, ctx.scope(block.tree))]
    rest = tuple(conjunct for conjunct in block.condition if conjunct not in own)
    return SampledRelation(block.tree, relation, name, _hashed(source, query, ctx), tuple(own), rest)


def _reads_only(conjunct: Scalar, source: Source, scope: Scope) -> bool:
    columns = [scope.find(column) for column in columns_in(conjunct.tree)]
    return bool(columns) and not conjunct.plans and all(column and scope.source(column) is source for column in columns)


def _preserved(tree: Logical) -> Iterator[Logical]:
    """The tables and subqueries of which each row of FROM has exactly one row."""
    match tree:
        case Join(kind="full"):
            return
        case Join():
            if tree.kind != "right":
                yield from _preserved(tree.left)
            if tree.kind in ("inner", "cross", "right"):
                yield from _preserved(tree.right)
        case Nested(alias=None) | LateralView():
            yield from _preserved(tree.child)
        case Scan() | Derived(lateral=False):
            yield tree


def _hashed(source: Source, query: Logical, ctx: Context) -> tuple[str, ...]:
    """The columns whose hash decides the cluster of a row: those that the statement names, and some more.

    Rows that agree in all of them share a cluster, which is right but a coarser sample.
    """
    named = ctx.names.folded(
        part
        for node in query.walk()
        for scalar in expressions(node)
        if scalar.known is not None
        for column in columns_in(scalar.known)
        for part in column_ref(column).parts
    )
    columns = {
        c.name: name
        for name, same in source.columns_by_name.items()
        for c in same
        if c.type is None or not _UNHASHED.search(c.type.text)
    }
    if not columns:
        raise Refused(f"{'.'.join(source.names)} has no columns whose values can be hashed")
    first = [name for name, folded in columns.items() if folded in named]
    more = [name for name in columns if name not in first]
    return (*first, *more[: max(0, _FEWEST - len(first))])
