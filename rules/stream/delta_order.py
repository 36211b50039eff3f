"""Reads the hint ``DELTA_ORDER(a, b, c)``: the order in which the paths of a delta join look relations up.

Of the relations that a path can look up next, it takes the first in the hint; relations not in the hint come last.
"""

from __future__ import annotations

from dovetail.planner.expr import Scalar
from dovetail.planner.hints.blocks import DELTA_ORDER, read_hints
from dovetail.planner.logical import Logical
from dovetail.rules.context import Context
from dovetail.rules.query.hinted import hintable_names, is_named, no_relation, relation_name

_FORM = f"write {DELTA_ORDER}(relation, relation, …)"


def delta_order(block: Scalar | None, relations: tuple[Logical, ...], ctx: Context) -> tuple[int, ...]:
    """Return the relations that the hint of a SELECT names, by number; warns of arguments without effect."""
    found: tuple[int, ...] = ()
    names = [next(hintable_names(relation), ()) for relation in relations]
    first = ""
    for hint in read_hints(block):
        if hint.meant == DELTA_ORDER:
            ctx.warn(f"{hint.text}: there is no hint {hint.name}; did you mean {hint.meant}?", hint.place)
        if hint.name != DELTA_ORDER:
            continue
        if first:
            ctx.warn(f"{hint.text}: {first} already orders this join; keep one", hint.place)
            continue
        first = hint.text
        if not hint.arguments:
            ctx.warn(f"{hint.text} names no relation; {_FORM}", hint.place)
        for argument in hint.arguments:
            wanted = relation_name(argument)
            number = next((n for n, name in enumerate(names) if wanted and is_named(name, wanted)), None)
            if not wanted:
                ctx.warn(f"{hint.text}: {argument.shown} is no relation; {_FORM}", argument.place)
            elif number is None:
                ctx.warn(no_relation(hint, wanted, names), argument.place)
            elif number in found:
                ctx.warn(f"{hint.text}: {argument.shown} is named twice; the first counts", argument.place)
            else:
                found = (*found, number)
    return found
