"""Whether a subquery names columns of the query around it."""

from collections.abc import Iterator

from planner.errors import Unsupported
from planner.expr import Scalar
from planner.expr.tokens import tokenize
from planner.logical import Aggregate, Derived, Join, LateralView, Nested, OneRow, Opaque, Project, Relation, Verbatim
from planner.sql.names import Resolver, Unresolved
from planner.tree import Node


def correlated(query: Node, names: Resolver) -> bool:
    """Whether a subquery leans on the query around it, as far as can be told: True also where it cannot be told."""
    return any(isinstance(n, Project) and not _closed(n, names) for n in query.walk())


def words_of(block: Node, names: Resolver, *, but: Node | None = None) -> set[str]:
    """All words of a block, folded, subqueries included: the columns it names are among them, and ``*`` for all.

    ``but`` is a part of it that is left out.
    """
    if block == but:
        return set()
    texts = [block.text] if isinstance(block, Verbatim) else [s.text for s in scalars(block)]
    found = {names.fold(word) for text in texts for word in _words(text)}
    if isinstance(block, Join):
        found |= set(map(names.fold, block.using))
    return found.union(*(words_of(below, names, but=but) for below in (*block.children, *block.subplans)))


def _words(text: str) -> Iterator[str]:
    """The words of a text but for a ``*`` that multiplies, and that of ``count(*)``."""
    t = tokenize(text)
    for i in range(len(t)):
        shows = not i or t.word(i - 1) in (".", ",", "SELECT", "ALL", "DISTINCT")
        if t[i].word != "*" or shows or (t.word(i - 1) == "(" and t.word(i - 2) != "COUNT"):
            yield t[i].text


def leans_on_left(relation: Node) -> bool:
    """Whether a relation in FROM is LATERAL, and so reads the row to its left."""
    if isinstance(relation, Derived | Opaque):
        return relation.lateral
    below = relation.children if isinstance(relation, Join | Nested | LateralView) else ()
    return any(leans_on_left(child) for child in below)


def _closed(block: Project, names: Resolver) -> bool:
    """Whether every column of one SELECT is one of its own relations' or its own select list's."""
    said: list[Scalar] = [*block.items]
    node: Node = block.child
    while not isinstance(node, Relation | Join | OneRow):
        said += _apart(node.groups) if isinstance(node, Aggregate) else scalars(node)
        node = node.children[0]
    said += (c for join in _joins(node) for c in join.condition)
    sources = names.sources(node)
    try:
        aliases = {names.fold(i.tree.alias) for i in block.items if i.tree.alias}
        for scalar in said:
            for column in scalar.columns:
                if len(column.parts) == 1 and names.fold(column.parts[0]) in aliases:
                    continue
                if column.parts[-1] != "*":
                    names.resolve(column, sources)
    except (Unsupported, Unresolved):
        return False
    return True


def _joins(node: Node) -> Iterator[Join]:
    """The joins of one FROM; those inside subqueries are looked at with these."""
    if isinstance(node, Join):
        yield node
    for child in () if isinstance(node, Derived | Project) else node.children:
        yield from _joins(child)


def _apart(groups: Scalar) -> list[Scalar]:
    """The expressions of a GROUP BY."""
    t = tokenize(groups.text)
    return [Scalar(t.slice(lo, hi), groups.plans) for lo, hi in t.split(0, len(t))]


def scalars(node: Node) -> list[Scalar]:
    """The expressions in the fields of one node."""
    found: list[Scalar] = []
    for value in vars(node).values():
        found += [v for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, Scalar)]
    return found
