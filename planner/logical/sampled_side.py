"""Samples a computed relation, such that the sample costs little more than a scan of its tables.

Of an aggregate whole groups are taken, by a hash of what it groups by, and of windows whole partitions: each has the
values that it has among all.  Of rows that are computed one by one some are taken before they are computed.

    (SELECT u, min(t) AS lo, max(t) AS hi FROM e GROUP BY u)
    (SELECT u, min(t) AS lo, max(t) AS hi FROM e WHERE pmod(xxhash64(u), 32) = 0 GROUP BY u)

    (SELECT *, lead(ts) OVER (PARTITION BY u ORDER BY ts) AS until FROM e)
    (SELECT *, lead(ts) OVER (PARTITION BY u ORDER BY ts) AS until FROM e
     WHERE pmod(xxhash64(u), 32) = (SELECT pmod(xxhash64(u), 32) FROM e LIMIT 1))

Of a table those groups and partitions are taken whose hash is that of the first row, so that some are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from dovetail.planner.expr import Scalar, sql
from dovetail.planner.logical.base import Logical
from dovetail.planner.logical.clauses import Aggregate, Filter, Project
from dovetail.planner.logical.queries import Cte
from dovetail.planner.logical.relations import Derived, Scan, subquery_as


def sampled_side(relation: Logical, definitions: Mapping[str, Cte], one_of: int) -> Logical | None:
    """The relation with one of so many of its rows; None where that would compute as much as all of them."""
    match relation:
        case Derived() if not relation.lateral:
            query = _sampled(relation.query, one_of)
            return replace(relation, query=query) if query else None
        case Scan() if relation.cte and relation.plain and (cte := definitions.get(relation.cte)):
            query = _sampled(cte.query, one_of)
            if query is None:
                return None
            return subquery_as(query, relation.alias or relation.name[-1], relation.renames or cte.renames)
        case Scan() if relation.plain and not relation.cte:
            rows = _filtered(replace(relation, alias=None, renames=(), suffix=""), _some(one_of))
            return subquery_as(Project(rows, (Scalar("*"),)), relation.alias or relation.name[-1], relation.renames)
    return None


def _sampled(query: Logical, one_of: int) -> Logical | None:
    """The same of a query: a SELECT over one aggregate, or over one table."""
    if not isinstance(query, Project) or query.quantifier or query.hint:
        return None
    windows = _windows(query)
    if not windows:
        return _below(query, None, one_of)
    keys = _partition(windows)
    if not keys or any(isinstance(node, Aggregate) for node in query.walk()):
        return None
    return _below(query, keys, one_of)


def _below(node: Logical, keys: str | None, one_of: int) -> Logical | None:
    """A query block with some of its rows, or with all rows of some ``keys``."""
    match node:
        case Project() | Filter():
            if isinstance(node, Filter) and node.clause == "WHERE" and isinstance(node.child, Scan):
                return None if node.child.cte else _filtered(node, _taken(keys, one_of, node.child))
            child = _below(node.child, keys, one_of)
            return replace(node, child=child) if child else None
        case Aggregate():
            if node.sets or not all(isinstance(key.known, exp.Column) for key in node.keys):
                return None
            by = ", ".join(key.text for key in node.keys)
            return replace(node, child=_filtered(node.child, _taken(by, one_of, node.child)))
        case Scan() if not node.cte:
            return _filtered(node, _taken(keys, one_of, node))
    return None


def _windows(query: Logical) -> list[exp.Window | None]:
    """The windows in a query block; None for each expression that only Spark can parse, and may hold one."""
    found: list[exp.Window | None] = []
    for node in query.walk():
        scalars = node.items if isinstance(node, Project) else node.condition if isinstance(node, Filter) else ()
        for scalar in scalars:
            if "over" in scalar.text.lower():
                found += scalar.known.find_all(exp.Window) if scalar.known else [None]
    return found


def _partition(windows: list[exp.Window | None]) -> str:
    """The columns by which all windows are partitioned; empty where there are none, or they differ."""
    keys = {tuple(map(sql, window.args.get("partition_by") or ())) if window else () for window in windows}
    columns = all(isinstance(key, exp.Column) for w in windows if w for key in w.args.get("partition_by") or ())
    return ", ".join(next(iter(keys))) if columns and len(keys) == 1 else ""


def _some(one_of: int) -> str:
    """The condition that takes some of the rows."""
    return f"rand(1) < {1 / one_of!r}D"


def _taken(keys: str | None, one_of: int, rows: Logical) -> str:
    """The condition that takes some of the rows, or all rows of some of the keys."""
    if keys is None:
        return _some(one_of)
    bucket = f"pmod(xxhash64({keys}), {one_of})"
    table = rows.child if isinstance(rows, Filter) else rows
    if isinstance(table, Scan) and not table.cte:
        return f"{bucket} = (SELECT {bucket} FROM {table.text} {table.suffix} LIMIT 1)"
    return f"{bucket} = 0"


def _filtered(node: Logical, condition: str) -> Filter:
    """A relation, or one that is filtered, with one more condition."""
    more = Scalar(condition)
    if isinstance(node, Filter) and node.clause == "WHERE":
        return replace(node, condition=(*node.condition, more))
    return Filter(node, (more,))
