"""The interface of rules, and the decorator that defines one.

    @rule(on=Join)
    def band_join(join, ctx):
        \"\"\"One sentence, which the trace prints.\"\"\"

A rule gets one node and returns a new node; None if the node has another shape; or ``ctx.decline(reason)`` if the shape
fits but the rewriting does not apply.  It never edits nodes and never walks the tree: the driver does.

A rule does not run on statements that read a stream unless it allows them: ``@rule(Join, streams="one")``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any, Literal

from planner.tree import Node
from rules.context import Context

Streams = Literal["none", "one", "any"]


@dataclass(frozen=True)
class Rule:
    """A named change of a plan: ``why`` is the first sentence of its docstring.

    ``streams``: how many of them a statement may read for this rule.  ``none``: tables only.  ``one``: a stream beside
    tables too, where what it makes of each row keeps nothing from one micro-batch to the next.  ``any``: it does not
    touch what Spark keeps of a stream, or stands for what Spark cannot run.
    """

    name: str
    on: tuple[type, ...]
    function: Callable[[Any, Context], Node | None]
    why: str
    doc: str
    streams: Streams = "none"

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


def rule(*on: type, streams: Streams = "none") -> Callable[[Callable[[Any, Context], Node | None]], Rule]:
    """Make a function of (node, context) the rule of its name, for nodes of these types and so many streams."""

    def decorate(function: Callable[[Any, Context], Node | None]) -> Rule:
        doc = cleandoc(function.__doc__ or "")
        why = " ".join(doc.split("\n\n")[0].split())
        return Rule(function.__name__, on, function, why, doc, streams)

    return decorate


@dataclass(frozen=True)
class Batch:
    """Rules that run together, once or to a fixed point; ``why`` explains the position of the batch."""

    name: Literal["normalize", "recognize", "lower"]
    why: str
    rules: tuple[Rule, ...]
    settle: bool = False
