"""Recognizes counts that are only compared with 0: ``(SELECT count(*) …) = 0`` is NOT EXISTS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dovetail.planner.band.comparisons import looks_like_band
from dovetail.planner.conditions.canonical_form import comparison
from dovetail.planner.expr import HOLE, Scalar
from dovetail.planner.expr.tokens import words
from dovetail.planner.logical import Cte, Logical
from dovetail.rules.query.query_block import read_block
from dovetail.rules.query.tables import tables

_COUNTS = (words("count(*)"), words("count(1)"))
_NONE = frozenset(("n=0", "n==0", "n<=0", "n<1", "0=n", "0==n", "0>=n", "1>n"))
_SOME = frozenset(("n>0", "n>=1", "n<>0", "n!=0", "0<n", "1<=n", "0<>n", "0!=n"))


def as_exists(conjunct: Scalar, outer: Logical, definitions: Mapping[str, Cte]) -> Scalar:
    """EXISTS in the place of a count that is more than 0, NOT EXISTS where it is 0; any other conjunct as it is.

    A count over no groups is never NULL, so that neither is ever unknown.  Rows that are counted within a band of the
    very table stay a count, which a window computes for each row: ``outer`` is what WHERE stands over.
    """
    block = read_block(conjunct.plans[0]) if len(conjunct.plans) == 1 else None
    if block is None or not block.is_plain:
        return conjunct
    if any(map(looks_like_band, block.condition)) and tables(block.tree, definitions) & tables(outer, definitions):
        return conjunct
    if len(block.project.items) != 1 or words(block.project.items[0].text) not in _COUNTS:
        return conjunct
    compared = comparison(conjunct.text)
    normalized = "".join(compared[:3]).replace(f"( {HOLE}0 )", "n") if compared else ""
    if normalized not in _NONE and normalized not in _SOME:
        return conjunct
    test = f"NOT EXISTS ({HOLE}0)" if normalized in _NONE else f"EXISTS ({HOLE}0)"
    return Scalar(test, (replace(block.project, items=(Scalar("1"),)),), conjunct.place)
