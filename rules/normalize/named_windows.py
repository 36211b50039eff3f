"""Writes the windows of a WINDOW clause where they are used."""

from __future__ import annotations

from dataclasses import replace

from dovetail.planner.expr import Scalar
from dovetail.planner.expr.ranking import read_first_value, read_ranking, read_ranking_test
from dovetail.planner.expr.tokens import Tokens, tokenize
from dovetail.planner.logical import Filter, Project, Windows
from dovetail.planner.tree import unwrap
from dovetail.rules.context import Context
from dovetail.rules.rule import rule


@rule(Project, needs=(Windows,), streams="one")
def named_windows(node: Project, ctx: Context) -> Project | None:
    """Write ``rank() OVER w … WINDOW w AS (ORDER BY x)`` as ``rank() OVER (ORDER BY x)``, for the nearest rows.

    ORDER BY cannot use the names: Spark finds them in the select list and in QUALIFY alone.
    """
    above = unwrap(node.child)
    qualify = above if isinstance(above, Filter) and above.clause == "QUALIFY" else None
    windows = unwrap(qualify.child) if qualify else above
    if not isinstance(windows, Windows) or windows.definitions.plans:
        return None
    t = tokenize(windows.definitions.text)
    parts = t.split(0, len(t))
    if any(t.word(lo + 2) != "(" for lo, _ in parts):
        return None  # a second name of a window
    definitions = {t[lo].text: t.slice(lo + 2, hi) for lo, hi in parts}
    conditions = qualify.condition if qualify else ()
    items, conditions = (
        tuple(_with_windows(one, definitions) for one in scalars) for scalars in (node.items, conditions)
    )
    if not any(map(_ranks, items)) and not any(map(read_ranking_test, conditions)):
        return None
    child = replace(qualify, child=windows.child, condition=conditions) if qualify else windows.child
    return replace(node, child=child, items=items, names=node.output)


def _ranks(item: Scalar) -> bool:
    return read_ranking(item) is not None or read_first_value(item) is not None


def _uses(t: Tokens, definitions: dict[str, str]) -> list[int]:
    """Where a text has OVER before one of the names, whose case counts."""
    names = ((i, t[i + 2 if t.word(i + 1) == "(" else i + 1].text) for i in range(len(t) - 1) if t.word(i) == "OVER")
    return [i for i, name in names if name in definitions]


def _with_windows(scalar: Scalar, definitions: dict[str, str]) -> Scalar:
    t = tokenize(scalar.text)
    text = scalar.text
    for i in reversed(_uses(t, definitions)):
        in_brackets = t.word(i + 1) == "("
        name = t[i + 2 if in_brackets else i + 1]
        end = t[t.match[i + 1]].end if in_brackets else name.end
        text = f"{text[: t[i + 1].start]}{definitions[name.text]}{text[end:]}"
    return scalar if text == scalar.text else replace(scalar, text=text, whole=None)
