"""Reads pipe syntax as query blocks: ``FROM t |> WHERE a |> SELECT b`` is ``SELECT b FROM t WHERE a``."""

from __future__ import annotations

from dovetail.planner.logical import Logical, Pipeline
from dovetail.rules.context import Context
from dovetail.rules.rule import rule


@rule(Pipeline, streams="any")
def pipes(node: Pipeline, ctx: Context) -> Logical:
    """Replace a query in pipe syntax by the same query in clauses.

    Spark does this as well; the rules need to see the clauses.
    """
    return node.child
