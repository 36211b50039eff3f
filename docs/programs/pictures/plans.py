"""A plan before and after: the trees that Dovetail itself prints, with its own estimates."""

from __future__ import annotations

import textwrap
from typing import Any

from docs.programs.results import RESULTS
from docs.programs.svg import Drawing
from dovetail.golden_plans.case import read_case
from dovetail.golden_plans.planned import plan_case
from dovetail.planner.explain.records import Choice

_CASE = RESULTS.parents[1] / "golden_plans" / "cases" / "measured" / "intervals_of_two_lengths.plan"
_WIDTH = 345


def plans() -> Drawing:
    """Draw both plans of a golden case, beside each other."""
    plan = plan_case(read_case(_CASE))
    (choice,) = (one for one in plan.decisions if isinstance(one, Choice))
    before, after = choice.rejected[-1].pairs, choice.chosen.pairs
    assert before
    assert after
    drawing = Drawing(
        760,
        360,
        "A plan before and after",
        "Before: a join of events and leases by a band alone, which Spark runs as a nested loop. "
        "After: a join on bins of two widths; the condition as written still decides.",
    )
    drawing.text(20, 30, "The same query, as Spark gets it without Dovetail and with it", "title")
    halves = (
        (20, "without", plan.logical, "removed", f"{before:,.0f} pairs"),
        (395, "with Dovetail", plan.physical, "added", f"about {after:,.0f} candidate pairs"),
    )
    for left, name, tree, style, pairs in halves:
        assert tree is not None
        join = tree.children[0]
        drawing.text(left, 62, name, "strong")
        _node(drawing, left, 76, tree, "box", "")
        drawing.arrow((left + _WIDTH / 2, 156), (left + _WIDTH / 2, 132))
        _node(drawing, left, 156, join, style, pairs)
        for n, scan in enumerate(join.children):
            x = left + n * (_WIDTH + 15) / 2
            drawing.arrow((x + 82, 286), (x + 82, 262))
            _node(drawing, x, 286, scan, "box", "", (_WIDTH - 15) / 2)
    return drawing


def _node(drawing: Drawing, x: float, y: float, node: Any, style: str, pairs: str, width: float = _WIDTH) -> None:
    lines = textwrap.wrap(node.detail, 44, max_lines=4, placeholder=" …")
    drawing.box(x, y, width, 106 if pairs else 56, style)
    drawing.text(x + 12, y + 22, node.label, "strong")
    for n, line in enumerate(lines[: 3 if pairs else 2]):
        drawing.text(x + 12, y + 43 + 18 * n, line, "code")
    if pairs:
        drawing.text(x + 12, y + 96, pairs, "strong")
