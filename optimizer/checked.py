"""The seat belt that only Spark can fasten: it analyses both texts, and a rewriting of another schema does not run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from optimizer.checks import schema_difference
from optimizer.plan import Declined, Plan
from optimizer.planning import query_of
from planner.expr.calls import KNOWN
from planner.expr.tokens import called
from planner.sql.lookup_views import without_rows
from planner.sql.names import Resolver

if TYPE_CHECKING:
    from planner.runtime.catalog import SparkCatalog


def checked(plan: Plan, catalog: SparkCatalog, arguments: Any) -> Plan:
    """The plan if Spark's analysis gives both texts one schema; else one that runs the original.

    So it does where a function that the rewriting calls for Spark's own is a user's in this session.
    """
    from planner.runtime.batch import analysed
    from planner.runtime.functions import user_functions
    from planner.runtime.together import together

    assert plan.rewriting is not None
    head = plan.prefix
    names = (called(plan.text) | called(plan.rewriting)) & KNOWN
    asks: list[Callable[[], Any]] = [
        partial(catalog.analysed, query_of(plan)),
        partial(analysed, catalog.session, plan.rewriting[len(head) :], arguments),
        partial(user_functions, catalog.session, names),
    ]
    before, after, users = together(catalog.session, *asks)
    if isinstance(before, str):
        return replace(plan, rewriting=None)  # Spark's own error comes when it runs
    if isinstance(after, str):
        reason: str | None = f"Spark does not take the rewriting: {after}"
    else:
        reason = _not_its_own(users) or schema_difference(before[1], after[1])
        if reason is None:
            return replace(plan, frame=None if head else after[0])
    declined = (*plan.declined, Declined("schema check", f"{reason}; the original runs"))
    return replace(plan, rewriting=None, declined=declined)


def difference_without_rows(plan: Plan, catalog: SparkCatalog) -> str | None:
    """In what the columns of a plan with lookups differ from those of its statement; None where they are the same.

    Compared are both texts with an empty relation in the place of each lookup, which Spark can analyse.
    """
    from planner.runtime.functions import user_functions

    names = Resolver(catalog, {})
    assert plan.logical is not None
    assert plan.physical is not None

    def versions(name: tuple[str, ...]) -> bool:
        return catalog.declaration(name).versions is not None

    texts = (without_rows(tree, names.lookup, versions) for tree in (plan.logical, plan.physical))
    before, after = (catalog.analysed(t) for t in texts)
    if isinstance(before, str):
        return None  # Spark's own error comes when it runs
    users = user_functions(catalog.session, (called(plan.text) | called(plan.rewriting or "")) & KNOWN)
    return _not_its_own(users) or (after if isinstance(after, str) else schema_difference(before[1], after[1]))


def _not_its_own(users: frozenset[str]) -> str | None:
    if not users:
        return None
    names = sorted(name.lower() for name in users)
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} a user's function in this session"
