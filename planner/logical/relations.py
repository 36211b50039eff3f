"""The relations of FROM: tables, subqueries, parentheses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dovetail.planner.expr import Scalar, quote
from dovetail.planner.logical.base import Logical
from dovetail.planner.rendered import PREFIX
from dovetail.planner.tree import Node, plan_node, unwrap
from dovetail.planner.types.schema import Column


class Relation(Logical):
    """A leaf or a named thing in FROM: ``alias`` is the name its columns go by, ``renames`` new column names."""

    alias: str | None
    renames: tuple[str, ...]

    @property
    def declared_columns(self) -> tuple[tuple[str | None, tuple[Column, ...]], ...] | None:
        """The relations that it shows, by their names and columns, where it knows them by itself."""
        return None

    @property
    def output(self) -> tuple[str, ...]:
        return (f"{'?' if (self.alias or '').startswith(PREFIX) else self.alias or '?'}.*",)


@plan_node
class Scan(Relation):
    """A table, view or CTE by name; ``suffix`` is all that is written behind the name (alias, sample, time travel)."""

    name: tuple[str, ...]
    text: str
    alias: str | None
    renames: tuple[str, ...] = ()
    suffix: str = ""
    plain: bool = True  # nothing but an alias behind the name
    cte: str = ""  # the key of the definition in WITH that the name stands for
    as_of: Scalar | None = None  # the time in FOR SYSTEM_TIME AS OF, which the suffix has, too

    @property
    def detail(self) -> str:
        if not self.plain or not self.suffix:
            return " ".join(f"{self.text} {self.suffix}".split())
        columns = f"({', '.join(self.renames)})" if self.renames else ""
        return f"{self.text} as {quote(self.alias or '')}{columns}"


@plan_node
class Derived(Relation):
    """A subquery in FROM."""

    query: Logical
    alias: str | None
    renames: tuple[str, ...] = ()
    suffix: str = ""
    lateral: bool = False

    @property
    def detail(self) -> str:
        return " ".join((("lateral " if self.lateral else "") + self.suffix).split())


@plan_node
class Opaque(Relation):
    """A relation kept as text: VALUES, a table function, PIVOT; its columns are not known."""

    label: ClassVar[str] = "Relation"
    text: Scalar
    alias: str | None = None
    renames: tuple[str, ...] = ()
    lateral: bool = False

    @property
    def detail(self) -> str:
        return self.text.shown


@plan_node
class OneRow(Logical):
    """SELECT without FROM."""


@plan_node
class Nested(Relation):
    """Parentheses around joins: ``(a JOIN b ON …)``; with an alias, that name hides those inside."""

    label: ClassVar[str] = "Parens"
    child: Logical
    alias: str | None = None
    renames: tuple[str, ...] = ()
    suffix: str = ""

    @property
    def detail(self) -> str:
        return " ".join(self.suffix.split())

    @property
    def output(self) -> tuple[str, ...]:
        return (f"{self.alias}.*",) if self.alias else self.child.output


def alias_clause(alias: str, renames: tuple[str, ...] = ()) -> str:
    """``AS alias(columns)``, as it stands behind a relation."""
    return f"AS {quote(alias)}" + (f"({', '.join(map(quote, renames))})" if renames else "")


def subquery_as(query: Logical, alias: str, renames: tuple[str, ...] = ()) -> Derived:
    """A subquery under a name."""
    return Derived(query, alias, renames, alias_clause(alias, renames))


def nodes_of_from(node: Node) -> Iterator[Node]:
    """The joins and relations of one FROM, the outermost first; parentheses with a name hide those inside."""
    yield node
    inner = unwrap(node)
    if not isinstance(inner, Relation) or (isinstance(inner, Nested) and not inner.alias):
        for child in inner.children:
            yield from nodes_of_from(child)


def inner_queries(node: Node) -> tuple[Node, ...]:
    """The subqueries of a node that may be correlated: those of its expressions, and the one of LATERAL."""
    return (*node.subplans, node.query) if isinstance(node, Derived) and node.lateral else node.subplans


def references_left(relation: Node) -> bool:
    """Whether a relation in FROM is LATERAL, and so reads the row to its left."""
    return any(isinstance(node, Derived | Opaque) and node.lateral for node in nodes_of_from(relation))


def hint_name(side: Node) -> str | None:
    """The name by which a join hint of Spark can mean this side of a join; None for a join without an alias."""
    relation = unwrap(side)
    if isinstance(relation, Scan):
        return relation.alias or relation.name[-1]
    return relation.alias if isinstance(relation, Relation) else None
