"""Detects statements whose meaning depends on legacy settings of the session: they run unchanged."""

from __future__ import annotations

from dovetail.planner.catalog.interface import Settings
from dovetail.planner.errors import Unsupported
from dovetail.planner.expr.tokens import Tokens, tokenize

QUOTED_REGEX = "spark.sql.parser.quotedRegexColumnNames"
_SET_OPERATIONS = frozenset(("UNION", "EXCEPT", "MINUS"))


def check_settings(text: str, settings: Settings) -> None:
    """Raise ``Unsupported`` if Spark, with these settings, parses a statement differently than ``from_sql``."""
    if "${" in text:
        raise Unsupported("Spark substitutes ${…} before it parses the statement")
    if "`" in text and settings.quoted_names_are_patterns:
        raise Unsupported(f"{QUOTED_REGEX} is on: Spark reads names in backquotes as column patterns")
    if not any(mark in text for mark in ('"', "\\", "''")) and not settings.changes_parsing:
        return
    if settings.own_functions_first:
        raise Unsupported("spark.sql.functionResolution.sessionOrder is first: temporary functions hide Spark's own")
    t = tokenize(text)
    for token in t.items:
        token_text = text[token.start : token.end]
        if reason := _string_problem(token_text, settings):
            raise Unsupported(reason, t.place(token.start))
    _check_precedence(t, settings)


def _string_problem(token_text: str, settings: Settings) -> str:
    """Why Spark reads a token differently; empty if it does not."""
    quote = token_text[:1]
    if quote not in ("'", '"'):
        return ""
    if quote == '"' and settings.double_quoted_identifiers:
        return "it is a name in double quotes, as spark.sql.ansi.doubleQuotedIdentifiers has it; write `name`"
    if "\\" in token_text and settings.escaped_string_literals:
        return "spark.sql.parser.escapedStringLiterals is on, and a text holds a backslash"
    if quote * 2 in token_text[1:-1] and settings.consecutive_string_literals:
        return "spark.sql.legacy.consecutiveStringLiterals.enabled is on, and a text holds a doubled quote"
    return ""


def _check_precedence(t: Tokens, settings: Settings) -> None:
    words = [token.word for token in t.items]
    if settings.equal_set_operations and "INTERSECT" in words and _SET_OPERATIONS & set(words):
        raise Unsupported("spark.sql.legacy.setopsPrecedence.enabled is on")
    if settings.outer_with_names and words.count("WITH") > 1:
        raise Unsupported("spark.sql.legacy.ctePrecedencePolicy is not CORRECTED")
