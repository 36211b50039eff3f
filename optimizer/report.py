"""A report on one statement, for an issue: everything that planning depends on, without rows and without secrets."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from importlib import metadata
from textwrap import fill
from typing import TYPE_CHECKING, Any

from dovetail.executor.connectors.masking import mask_secrets
from dovetail.optimizer.anonymize import Anonymizer
from dovetail.optimizer.options import Options
from dovetail.planner.catalog import Catalog
from dovetail.planner.errors import plural, summarize
from dovetail.planner.logical import Scan
from dovetail.planner.version import VERSION

if TYPE_CHECKING:
    from dovetail.optimizer.verification import Verification


Plan = Any  # ``dovetail.optimizer.planning.plan.Plan``, which imports this module
PLACEHOLDER = "https://example.invalid/"
"""How the address of the issue tracker in pyproject.toml begins as long as the project has no home."""

_TITLE = "# Dovetail: report on a statement"
_HAS = (
    "This file has: versions; the settings that decide what SQL means and how it is planned; names and types of the "
    "columns of each table that is read; the statement as written and as rewritten; what each rule did, or why it "
    "declined; Spark's analyzed plans of both; estimates and times of planning{more}."
)
_HAS_NOT = (
    "It has no rows. Passwords, tokens and keys in the statement and in addresses are masked as `…`, arguments of the "
    "statement are left out, and of the settings only those below are listed. {names} Read it before you send "
    "it{where}."
)
_NAMED = "Names, texts and numbers of the statement are as you wrote them; `--anonymize` hashes names and texts."
_HASHED = (
    "Names and texts, those of views as well, are replaced by hashes, whose key is not kept; comments are left out. "
    "Words of SQL, numbers of the statement, short numbers of views, dates, times and names of one letter stay."
)


def build_report(
    plan: Plan,
    *,
    anonymize: bool = False,
    verified: Verification | None = None,
    defaults: Options | None = None,
    catalog: Catalog | None = None,
) -> str:
    """The report as Markdown.

    It lists the options that are not ``defaults``.  ``catalog`` has the tables, if not that of the session of the plan.
    """
    if catalog is None and plan.session is not None:
        from dovetail.executor.catalog.spark_catalog import SparkCatalog

        catalog = SparkCatalog(plan.session)
    columns = _columns(plan, catalog)
    written = _sections(plan, columns, verified, defaults or Options())
    sections = [(title, mask_secrets(text)) for title, text in written if text]
    if anonymize:
        names = Anonymizer(columns)
        for title, text in [(_WRITTEN, plan.text), *sections]:
            add = names.add_sql if title in _SQL else names.add_plan if title in _PLANS else names.add_prose
            add(text)
        sections = [
            (title, text if title in _NAMELESS else names.replace(text, sql=title in _SQL)) for title, text in sections
        ]
    where = f" to {home}" if (home := issue_tracker()) else ""
    more = ", and the run of both" if verified else ""
    head = (_HAS.format(more=more), _HAS_NOT.format(names=_HASHED if anonymize else _NAMED, where=where))
    parts = [_TITLE, *(fill(part, 120) for part in head)]
    parts += [f"## {title}\n\n````\n{text.rstrip()}\n````" for title, text in sections]
    return "\n\n".join(parts) + "\n"


def issue_tracker() -> str:
    """The address of the issue tracker, from the package's metadata; empty as long as it is the placeholder."""
    with suppress(metadata.PackageNotFoundError):
        for entry in metadata.metadata("dovetail").get_all("Project-URL") or ():
            label, _, address = entry.partition(", ")
            if label == "Issues" and not address.startswith(PLACEHOLDER):
                return str(address)
    return ""


_WRITTEN, _REWRITTEN = "Statement as written", "Statement that Spark runs"
_SQL = (_WRITTEN, _REWRITTEN)
_PLANS = ("Spark's analyzed plan, as written", "Spark's analyzed plan, rewritten")
_NAMELESS = ("Versions", "Settings", "Seconds of planning")


def _sections(
    plan: Plan, columns: dict[str, list[tuple[str, str]]], verified: Verification | None, defaults: Options
) -> Iterator[tuple[str, str]]:
    yield "Versions", _lines(_versions(plan))
    yield "Settings", _lines(_settings(plan, defaults))
    yield (
        "Columns of what is read",
        "\n".join(
            f"{table}: {', '.join(f'{name} {kind}' for name, kind in found) or 'not known'}"
            for table, found in columns.items()
        ),
    )
    yield _WRITTEN, plan.text
    yield _REWRITTEN, plan.sql() if plan.rewritten else "as written"
    yield "Rules", plan.explain("trace")
    written, rewritten = _PLANS
    yield written, _analyzed(plan, plan.query)
    yield rewritten, _analyzed(plan, plan.rewritten_query) if plan.rewritten else ""
    yield "Choices by cost", "\n".join(plan.choices)
    times = {**plan.timings, **{f"rule {name}": took for name, took in plan.trace.seconds.items() if took > 1e-3}}
    yield "Seconds of planning", _lines({name: f"{took:.4f}" for name, took in times.items()})
    if verified:
        yield "Verified", "\n".join(_verified(verified))


def _versions(plan: Plan) -> dict[str, str]:
    found = {"Dovetail": VERSION, "Python": platform.python_version(), "system": platform.platform()}
    for package in ("pyspark", "pyspark-client", "pysail", "sqlglot"):
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    if plan.session is not None:
        found["Spark"] = str(plan.session.version)
        found["session"] = "Spark Connect" if "connect" in type(plan.session).__module__ else "classic"
        if found["session"] == "classic" and "pyspark" in sys.modules:
            from dovetail.optimizer.doctor import java

            found["Java"] = java().found
    return found


def _settings(plan: Plan, defaults: Options) -> dict[str, str]:
    values = {f.name: getattr(plan.options or defaults, f.name) for f in fields(defaults)}
    own = {f"option {name}": str(value) for name, value in values.items() if value != getattr(defaults, name)}
    if plan.session is None:
        return own
    from dovetail.executor.session.session_facts import settings_that_matter

    return own | settings_that_matter(plan.session)


def _columns(plan: Plan, catalog: Catalog | None) -> dict[str, list[tuple[str, str]]]:
    """The columns of each table that the statement reads, with their types."""
    if plan.logical is None or catalog is None:
        return {}
    scans = {n.name for n in plan.logical.walk() if isinstance(n, Scan) and not n.cte}
    found: dict[str, list[tuple[str, str]]] = {}
    for name in sorted(scans):
        columns = catalog.columns(name) or ()
        found[".".join(name)] = [(c.name, c.type.text if c.type else "type not known") for c in columns]
    return found


def _analyzed(plan: Plan, query: str) -> str:
    if plan.session is None:
        return ""
    if plan.given or plan.named:
        return "left out, since the statement has arguments or reads DataFrames"
    from dovetail.executor.session.session_facts import analyzed_plan

    try:
        return analyzed_plan(plan.session, query)
    except Exception as error:  # noqa: BLE001 - the report is on statements that fail, too
        return summarize(error)


def _verified(verified: Verification) -> Iterator[str]:
    yield str(replace(verified, differences=()))
    if verified.runs is None:
        return
    for heading, run in (("as written", verified.runs.written), ("rewritten", verified.runs.rewritten)):
        yield f"\n{heading}: {run.seconds:.2f} s"
        for operator in run.operators:
            rows = "" if operator.rows is None else f"  {plural(operator.rows, 'row')}"
            yield f"{'  ' * operator.depth}{operator.name}{rows}"


def _lines(facts: dict[str, str]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in facts.items())
