"""All words of a part of a query, for a part that may name columns in text which is not parsed."""

from __future__ import annotations

from dovetail.planner.bind.names import Resolver
from dovetail.planner.expr import Scalar
from dovetail.planner.expr.tokens import mentioned
from dovetail.planner.logical import Join, Verbatim, expressions
from dovetail.planner.tree import Node


def words_of(part: Node | Scalar, names: Resolver, *, but: Node | None = None) -> set[str]:
    """All words of a part of a query, folded: the columns it names are among them, and ``*`` for all.

    ``but`` is a part of it that is left out.
    """
    if part == but:
        return set()
    below: tuple[Node | Scalar, ...] = part.plans if isinstance(part, Scalar) else (*part.children, *expressions(part))
    found = mentioned(part.text) if isinstance(part, Scalar | Verbatim) else frozenset()
    merged = part.using if isinstance(part, Join) else ()
    return {*names.folded((*found, *merged))}.union(*(words_of(one, names, but=but) for one in below))
