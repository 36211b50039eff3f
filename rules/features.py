"""What a plan must have for a rule to be tried on it: ``@rule(Project, needs=("window",))``.

The rule driver reads the features of a plan once, and then those of each new node.  A feature is a type of node, or one
of these words:

    aggregate    GROUP BY, or a call in a select list
    as_of        FOR SYSTEM_TIME AS OF
    hint         hints of a SELECT
    self_join    a table that is read twice, also in subqueries and WITH
    semi_join    LEFT SEMI or LEFT ANTI JOIN
    star         an item with ``*``
    subquery     a subquery in an expression, or LATERAL
    using        USING or NATURAL
    window       OVER
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from dovetail.planner.logical import Aggregate, Derived, Join, Opaque, Project, Scan
from dovetail.planner.logical.base import expressions
from dovetail.planner.tree import Node

Feature = str | type
_OVER = re.compile(r"(?i)\bover\b")


def features(plan: Node) -> set[Feature]:
    """The features of a plan: at least those that it has, without parsing an expression."""
    nodes = list(plan.walk())
    tables = Counter(
        node.name[-1].lower() if isinstance(node, Scan) else node.text.shown
        for node in nodes
        if isinstance(node, Scan | Opaque)
    )
    found: set[Feature] = {"self_join"} if any(times > 1 for times in tables.values()) else set()
    for node in nodes:
        found.update(type(node).__mro__, _features(node))
    return found


def _features(node: Node) -> Iterator[str]:
    if node.subplans or (isinstance(node, Derived) and node.lateral):
        yield "subquery"
    if any(_OVER.search(scalar.text) for scalar in expressions(node)):
        yield "window"
    match node:
        case Scan():
            if node.as_of:
                yield "as_of"
        case Aggregate():
            yield "aggregate"
        case Join():
            if node.using or node.natural:
                yield "using"
            if node.kind in ("semi", "anti"):
                yield "semi_join"
        case Project():
            if node.hint:
                yield "hint"
            texts = "".join(item.text for item in node.items)
            yield from (feature for sign, feature in (("(", "aggregate"), ("*", "star")) if sign in texts)
