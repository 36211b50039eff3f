"""Settings of a session under which a text means something else than it does to us: such a text is left to Spark."""

from __future__ import annotations

from planner.catalog.interface import Settings
from planner.errors import Unsupported
from planner.expr.tokens import Tokens, tokenize

_SET_OPERATIONS = frozenset(("UNION", "EXCEPT", "MINUS"))


def check_meaning(text: str, settings: Settings) -> None:
    """Raise ``Unsupported`` where Spark, under these settings, does not read a text as ``from_sql`` does."""
    if "${" in text:
        raise Unsupported("Spark puts a value in the place of ${…} before it reads the statement")
    if not any(mark in text for mark in ('"', "\\", "''")) and not settings.reads_otherwise:
        return
    if settings.own_functions_first:
        raise Unsupported("spark.sql.functionResolution.sessionOrder is first: temporary functions hide Spark's own")
    t = tokenize(text)
    for token in t.items:
        said = text[token.start : token.end]
        if reason := _string(said, settings):
            raise Unsupported(reason, t.place(token.start))
    _check_precedence(t, settings)


def _string(said: str, settings: Settings) -> str:
    """Why a token is another one to Spark than to us."""
    quote = said[:1]
    if quote not in ("'", '"'):
        return ""
    if quote == '"' and settings.double_quoted_identifiers:
        return "it is a name in double quotes, as spark.sql.ansi.doubleQuotedIdentifiers has it; write `name`"
    if "\\" in said and settings.escaped_string_literals:
        return "spark.sql.parser.escapedStringLiterals is on, and a text holds a backslash"
    if quote * 2 in said[1:-1] and settings.consecutive_string_literals:
        return "spark.sql.legacy.consecutiveStringLiterals.enabled is on, and a text holds a doubled quote"
    return ""


def _check_precedence(t: Tokens, settings: Settings) -> None:
    words = [token.word for token in t.items]
    if settings.equal_set_operations and "INTERSECT" in words and _SET_OPERATIONS & set(words):
        raise Unsupported("spark.sql.legacy.setopsPrecedence.enabled is on")
    if settings.outer_with_names and words.count("WITH") > 1:
        raise Unsupported("spark.sql.legacy.ctePrecedencePolicy is not CORRECTED")
