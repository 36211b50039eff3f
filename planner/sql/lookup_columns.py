"""Which columns of a lookup a statement can need: those that it names, unless a star may show them all."""

from __future__ import annotations

from dataclasses import replace

from planner.errors import Unsupported
from planner.expr.tokens import Tokens, tokenize
from planner.physical.lookup_join import LookupJoin
from planner.tree import Node, transform_up

_BEFORE_STAR = frozenset({"SELECT", "DISTINCT", "ALL", ",", "(", ""})


def narrowed(plan: Node, text: str) -> Node:
    """The plan with lookups that fetch only what the text of the statement can speak of, and their keys."""
    try:
        t = tokenize(text)
    except Unsupported:
        return plan
    names = {token.text.lower() for token in t.items if token.is_name}
    stars = _stars(t)
    if "NATURAL" in {token.word for token in t.items} or "" in stars:
        return plan

    def narrow(node: Node) -> Node:
        if not isinstance(node, LookupJoin) or node.scan.renames:
            return node
        if {(node.scan.alias or "").lower(), node.scan.name[-1].lower()} & stars:
            return node
        asked = {*node.spec.keys, *(column for column, _ in node.spec.constants)}
        columns = tuple(c for c in node.spec.columns if c.lower() in names or c in asked)
        return node if columns == node.spec.columns else replace(node, spec=replace(node.spec, columns=columns))

    return transform_up(plan, narrow)


def _stars(t: Tokens) -> set[str]:
    """What stands before the stars of a statement: a name and a dot, or nothing; ``count(*)`` shows no column."""
    found: set[str] = set()
    for i in range(1, len(t)):
        if t[i].word != "*":
            continue
        before = t[i - 1].word
        if before == ".":
            found.add(t[i - 2].text.lower())
        elif before in _BEFORE_STAR and not (before == "(" and t[i - 2].word == "COUNT" and t.word(i + 1) == ")"):
            found.add("")
    return found
