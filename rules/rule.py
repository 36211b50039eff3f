"""The interface of rules, and the decorator that defines one.

    @rule(Join, streams="one")
    def band_join(join, ctx):
        \"\"\"One sentence, which the trace prints.\"\"\"
        if not any(map(looks_like_band, join.condition)):
            return None  # another shape
        if ctx.is_in_correlated_subquery:
            return ctx.decline("it is in a correlated subquery", join.place)
        return BandJoin(…)

A rule gets one node and returns a new node; None if the node has another shape; or ``ctx.decline(reason)`` if the shape
fits but the rewriting does not apply.  It never edits nodes and never walks the tree: the rule driver does
(``optimizer/planning/driver.py``).  A new node has the same ``output`` as the old one; the driver raises ``RuleError``
for any other.

The order in which the driver applies the rules of a batch:

- *normalize* and *recognize* run bottom-up: a rule sees inputs to which the batch has been applied.  After a rule has
  fired on a node, only rules behind it in the batch see the new node in this pass.  A batch with ``fixed_point`` is
  applied again until no rule fires, so that rules before it see the new node in the next pass.
- *lower* runs top-down, once: a rule sees logical inputs.  The first rule that returns a node wins.  If that node is
  logical (one of several alternatives), it is lowered in turn by all rules of the batch; if it is physical, its inputs
  are lowered next.  A node that no rule takes is left to Spark.

The driver tries a rule only on plans that have one of the features that it ``needs``, as ``@rule(Project,
needs=("window",))``.  A feature is a type of node, or one of these words:

    aggregate    GROUP BY, or a call in a select list
    as_of        FOR SYSTEM_TIME AS OF
    hint         hints of a SELECT
    self_join    a table that is read twice, also in subqueries and WITH
    semi_join    LEFT SEMI or LEFT ANTI JOIN
    star         an item with ``*``
    subquery     a subquery in an expression, or LATERAL
    using        USING or NATURAL
    window       OVER

A rule does not run on statements that read a stream unless it allows them: ``@rule(Join, streams="one")``, as a rule
does that only rewrites a condition.

What rules read and write:

- ``@rule(Project, Sort, block=True)`` gets a query block (``rules/query/query_block.py``) in the place of a node;
- a comparison by ``compared`` (``planner/conditions/compared.py``); sides, types and equal spellings of expressions by
  ``condition_scope(join, ctx)``, which raises ``Refused`` for a name that cannot be resolved.  A function that
  ``planner/expr/calls.py`` does not name is ``exp.Anonymous``, whose ``name`` is as written;
- a conjunct that another one of the same meaning replaces remembers what the user wrote, which is what is printed:
  ``Scalar(text, (), conjunct.place, conjunct.whole or Whole(conjunct, 1))``.  Conditions of WHERE reach the joins below
  by ``push_filters``;
- a rule on ``Join`` leaves alone USING and NATURAL (``join.using``, ``join.natural``), a LATERAL side
  (``references_left``) and correlated subqueries (``ctx.is_in_correlated_subquery``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any, Literal

from dovetail.planner.logical import Aggregate, Join, Opaque, Project, Scan
from dovetail.planner.logical.base import expressions
from dovetail.planner.logical.relations import inner_queries
from dovetail.planner.tree import Node
from dovetail.rules.context import Context

Word = Literal["aggregate", "as_of", "hint", "self_join", "semi_join", "star", "subquery", "using", "window"]
Feature = Word | type
Streams = Literal["none", "one", "any"]
_OVER = re.compile(r"(?i)\bover\b")


@dataclass(frozen=True)
class Rule:
    """A named change of a plan: ``why`` is the first paragraph of its docstring, which traces print as it stands.

    ``streams``: the number of streams that a statement may read for this rule to run on it.  ``none``: no stream, only
    tables.  ``one``: at most one stream, next to tables; the rule's operators process each row without state between
    micro-batches.  ``any``: any number of streams; the rule changes nothing of the state that Spark keeps for them, or
    replaces syntax that Spark cannot run.

    ``block``: the function gets the ``QueryBlock`` of a node, and is not called for a node that has none.  If it is on
    ``Sort``, an ORDER BY is part of the block, and the function is not called for the SELECT below it.

    ``needs``: features, one of which a plan must have; empty for a rule that takes any plan.
    """

    name: str
    on: tuple[type, ...]
    function: Callable[[Any, Context], Node | None]
    why: str
    doc: str
    streams: Streams = "none"
    needs: frozenset[Feature] = frozenset()
    block: bool = False

    def refused(self, streams: int) -> str | None:
        """Why the rule leaves a statement alone that reads so many streams; None where it need not."""
        if not streams or self.streams == "any" or (self.streams == "one" and streams == 1):
            return None
        if self.streams == "one":
            return (
                "the statement reads more than one stream, and a rewriting would change Spark's state of them; "
                "opt.stream runs joins of streams"
            )
        return "the statement reads a stream, and this rewriting is for tables"


def rule(
    *on: type, block: bool = False, needs: tuple[Feature, ...] = (), streams: Streams = "none"
) -> Callable[[Callable[[Any, Context], Node | None]], Rule]:
    """Make a function of (node, context) a rule of the same name: it reads nodes of the types ``on``.

    ``block``, ``needs`` and ``streams``: as in ``Rule``.
    """

    def decorate(function: Callable[[Any, Context], Node | None]) -> Rule:
        doc = cleandoc(function.__doc__ or "")
        why = " ".join(doc.split("\n\n")[0].split())
        return Rule(function.__name__, on, function, why, doc, streams, frozenset(needs), block)

    return decorate


@dataclass(frozen=True, eq=False)
class Batch:
    """Rules that run together, in this order; ``why`` explains the position of the batch.

    ``fixed_point``: whether the batch is applied again until it changes nothing, or once (Catalyst's ``FixedPoint`` and
    ``Once``).
    """

    name: Literal["normalize", "recognize", "lower"]
    why: str
    rules: tuple[Rule, ...]
    fixed_point: bool = False


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


def _features(node: Node) -> Iterator[Word]:
    if inner_queries(node):
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
            if "(" in texts:
                yield "aggregate"
            if "*" in texts:
                yield "star"
