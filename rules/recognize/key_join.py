"""Recognizes joins by keys that are no equality: ``a.x = b.x OR a.y = b.y``, ``array_contains(b.items, a.x)``."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from dovetail.planner.band.linear import ConditionScope
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.keys.key_set import KeyScheme
from dovetail.planner.keys.masks import read_masks
from dovetail.planner.keys.read_keys import looks_like_keys, read_keys
from dovetail.planner.logical import Join, KeyedJoin, Logical
from dovetail.planner.logical.relations import references_left
from dovetail.rules.context import Context
from dovetail.rules.query.condition_scope import condition_scope
from dovetail.rules.rule import rule


@rule(Join, streams="one")
def key_join(join: Join, ctx: Context) -> Logical | None:
    """Recognize a join whose condition gives the rows of both sides keys, of which each matching pair shares one.

    Spark hashes or sorts by equalities that stand alone; behind OR, in an array or beside NULL they leave it a nested
    loop.  The condition stays in the join, whole and as written.
    """
    if not any(map(looks_like_keys, join.condition)) or join.using or join.natural:
        return None
    if references_left(join.right) or ctx.is_in_correlated_subquery:
        return None
    found, refused = read_key_schemes(join, ctx)
    for conjunct, no in refused:
        ctx.decline(f"{conjunct.shown}: {no.reason}", no.place or conjunct.place, no.code or "or_condition")
    return KeyedJoin(join.left, join.right, join.kind, found, join.condition) if found else None


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
