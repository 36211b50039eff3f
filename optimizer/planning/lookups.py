"""Lookups in statements.  Spark cannot run a lookup join, so every lookup is planned or the statement is an error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches

from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.plan import Plan
from dovetail.planner.catalog import Catalog
from dovetail.planner.catalog.declared import Declaration
from dovetail.planner.catalog.settings import QUOTED_REGEX
from dovetail.planner.errors import Place, QueryError, Unsupported
from dovetail.planner.expr.tokens import Tokens, tokenize
from dovetail.planner.logical import Logical, Scan
from dovetail.planner.sql.lookup_views import lookups_of
from dovetail.rules.batches import RULES
from dovetail.rules.query.time_travel import can_spark_travel

_AS_OF = re.compile(r"(?i)\b(system_time|timestamp)\s+as\s+of\b")


@dataclass(frozen=True)
class LookupReference:
    """A reference to a table with FOR SYSTEM_TIME AS OF, with its place in the text."""

    name: tuple[str, ...]
    place: Place


def find_lookup_references(plan: Plan, catalog: Catalog) -> list[LookupReference]:
    """The references to lookups in a statement.  Raises ``QueryError`` for a reference that is not allowed there."""
    if plan.error or not _AS_OF.search(plan.text):
        return []
    references = [m for m in _scan_references(plan.text) if catalog.declaration(m.name).lookup]
    if not references and (error := _make_unknown_table_error(plan, catalog)):
        raise error
    if references and catalog.settings.quoted_names_are_patterns:
        reason = (
            f"{QUOTED_REGEX} is true: Spark would take the quoted names of a lookup join for patterns. Set it to false"
        )
        raise QueryError(reason, references[0].place)
    if references and plan.statement and plan.statement.is_view:
        reason = "a view cannot hold a lookup join, whose rows are fetched when it runs; create a table"
        raise QueryError(reason, references[0].place)
    return references


def restrict_to_lookup_rules(options: Options) -> Options:
    """Disable every rule that is not safe for statements of any kind."""
    off = (r.name for r in RULES if r.streams != "any")
    return replace(options, disabled_rules=tuple(dict.fromkeys((*options.disabled_rules, *off))))


def has_possible_lookup(text: str, declared: Iterable[tuple[str, ...]]) -> bool:
    """Whether a text that could not be planned seems to join a declared table as of a time, which Spark cannot run."""
    return bool(_AS_OF.search(text)) and any(name[-1].lower() in text.lower() for name in declared)


def has_all_lookups(plan: Plan, references: list[LookupReference]) -> bool:
    """Whether a plan contains all lookups that its statement references."""
    if plan.stopped:
        return True
    return plan.rewriting is not None and len(lookups_of(plan.physical)) >= len(references)


def make_unplanned_error(plan: Plan, references: list[LookupReference]) -> QueryError:
    """Create the error for a plan without some lookup of its statement."""
    name, place = ".".join(references[0].name), references[0].place
    declined = next((d for d in plan.declined if d.rule in ("from_sql", "driver", "to_sql")), None)
    if declined is not None:
        return QueryError(
            f"{name} is a lookup, but Dovetail cannot parse its query: {declined.reason}", declined.place or place
        )
    scans = (n for n in (plan.logical.walk() if plan.logical else ()) if isinstance(n, Scan) and n.cte)
    if any([p.lower() for p in n.name] == [p.lower() for p in references[0].name] for n in scans):
        return QueryError(f"{name} is a query of WITH here, which hides the lookup {name}; give it another name", place)
    reason = f"{name} is a lookup, and cannot be looked up where it stands; put it to the right of JOIN or LEFT JOIN"
    return QueryError(reason, place)


def _make_unknown_table_error(plan: Plan, catalog: Catalog) -> QueryError | None:
    """Create the error for AS OF a column on a table that is no lookup; Spark allows no column there."""
    for node in plan.logical.walk() if plan.logical else ():
        if not isinstance(node, Scan) or node.as_of is None or catalog.declaration(node.name).versions:
            continue
        try:
            column = next(iter(node.as_of.columns), None)
        except Unsupported:
            continue
        travels = column is not None and can_spark_travel(node, catalog)
        if (column is not None and not travels) or node.as_of.shown.upper() == "PROCTIME()":
            near = _suggest_name(node.name[-1], catalog)
            reason = (
                f"{node.text} is neither a lookup nor a table with versions; {near}register it with register_lookup, "
                "or declare_versions"
            )
            return QueryError(reason, node.as_of.place)
    return None


def _suggest_name(name: str, catalog: Catalog) -> str:
    """Suggest the lookup or table with versions whose name is nearest, as the start of a message."""
    names = {
        n[-1].lower(): n[-1] for n in catalog.declared_names() if _has_temporal_declaration(catalog.declaration(n))
    }
    near = get_close_matches(name.lower(), names, n=1)
    return f"did you mean {names[near[0]]!r}? Otherwise " if near else ""


def _has_temporal_declaration(declared: Declaration) -> bool:
    """Whether a table is declared as a lookup or with versions, so that AS OF a row's time can read it."""
    return declared.lookup is not None or declared.versions is not None


def make_missing_time_error(plan: Logical, catalog: Catalog) -> QueryError | None:
    """Create the error for a lookup without FOR SYSTEM_TIME AS OF, if no table has its name."""
    for node in plan.walk():
        if isinstance(node, Scan) and node.as_of is None and not node.cte:
            lookup = catalog.declaration(node.name).lookup
            if lookup and catalog.columns(node.name) is None:
                return QueryError(f"{lookup.name} is a lookup; write {lookup.name} FOR SYSTEM_TIME AS OF PROCTIME()")
    return None


def _scan_references(text: str) -> Iterator[LookupReference]:
    try:
        t = tokenize(text)
    except Unsupported:
        return
    for i in range(1, len(t)):
        if t[i].word in ("SYSTEM_TIME", "TIMESTAMP") and (t.word(i + 1), t.word(i + 2)) == ("AS", "OF"):
            name, at = _name_before(t, i - (t[i - 1].word == "FOR"))
            if name:
                yield LookupReference(name, t.place(t[at].start))


def _name_before(t: Tokens, end: int) -> tuple[tuple[str, ...], int]:
    """The name that ends before token ``end``, and the index of its first token."""
    at, name = end - 1, []
    while at >= 0 and t[at].is_name:
        name.append(t[at].text)
        if at < 2 or t[at - 1].word != ".":
            break
        at -= 2
    return tuple(reversed(name)), at
