"""The settings of a session that change what SQL means, and the statements that run unchanged because of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dovetail.planner.catalog.engine import NATIVE, SAIL, SPARK, Engine
from dovetail.planner.errors import Unsupported
from dovetail.planner.expr.tokens import Tokens, tokenize

QUOTED_REGEX = "spark.sql.parser.quotedRegexColumnNames"
_SET_OPERATIONS = frozenset(("UNION", "EXCEPT", "MINUS"))


class NameCase:
    """Compares names as a session does: in any case, unless ``spark.sql.caseSensitive`` is set."""

    def __init__(self, case_sensitive: bool) -> None:
        self.case_sensitive = case_sensitive

    def fold(self, name: str) -> str:
        """The form of a name in which two names are compared."""
        return name if self.case_sensitive else name.lower()

    def folded(self, names: Iterable[str]) -> tuple[str, ...]:
        """Several names in that form."""
        return tuple(map(self.fold, names))

    def is_same(self, one: str | None, other: str) -> bool:
        """Whether two names are one name; None is no name."""
        return one is not None and self.fold(one) == self.fold(other)

    def is_among(self, name: str, names: Iterable[str]) -> bool:
        """Whether a name is one of several."""
        return self.fold(name) in map(self.fold, names)


@dataclass(frozen=True)
class Settings(NameCase):
    """The session settings that affect the semantics of SQL."""

    ansi: bool = True
    case_sensitive: bool = False
    time_zone: str = "UTC"
    asof_join: bool = False  # Spark's ASOF JOIN is enabled
    nearest_by: bool = True  # Spark runs NEAREST BY: it is 4.2 or later, and cross joins are enabled
    sail: bool = False  # the engine is Sail
    native: bool = False  # Comet or Gluten runs Spark's plans
    timestamp_ntz: bool = False  # TIMESTAMP in a statement means TIMESTAMP_NTZ
    commas_last: bool = False  # a comma in FROM binds looser than JOIN
    double_quoted_identifiers: bool = False  # "k" is a name
    escaped_string_literals: bool = False  # a backslash is a backslash
    consecutive_string_literals: bool = False  # 'it''s' is two strings
    equal_set_operations: bool = False  # INTERSECT binds no tighter than UNION
    outer_with_names: bool = False  # of two definitions of a name in WITH, the outer one wins, or neither
    quoted_names_are_patterns: bool = False  # `a.*` in a SELECT list is all columns that match
    own_functions_first: bool = False  # a temporary function shadows Spark's function of its name
    others: tuple[tuple[str, str], ...] = ()  # other settings that may change the meaning of SQL

    @property
    def engine(self) -> Engine:
        """What the engine does otherwise than Spark."""
        return SAIL if self.sail else NATIVE if self.native else SPARK

    @property
    def changes_parsing(self) -> bool:
        """Whether even SQL without quotes may have another meaning."""
        return self.equal_set_operations or self.outer_with_names or self.own_functions_first

    @property
    def has_fixed_offset_zone(self) -> bool:
        """Whether every day of the session's time zone has 24 hours."""
        zone = self.time_zone.upper()
        return zone in ("UTC", "ETC/UTC", "GMT", "ETC/GMT", "Z", "ZULU", "UCT") or zone[:1] in "+-"


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
