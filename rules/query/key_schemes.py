"""The keys that the conjuncts of a join condition give the rows of both sides."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from dovetail.planner.band.linear import ConditionScope
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.keys.key_set import KeyScheme
from dovetail.planner.keys.masks import read_masks
from dovetail.planner.keys.read_keys import looks_like_keys, read_keys
from dovetail.planner.logical import Join
from dovetail.rules.context import Context
from dovetail.rules.query.condition_scope import condition_scope


def read_key_schemes(join: Join, ctx: Context) -> tuple[tuple[KeyScheme, ...], tuple[tuple[Scalar, Refused], ...]]:
    """Return the key schemes of a condition, and a reason for each conjunct that may have keys and has none.

    A conjunct has a second one where bands beside an equality can have keys as well.
    """
    candidates = [number for number, conjunct in enumerate(join.condition) if looks_like_keys(conjunct)]
    if not candidates:
        return (), ()
    scope = condition_scope(join, ctx)
    found: list[KeyScheme] = []
    refused: list[tuple[Scalar, Refused]] = []
    with suppress(Refused):  # then each of them has a reason
        masks = read_masks([join.condition[n] for n in candidates], _behind(scope, join, candidates[0]))
        found += [masks] if masks else []
    for number in candidates:
        conjunct = join.condition[number]
        if found and conjunct in found[0].conjuncts:
            continue
        try:
            found += read_keys(conjunct, _behind(scope, join, number))
        except Refused as no:
            refused.append((conjunct, no))
    return tuple(found), tuple(refused)


def _behind(scope: ConditionScope, join: Join, number: int) -> ConditionScope:
    """The scope of a conjunct, with those in front of it as guards."""
    return replace(scope, guards=join.condition[:number])
