"""Schema validation: Spark analyzes both statements; if their schemas or cached rows differ, the original runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.planning.validation import loses_metadata_only, names_are_unique, schema_difference
from dovetail.planner.bind.names import Resolver
from dovetail.planner.explain.records import Declined
from dovetail.planner.expr.calls import KNOWN
from dovetail.planner.expr.tokens import called
from dovetail.planner.sql.lookup_views import without_rows

if TYPE_CHECKING:
    from dovetail.executor.catalog.spark_catalog import SparkCatalog

CACHED_ROWS = "cached rows"  # what declines a rewriting that would compute them again


def validate_schema(plan: Plan, catalog: SparkCatalog) -> Plan:
    """Return the plan if Spark's analysis gives both statements one schema; else a plan that runs the original.

    The original also runs if it reads rows that are cached and the rewriting does not, and if a user-defined function
    of the session has the name of a Spark function in the rewriting.
    """
    from dovetail.executor.session.cached_rows import ignores_cached_rows
    from dovetail.executor.session.functions import user_functions

    assert plan.rewriting is not None
    names = (called(plan.text) | called(plan.rewriting)) & KNOWN
    before = catalog.analyze(plan.query)
    after: Any = catalog.analyze(plan.named_query)
    if isinstance(before, str):
        return replace(plan, rewriting=None, rejection=before)  # Spark raises its own error when the statement runs
    if isinstance(after, str):
        reason: str | None = f"Spark does not take the rewriting: {after}"
    else:
        users = user_functions(catalog.session, names)
        reason = _user_function_conflict(users) or schema_difference(before[1], after[1])
        if reason and loses_metadata_only(before[1], after[1]) and _takes_union(after):
            plan = replace(plan, rewriting=_around(plan, with_metadata(plan.query, plan.rewritten_query)))
            after = catalog.analyze(plan.named_query)
            reason = after if isinstance(after, str) else schema_difference(before[1], after[1])
        if reason is None and ignores_cached_rows(before[0], after[0]):
            why = "Spark has rows of the query in its cache, which the rewriting would compute again; the original runs"
            return replace(plan, rewriting=None, declined=(*plan.declined, Declined(CACHED_ROWS, why)))
        if reason is None:
            lacks = not plan.statement and before[1] != after[1]
            return replace(plan, frame=None if plan.statement else after[0], original=before[1] if lacks else None)
    declined = (*plan.declined, Declined("schema check", f"{reason}; the original runs"))
    return replace(plan, rewriting=None, declined=declined)


def _around(plan: Plan, query: str) -> str:
    """The statement of a plan with another query in it."""
    return f"{plan.statement.prefix}{query}\n{plan.statement.suffix}".rstrip() if plan.statement else query


def _takes_union(analysis: Any) -> bool:
    """Whether a union with the query can give a rewriting its comments.

    Not over a stream; and below a union Spark 4.3 fails to optimize a sorted ``SELECT x.id, x.id AS id``.
    """
    frame, schema = analysis[:2]
    return not frame.isStreaming and names_are_unique(schema)


def with_metadata(query: str, rewriting: str) -> str:
    """Return a rewriting whose columns have the comments, defaults and lengths of CHAR of the query as it was written.

    Spark takes the columns of a union from its first query.  Its optimizer removes that query, which has no rows.
    """
    first = f"((\n{query}\n) LIMIT 0)  -- no rows: the comments, defaults and CHAR lengths of the columns"
    return f"{first}\nUNION ALL\n(\n{rewriting}\n)"


def schema_difference_without_rows(plan: Plan, catalog: SparkCatalog) -> str | None:
    """The difference between the schemas of a plan with lookups and of its statement; None if there is none.

    Compares both statements with an empty relation in place of each lookup, which Spark can analyze.
    """
    from dovetail.executor.session.functions import user_functions

    names = Resolver(catalog, {})
    assert plan.logical is not None
    assert plan.physical is not None

    def has_versions(name: tuple[str, ...]) -> bool:
        return catalog.declaration(name).versions is not None

    texts = (without_rows(tree, names.lookup, has_versions) for tree in (plan.logical, plan.physical))
    before, after = (catalog.analyze(t) for t in texts)
    if isinstance(before, str):
        return None  # Spark raises its own error when the statement runs
    users = user_functions(catalog.session, (called(plan.text) | called(plan.rewriting or "")) & KNOWN)
    return _user_function_conflict(users) or (
        after if isinstance(after, str) else schema_difference(before[1], after[1])
    )


def _user_function_conflict(users: frozenset[str]) -> str | None:
    if not users:
        return None
    names = sorted(name.lower() for name in users)
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} a user's function in this session"
