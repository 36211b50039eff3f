"""The kinds of change of change data feeds, and their multiplicities.

``insert`` and ``update_postimage`` add a row, ``delete`` and ``update_preimage`` remove one that is equal in all
columns.  A multiset of rows with such counts can be joined directly, since an inner join is linear in each input: the
count of a joined row is the product of the counts of its rows (Z-sets; Budiu et al., DBSP, 2023).
"""

from __future__ import annotations

import re

from dovetail.planner.expr import quote

ADDS, TAKES = ("insert", "update_postimage"), ("delete", "update_preimage")
COUNT = "__dt_count"
"""The column with the multiplicity of a row of a changelog: 1 or -1; of a joined row the product."""


UNKNOWN_KIND = re.compile(
    rf"(?<=\[USER_RAISED_EXCEPTION\] )[^\n]* is no kind of change in [^\n]*?; write one of {', '.join((*ADDS, *TAKES))}"
)
"""Finds the error of ``checked_kind`` in a longer text; the plan in that text has the words of the error, too."""


def count_of(change: str) -> str:
    """Return the multiplicity of a change by the column with its kind: 1 or -1."""
    return f"CASE WHEN {quote(change)} IN ({_listed(ADDS)}) THEN 1 ELSE -1 END"


def checked_kind(change: str, table: str) -> str:
    """Return the kind of change of a row; an unknown kind raises an error that names it."""
    kinds = ", ".join((*ADDS, *TAKES))
    message = f" is no kind of change in {table}.{change}; write one of {kinds}".replace("\\", "\\\\").replace(
        "'", "\\'"
    )
    wrong = f"raise_error(concat(coalesce({quote(change)}, 'NULL'), '{message}'))"
    return f"CASE WHEN {quote(change)} IN ({_listed((*ADDS, *TAKES))}) THEN {quote(change)} ELSE {wrong} END"


def _listed(kinds: tuple[str, ...]) -> str:
    return ", ".join(f"'{kind}'" for kind in kinds)
