"""Samples a computed relation, such that the sample costs little more than a scan of its tables.

Of an aggregate whole groups are taken, by a hash of what it groups by: each has the values that it has among all.  Of
rows that are computed one by one some are taken before they are computed.

    (SELECT u, min(t) AS lo, max(t) AS hi FROM e GROUP BY u)
    (SELECT u, min(t) AS lo, max(t) AS hi FROM e WHERE pmod(xxhash64(u), 32) = 0 GROUP BY u)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from planner.expr import Scalar, quote
from planner.logical.base import Logical
from planner.logical.clauses import Aggregate, Filter, Project
from planner.logical.queries import Cte
from planner.logical.relations import Derived, Scan


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
            return _named(query, relation.alias or relation.name[-1], relation.renames or cte.renames)
        case Scan() if relation.plain and not relation.cte:
            rows = _filtered(replace(relation, alias=None, renames=(), suffix=""), _some(one_of))
            return _named(Project(rows, (Scalar("*"),)), relation.alias or relation.name[-1], relation.renames)
    return None


def _named(query: Logical, alias: str, renames: tuple[str, ...]) -> Derived:
    columns = f"({', '.join(map(quote, renames))})" if renames else ""
    return Derived(query, alias, renames, f"AS {quote(alias)}{columns}")


def _sampled(query: Logical, one_of: int) -> Logical | None:
    """The same of a query: a SELECT over one aggregate, or over one table."""
    if not isinstance(query, Project) or query.quantifier or query.hint:
        return None
    return _below(query, one_of)


def _below(node: Logical, one_of: int) -> Logical | None:
    match node:
        case Project() | Filter():
            if isinstance(node, Filter) and node.clause == "WHERE" and isinstance(node.child, Scan):
                return None if node.child.cte else _filtered(node, _some(one_of))
            child = _below(node.child, one_of)
            return replace(node, child=child) if child else None
        case Aggregate():
            if node.sets or not all(isinstance(key.known, exp.Column) for key in node.keys):
                return None
            keys = ", ".join(key.text for key in node.keys)
            return replace(node, child=_filtered(node.child, f"pmod(xxhash64({keys}), {one_of}) = 0"))
        case Scan() if not node.cte:
            return _filtered(node, _some(one_of))
    return None


def _some(one_of: int) -> str:
    return f"rand(1) < {1 / one_of!r}D"


def _filtered(node: Logical, condition: str) -> Filter:
    """A relation, or one that is filtered, with one more condition."""
    more = Scalar(condition)
    if isinstance(node, Filter) and node.clause == "WHERE":
        return replace(node, condition=(*node.condition, more))
    return Filter(node, (more,))
