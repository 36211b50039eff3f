"""Recognizes joins by keys that are no equality: ``a.x = b.x OR a.y = b.y``, ``array_contains(b.items, a.x)``."""

from dovetail.planner.keys.read_keys import looks_like_keys
from dovetail.planner.logical import Join, KeyedJoin, Logical
from dovetail.rules.context import Context
from dovetail.rules.query.correlation import is_in_correlated_subquery, references_left
from dovetail.rules.query.key_schemes import read_key_schemes
from dovetail.rules.rule import rule


@rule(Join, streams="one")
def key_join(join: Join, ctx: Context) -> Logical | None:
    """Recognize a join whose condition gives the rows of both sides keys, of which each matching pair shares one.

    Spark hashes or sorts by equalities that stand alone; behind OR, in an array or beside NULL they leave it a nested
    loop.  The condition stays in the join, whole and as written.
    """
    if not any(map(looks_like_keys, join.condition)) or join.using or join.natural:
        return None
    if references_left(join.right) or is_in_correlated_subquery(ctx):
        return None
    found, refused = read_key_schemes(join, ctx)
    for conjunct, no in refused:
        ctx.decline(f"{conjunct.shown}: {no.reason}", no.place or conjunct.place, no.code or "or_condition")
    return KeyedJoin(join.left, join.right, join.kind, found, join.condition) if found else None
