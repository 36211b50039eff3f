"""Statements with lookups cannot fall back to Spark: every lookup is planned, or the statement is an error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from optimizer.options import Options
from optimizer.plan import Plan
from planner.catalog import Catalog
from planner.errors import HintError, Place, QueryError, Unsupported
from planner.expr.tokens import Tokens, tokenize
from planner.logical import Logical, Scan
from planner.sql.lookup_views import lookups_of
from rules.batches import RULES

_AS_OF = re.compile(r"(?i)\b(system_time|timestamp)\s+as\s+of\b")


@dataclass(frozen=True)
class Mention:
    """A table with FOR SYSTEM_TIME AS OF in a text, and where it stands."""

    name: tuple[str, ...]
    place: Place


def mentioned(plan: Plan, catalog: Catalog) -> list[Mention]:
    """The lookups that a statement names.  Raises ``QueryError`` for one that cannot be where it stands."""
    if plan.error or not _AS_OF.search(plan.text):
        return []
    mentions = [m for m in _mentions(plan.text) if catalog.declaration(m.name).lookup]
    if not mentions and (error := _unknown(plan, catalog)):
        raise error
    if mentions and "VIEW" in plan.prefix.upper().split():
        reason = "a view cannot hold a lookup join, whose rows are fetched when it runs; create a table"
        raise QueryError(reason, mentions[0].place)
    return mentions


def only_lookups(options: Options) -> Options:
    """The options with all rules switched off but those that a statement of any kind can bear."""
    off = (r.name for r in RULES if r.streams != "any")
    return replace(options, disabled_rules=tuple(dict.fromkeys((*options.disabled_rules, *off))))


def strictly(plan: Plan, options: Options) -> Plan:
    """The plan, with an error where it has warnings and the user wants none."""
    if not options.strict_hints or plan.error or plan.stopped or not plan.warnings:
        return plan
    first, *more = plan.warnings
    reason = "; ".join([first.reason, *map(str, more)])
    return replace(plan, error=HintError(reason, first.place))


def speaks_of_time(plan: Plan) -> bool:
    """Whether Spark cannot even analyse the statement as written: it asks for tables as of a row's time."""
    return plan.physical is not None and any(n.required for n in plan.physical.walk())


def may_look_up(text: str, declared: Iterable[tuple[str, ...]]) -> bool:
    """Whether a text that could not be planned seems to ask for a declared table as of a time: Spark cannot run it."""
    return bool(_AS_OF.search(text)) and any(name[-1].lower() in text.lower() for name in declared)


def all_planned(plan: Plan, mentions: list[Mention]) -> bool:
    """Whether a plan looks up all that its statement names."""
    if plan.stopped:
        return True
    return plan.rewriting is not None and len(lookups_of(plan.physical)) >= len(mentions)


def not_planned(plan: Plan, mentions: list[Mention]) -> QueryError:
    """The error for a plan that does not."""
    name, place = ".".join(mentions[0].name), mentions[0].place
    held = next((d for d in plan.declined if d.rule in ("from_sql", "driver", "to_sql")), None)
    if held is not None:
        return QueryError(f"{name} is a lookup, and its query is not carried: {held.reason}", held.place or place)
    reason = f"{name} is a lookup, and cannot be looked up where it stands; put it to the right of JOIN or LEFT JOIN"
    return QueryError(reason, place)


def _unknown(plan: Plan, catalog: Catalog) -> QueryError | None:
    """The error for a table as of a column's time that is no lookup: Spark takes no column there."""
    for node in plan.logical.walk() if plan.logical else ():
        if not isinstance(node, Scan) or node.as_of is None or catalog.declaration(node.name).versions:
            continue
        try:
            column = next(iter(node.as_of.columns), None)
        except Unsupported:
            continue
        if column is not None or node.as_of.shown.upper() == "PROCTIME()":
            reason = (
                f"{node.text} is neither a lookup nor a table with versions; register it with register_lookup, "
                "or declare_versions"
            )
            return QueryError(reason, node.as_of.place)
    return None


def asked_without_time(plan: Logical, catalog: Catalog) -> QueryError | None:
    """The error for a lookup that is named like a table, where there is no such table."""
    for node in plan.walk():
        if isinstance(node, Scan) and node.as_of is None and not node.cte:
            lookup = catalog.declaration(node.name).lookup
            if lookup and catalog.columns(node.name) is None:
                return QueryError(f"{lookup.name} is a lookup; write {lookup.name} FOR SYSTEM_TIME AS OF PROCTIME()")
    return None


def _mentions(text: str) -> Iterator[Mention]:
    try:
        t = tokenize(text)
    except Unsupported:
        return
    for i in range(1, len(t)):
        if t[i].word in ("SYSTEM_TIME", "TIMESTAMP") and (t.word(i + 1), t.word(i + 2)) == ("AS", "OF"):
            name, at = _name_before(t, i - (t[i - 1].word == "FOR"))
            if name:
                yield Mention(name, t.place(t[at].start))


def _name_before(t: Tokens, end: int) -> tuple[tuple[str, ...], int]:
    """The name that ends before token ``end``, and where it begins."""
    at, name = end - 1, []
    while at >= 0 and t[at].is_name:
        name.append(t[at].text)
        if at < 2 or t[at - 1].word != ".":
            break
        at -= 2
    return tuple(reversed(name)), at
