"""The views that a statement with lookup joins reads: their names, their order, and the queries for their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from dovetail.planner.catalog.declared import LookupTable
from dovetail.planner.errors import Unsupported
from dovetail.planner.expr.tokens import Tokens, tokenize
from dovetail.planner.logical import Cte, Derived, Logical, Scan, Statement, With, nodes_of_from
from dovetail.planner.logical.placeholder import alias_of, placeholder
from dovetail.planner.physical.base import Physical
from dovetail.planner.physical.lookup_join import LookupJoin
from dovetail.planner.physical.row_lookup_join import RowLookupJoin
from dovetail.planner.sql.to_sql import to_sql
from dovetail.planner.tree import Node, transform_up, unwrap

PREFIX = "__dt_lookup"


def with_views(plan: Node, mark: str = "") -> Node:
    """Name the view of each lookup join in the plan, numbered in the order in which they are filled."""
    made = 0

    def name(node: Node) -> Node:
        nonlocal made
        node = node.map_nodes(name)
        if isinstance(node, LookupJoin):
            made += 1
            node = replace(node, view=f"{PREFIX}{made}{mark}")
        return node

    return name(plan)


def lookups_of(plan: Node | None) -> list[LookupJoin]:
    """The lookup joins of a plan, each after those whose rows its query may read."""
    if plan is None:
        return []
    found = [join for below in (*plan.children, *plan.subplans) for join in lookups_of(below)]
    return [*found, plan] if isinstance(plan, LookupJoin) else found


def query_of(plan: Physical) -> Physical:
    """The query of a statement, without what precedes it."""
    found = unwrap(plan)
    return found.child if isinstance(found, Statement) else plan  # type: ignore[return-value]


def needs_sql(plan: Node, join: LookupJoin) -> str:
    """The query for what a lookup join needs, with the WITH definitions of its plan that it reads."""
    query = join.needs()
    definitions = list(_definitions(plan))
    needed: set[str] = set()
    pending: list[Node] = [query]
    while pending:
        names = {s.cte for n in pending.pop().walk() if isinstance(s := unwrap(n), Scan) and s.cte} - needed
        needed |= names
        pending += [d.query for d in definitions if d.key in names]
    used = tuple(d for d in definitions if d.key in needed)
    return to_sql(With(used, query) if used else query)


def _definitions(plan: Node) -> Iterator[Cte]:
    for below in (*plan.children, *plan.subplans):
        yield from _definitions(below)
    if isinstance(found := unwrap(plan), Cte):
        yield found


def without_rows(
    plan: Node, lookup: Callable[[Scan], LookupTable | None], versions: Callable[[tuple[str, ...]], bool]
) -> str:
    """The query of a statement for Spark to analyze: no lookup has a row in it, no table with versions a time."""

    def empty(node: Node) -> Node:
        if isinstance(node, LookupJoin):
            return node.without_rows(_empty)
        return _empty(node) if isinstance(node, Scan) else node

    def _empty(scan: Scan) -> Derived | Scan:
        table = lookup(scan)
        if table:
            return placeholder(scan, table.columns)
        past = scan.as_of is not None and versions(scan.name)
        return replace(scan, suffix=alias_of(scan), plain=True, as_of=None) if past else scan

    found = unwrap(plan)
    return to_sql(transform_up(found.child if isinstance(found, Statement) else plan, empty))


def with_tables(plan: Logical, tables: dict[str, str], lookup: Callable[[Scan], LookupTable | None]) -> str:
    """The query of a statement as it was read, with a relation of another name in the place of each lookup."""

    def plain(node: Node) -> Node:
        table = lookup(node) if isinstance(node, Scan) else None
        if table is None or not isinstance(node, Scan):
            return node
        name = tables[table.name]
        return Scan((name,), name, node.alias, node.renames, alias_of(node))

    return to_sql(transform_up(plan.child if isinstance(plan, Statement) else plan, plain))


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
