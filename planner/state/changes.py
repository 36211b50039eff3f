"""Changes of rows, in the convention of change data feeds: how each counts.

``insert`` and ``update_postimage`` add a row, ``delete`` and ``update_preimage`` take one away that is the same in all
columns.  A bag of rows with such counts can be joined as it stands, since an inner join is linear in each input: a
joined row counts as much as the product of what it is made of (Z-sets; Budiu et al., DBSP, 2023).
"""

from __future__ import annotations

from planner.expr import quote

ADDS, TAKES = ("insert", "update_postimage"), ("delete", "update_preimage")
COUNT = "__dt_count"
"""The column in which a row of a changelog says how it counts: 1 or -1; a joined row the product."""


def count_of(change: str) -> str:
    """How a row counts whose kind of change is in a column: 1, or -1."""
    return f"CASE WHEN {quote(change)} IN ({_listed(ADDS)}) THEN 1 ELSE -1 END"


def known(change: str, table: str) -> str:
    """The kind of change of a row; an error that names it for one that is none."""
    kinds = ", ".join((*ADDS, *TAKES))
    said = f" is no kind of change in {table}.{change}; write one of {kinds}".replace("\\", "\\\\").replace("'", "\\'")
    wrong = f"raise_error(concat(coalesce({quote(change)}, 'NULL'), '{said}'))"
    return f"CASE WHEN {quote(change)} IN ({_listed((*ADDS, *TAKES))}) THEN {quote(change)} ELSE {wrong} END"


def _listed(kinds: tuple[str, ...]) -> str:
    return ", ".join(f"'{kind}'" for kind in kinds)
