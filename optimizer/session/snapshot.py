"""Snapshots validate cached plans: analyzed queries, their files, the session settings, and the declarations.

A plan is valid while all of them are unchanged.  The comparison costs the analysis of one query, which Spark does
anyway, and a listing of its files.  A rewriting that references all tables and functions of the original text stands
for both; otherwise the original text is compared as well, because it may change its meaning alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from dovetail.optimizer.planning.validation import schema_difference
from dovetail.planner.bind.names import Resolver
from dovetail.planner.expr.tokens import called
from dovetail.planner.logical import Scan
from dovetail.planner.sql.lookup_views import lookups_of, without_rows
from dovetail.planner.tree import unwrap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dovetail.executor.catalog.measurement_cache import CatalogQuery
    from dovetail.executor.catalog.spark_catalog import SparkCatalog
    from dovetail.optimizer.planning.plan import Plan
    from dovetail.planner.tree import Node


@dataclass(frozen=True)
class Text:
    """A query with its analysis at the time of planning."""

    text: str
    question: CatalogQuery
    schema: Any


@dataclass(frozen=True)
class Snapshot:
    """The queries that must be unchanged, the one that runs first; ``declared``: a copy of the user's declarations.

    ``entries``: those of the tables and views that planning looked up in Spark's catalog.  ``only_files``: the queries
    read only files.  ``runs``: whether Spark runs the first query.  ``original``: the query that the first one is a
    rewriting of, if it is one, which must not have come into Spark's cache.
    """

    texts: tuple[Text, ...]
    declared: Hashable
    entries: Mapping[tuple[str, ...], Any]
    runs: bool = True
    original: str | None = None

    @property
    def only_files(self) -> bool:
        """Whether the queries read only files, so that they hold no rows themselves."""
        return all(text.question.only_files for text in self.texts)

    def seems_unchanged(self, catalog: SparkCatalog, declared: Hashable) -> bool:
        """Whether the settings, the files, and the entries of tables and views are unchanged, without an analysis.

        For a plan that is shown: ``unchanged`` decides before it runs.
        """
        from dovetail.executor.catalog.measurement_cache import list_all, settings_text
        from dovetail.executor.session.cached_rows import has_cached_rows

        session, entry = catalog.session, catalog.definitions.entry
        if declared != self.declared or has_cached_rows(session):
            return False
        settings = settings_text(session)
        return all(
            text.question.settings == settings and text.question.files == list_all(text.question.indexes, session)
            for text in self.texts
        ) and all(entry(name) == known for name, known in self.entries.items())

    def unchanged(self, catalog: SparkCatalog, declared: Hashable) -> DataFrame | None:
        """The DataFrame of the first query if all queries are unchanged; else None."""
        from dovetail.executor.session.cached_rows import has_cached_rows, ignores_cached_rows
        from dovetail.executor.session.concurrent_calls import call_concurrently

        if declared != self.declared:
            return None
        found = call_concurrently(catalog.session, *(partial(_analyze_unchanged, text, catalog) for text in self.texts))
        first = None if None in found else found[0]
        if first is not None and self.original and has_cached_rows(catalog.session):
            original = catalog.analyze(self.original)
            return None if isinstance(original, str) or ignores_cached_rows(original[0], first) else first
        return first


def take_snapshot(plan: Plan, catalog: SparkCatalog, declared: Hashable) -> Snapshot | None:
    """Take the snapshot of a plan; None if changes cannot be detected: on Spark Connect, and for other sources."""
    from dovetail.executor.session.batch import classic

    if not classic(catalog.session) or plan.logical is None:
        return None
    queries, runs = _queries(plan, catalog)
    found = [_take_text(query, catalog) for query in queries]
    if None in found:
        return None
    rewrites = plan.rewriting is not None and not plan.required
    original = plan.query if rewrites else None
    texts = tuple(text for _, text in filter(None, found))
    return Snapshot(texts, declared, dict(catalog.definitions.entries), runs, original)


def _queries(plan: Plan, catalog: SparkCatalog) -> tuple[tuple[str, ...], bool]:
    """The queries that validate a plan, and whether the first of them is the statement itself."""
    original = plan.query if plan.statement else plan.text
    if plan.rewriting is None:
        return (original,), not plan.statement
    alone = _references_all(plan)
    if plan.required and (not alone or lookups_of(plan.physical)):
        names = Resolver(catalog, {})
        trees = (plan.physical, plan.logical)
        known = (
            without_rows(t, names.lookup, lambda n: catalog.declaration(n).versions is not None) for t in trees if t
        )
        return tuple(known), False
    rewriting = plan.named_query
    return (rewriting,) if alone else (rewriting, original), not plan.statement


def _take_text(query: str, catalog: SparkCatalog) -> tuple[DataFrame, Text] | None:
    from dovetail.executor.catalog.measurement_cache import catalog_query

    found = catalog.analyze(query)
    if isinstance(found, str):
        return None
    question = catalog_query(found[0], values=True)
    return (found[0], Text(query, question, found[1])) if question else None


def _analyze_unchanged(text: Text, catalog: SparkCatalog) -> DataFrame | None:
    found = _take_text(text.text, catalog)
    if found is None or not text.question.matches(found[1].question) or schema_difference(text.schema, found[1].schema):
        return None
    return found[0]


def _references_all(plan: Plan) -> bool:
    """Whether a rewriting references every table and function of the text by the same name."""
    assert plan.logical is not None
    assert plan.physical is not None
    calls = called(plan.text) - {"MATCH_CONDITION"} <= called(plan.rewriting or "")
    return calls and _names(plan.logical) <= _names(plan.physical)


def _names(plan: Node) -> set[tuple[str, ...]]:
    return {scan.name for node in plan.walk() if isinstance(scan := unwrap(node), Scan) and not scan.cte}
