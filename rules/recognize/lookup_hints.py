"""Attaches LOOKUP and SHUFFLE_HASH hints to lookup joins (Apache Flink: FLIP-204, FLIP-462)."""

from __future__ import annotations

from dataclasses import replace

from dovetail.planner.expr import Scalar, quote
from dovetail.planner.hints.blocks import Hint, read_hints
from dovetail.planner.hints.lookup import LOOKUP, Value, read_lookup_hint
from dovetail.planner.logical import Logical, Project
from dovetail.planner.logical.lookup import LookupJoin
from dovetail.planner.tree import Node
from dovetail.rules.context import Context
from dovetail.rules.lookup.hinted import left_of, lookups_in, named
from dovetail.rules.query.hinted import hintable_names, is_named, looks_through, no_relation, relation_name
from dovetail.rules.rule import rule


@rule(Project, needs=("hint",), streams="any")
def lookup_hints(project: Project, ctx: Context) -> Logical | None:
    """Attach LOOKUP and SHUFFLE_HASH hints to the lookup joins that they name, and warn of hints without effect.

    A hint names the lookup table, by alias or by name, in any case, quoted or not.  If two hints name the same
    table, the first counts.  A SHUFFLE_HASH that names a table of another join stays in the SQL for Spark.
    """
    hints = read_hints(project.hint)
    if not any(h.name == LOOKUP or h.strategy == "SHUFFLE_HASH" for h in hints):
        return None
    requests = _Requests(project, ctx)
    for hint in hints:
        if hint.name == LOOKUP:
            requests.lookup(hint)
    for hint in hints:
        if hint.strategy == "SHUFFLE_HASH":
            requests.shuffle(hint)

    def visit(node: Node) -> Node:
        if not looks_through(node):
            return node
        if isinstance(node, LookupJoin):  # by identity: its inputs may change
            number = next(n for n, j in enumerate(requests.lookups) if j is node)
            options, applied = requests.options[number], requests.applied[number]
            node = node.map_nodes(visit)
            return replace(node, options=tuple(sorted(options.items())), hints=tuple(applied))  # type: ignore[type-var]
        return node.map_nodes(visit)

    return replace(project, child=visit(project.child))  # type: ignore[arg-type]


class _Requests:
    """The requests of the hints of one SELECT, by the number of the lookup join."""

    def __init__(self, project: Project, ctx: Context):
        self.ctx = ctx
        self.lookups = lookups_in(project.child)
        self.relations = list(hintable_names(project.child))
        self.options: list[dict[str, Value]] = [{} for _ in self.lookups]
        self.applied: list[list[str]] = [[] for _ in self.lookups]
        self.hashed: set[int] = set()

    def lookup(self, hint: Hint) -> None:
        read = read_lookup_hint(hint)
        for complaint in read.complaints:
            self.ctx.warn(complaint.reason, complaint.place)
        if not read.table:
            return
        found = named((read.table,), self.lookups)
        if not found:
            self._nothing(hint, Scalar(repr(read.table), (), hint.place))
        for n in found:
            if self.applied[n]:
                self.ctx.warn(f"{hint.text}: {self.applied[n][0]} already applies to this lookup; keep one", hint.place)
            else:
                self.options[n] = dict(read.options)
                self.applied[n].append(hint.text)

    def shuffle(self, hint: Hint) -> None:
        for argument in hint.arguments:
            found = named(relation_name(argument), self.lookups)
            if not found and self.lookups and left_of(argument, self.lookups):
                self._nothing(hint, argument)
            for n in found:
                if n in self.hashed:
                    self.ctx.warn(f"{hint.text}: {argument.shown} is named twice; once will do", argument.place)
                elif self.options[n].get("shuffle") is False:
                    reason = f"{self.applied[n][0]} says 'shuffle'='false', and it is the one that counts"
                    self.ctx.warn(f"{hint.text}: {reason}", argument.place)
                else:
                    self.hashed.add(n)
                    self.options[n]["shuffle"] = True
                    self.applied[n].append(f"{hint.name}({argument.shown})")

    def _nothing(self, hint: Hint, argument: Scalar) -> None:
        """Warn of a hint that names no lookup."""
        name = relation_name(argument)
        shown = ".".join(map(quote, name))
        if not any(is_named(r, name) for r in self.relations if r):
            if () not in self.relations:
                self.ctx.warn(no_relation(hint, name, self.relations), argument.place)
            return
        tables = ", ".join(dict.fromkeys(quote(j.scan.alias or j.table) for j in self.lookups))
        if left_of(argument, self.lookups):
            reason = f"{shown} is the left side of a lookup join, and the hint names what is looked up: {tables}"
        else:
            reason = f"{shown} is not looked up in this SELECT" + (f"; name {tables}" if tables else "")
        self.ctx.warn(f"{hint.text}: {reason}", argument.place)
