"""Stable functions, in PostgreSQL's sense: constant within a query, such as current_date and user."""

from __future__ import annotations

from dovetail.planner.expr.calls import FUNCTIONS_WITHOUT_BRACKETS
from dovetail.planner.expr.tokens import tokenize

_CALLED = frozenset(
    "curdate current_catalog current_database current_schema current_time current_timezone "
    "localtimestamp now user".split()
)


def first_stable_function(text: str) -> str | None:
    """Return the first stable function in an expression; a column of that name counts too."""
    t = tokenize(text)
    for n in range(len(t)):
        word = t[n].word.lower()
        found = word in FUNCTIONS_WITHOUT_BRACKETS or (word in _CALLED and t.word(n + 1) == "(")
        if found and (n == 0 or t[n - 1].word != "."):
            return word
    return None
