"""Finds the columns of a lookup that a statement needs: those that it names, or all if a star may return them."""

from __future__ import annotations

from dataclasses import replace

from dovetail.planner.errors import Unsupported
from dovetail.planner.expr.tokens import Tokens, tokenize
from dovetail.planner.logical import nodes_of_from
from dovetail.planner.physical.lookup_join import LookupJoin
from dovetail.planner.physical.row_lookup_join import RowLookupJoin
from dovetail.planner.tree import Node, transform_up

_BEFORE_STAR = frozenset({"SELECT", "DISTINCT", "ALL", ",", "(", ""})


def narrowed(plan: Node, text: str) -> Node:
    """The plan with lookups that fetch only what the text of the statement can speak of, and their keys."""
    try:
        t = tokenize(text)
    except Unsupported:
        return plan
    names = _names(t)
    stars = _stars(t)
    if {"NATURAL", "IDENTIFIER"} & {token.word for token in t.items} or "" in stars:
        return plan

    def narrow(node: Node) -> Node:
        if isinstance(node, RowLookupJoin):
            node = _without_narrowed(node)
        if not isinstance(node, LookupJoin) or node.scan.renames:
            return node
        own = {(node.scan.alias or "").lower(), node.scan.name[-1].lower()}
        if own & stars:
            return node
        requested = {*node.spec.keys, *(column for column, _ in node.spec.constants)}
        columns = tuple(c for c in node.spec.columns if c in requested or names.get(c.lower(), set()) & {"", *own})
        return node if columns == node.spec.columns else replace(node, spec=replace(node.spec, columns=columns))

    return transform_up(plan, narrow)


def _without_narrowed(join: RowLookupJoin) -> RowLookupJoin:
    """A lookup whose rows have only the columns that the lookups to its left still fetch."""
    fetched = {
        below.scan.alias or below.scan.name[-1]: below.spec.columns
        for below in nodes_of_from(join.left)
        if isinstance(below, LookupJoin) and not below.scan.renames
    }
    rows = tuple((name, tuple(c for c in columns if c in fetched.get(name, columns))) for name, columns in join.rows)
    return join if rows == join.rows else replace(join, rows=rows)


def _names(t: Tokens) -> dict[str, set[str]]:
    """The names in a statement, each with what stands before it: a name and a dot, or nothing.

    ``o.n`` is no column of a lookup of another name: it is one of ``o``, or a field of a struct.
    """
    found: dict[str, set[str]] = {}
    for i, token in enumerate(t.items):
        if token.is_name:
            qualified = i > 1 and t[i - 1].word == "." and t[i - 2].is_name
            found.setdefault(token.text.lower(), set()).add(t[i - 2].text.lower() if qualified else "")
    return found


def _stars(t: Tokens) -> set[str]:
    """What precedes the stars of a statement: a name and a dot, or nothing; ``count(*)`` shows no column."""
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
