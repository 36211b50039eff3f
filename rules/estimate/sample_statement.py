"""The statement that reads clusters of a sample, and returns sums of products of their totals for each group.

    SELECT group0, sum(total0), sum(total0 * total0), … FROM (
      SELECT group0, count(*) AS total0, max(cluster_rows) AS total1, sum(argument0) AS total2, … FROM (
        SELECT s.device AS group0, e.amount AS argument0, e.cluster, e.cluster_rows FROM (part of e) AS e JOIN s ON …
      ) GROUP BY group0, cluster
    ) GROUP BY group0

Each round reads other clusters, so that the sums of rounds add up.
"""

from __future__ import annotations

from dataclasses import replace

from dovetail.planner.estimate.looks import STEP
from dovetail.planner.expr import Scalar, quote
from dovetail.planner.logical import Aggregate, Logical, Project, With
from dovetail.planner.logical.relations import subquery_as
from dovetail.planner.sql.to_sql import to_sql
from dovetail.rules.estimate.query import EstimatedQuery
from dovetail.rules.estimate.sampled_relation import CLUSTER, CLUSTER_ROWS

_ROWS, _SUMS, _SIZE = "__dt_rows", "__dt_sums", "__dt_size"


def sample_statement(query: EstimatedQuery, first: int, end: int, seed: int) -> str:
    """Write the statement for the clusters from ``first`` up to ``end``.

    Its columns: the groups, the number of clusters with rows of the group, and the sums of ``query.products``.
    """
    groups = tuple(f"__dt_group{n}" for n in range(len(query.groups)))
    items = [f"{group.text} AS {name}" for group, name in zip(query.groups, groups, strict=True)]
    items += [f"{argument.text} AS __dt_argument{n}" for n, argument in enumerate(query.arguments)]
    items += [f"{quote(query.sampled.name)}.{name} AS {name}" for name in (CLUSTER, CLUSTER_ROWS)]
    tree = query.sampled.over_clusters(first, end, seed)
    rows: Logical = Project(tree, _scalars(items), hint=query.block.project.hint)
    totals = [f"CAST({total} AS DOUBLE) AS __dt_total{n}" for n, total in enumerate(query.totals)]
    clusters = _grouped(rows, _ROWS, (*groups, CLUSTER), [*groups, *totals])
    products = ["*".join(f"__dt_total{i}" for i in product) for product in query.products]
    sums = ["count(1) AS __dt_met", *(f"sum({text}) AS __dt_sum{n}" for n, text in enumerate(products))]
    return _below_with(query, _grouped(clusters, _SUMS, groups, [*groups, *sums]))


def size_statement(query: EstimatedQuery, seed: int) -> str:
    """Write the statement that counts the rows of each cluster, for ``GroupSums.sizes``.

    Its columns: a number of ``STEP`` clusters, and the sums of their sizes, of the squares and of the cubes.
    """
    sizes = _grouped(query.sampled.clusters(seed), _ROWS, (CLUSTER,), [CLUSTER, f"CAST(count(1) AS DOUBLE) AS {_SIZE}"])
    step = f"{CLUSTER} DIV {STEP}"
    powers = [f"sum({'*'.join([_SIZE] * n)}) AS __dt_sum{n}" for n in (1, 2, 3)]
    return _below_with(query, _grouped(sizes, _SUMS, (step,), [f"{step} AS __dt_step", *powers]))


def _below_with(query: EstimatedQuery, found: Logical) -> str:
    for node in query.block.above:
        if isinstance(node, With):
            found = replace(node, child=found)
    return to_sql(found)


def _grouped(rows: Logical, name: str, groups: tuple[str, ...], items: list[str]) -> Logical:
    relation: Logical = subquery_as(rows, name)
    return Project(Aggregate(relation, _scalars(groups)) if groups else relation, _scalars(items))


def _scalars(texts: tuple[str, ...] | list[str]) -> tuple[Scalar, ...]:
    return tuple(map(Scalar, texts))
