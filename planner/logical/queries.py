"""Queries around a SELECT: set operations, WITH, the statement."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from dovetail.planner.expr import Scalar
from dovetail.planner.logical.base import Logical
from dovetail.planner.tree import plan_node


@plan_node
class Values(Logical):
    """VALUES (…), (…) as a query of its own."""

    text: Scalar

    @property
    def detail(self) -> str:
        return self.text.shown[len("VALUES") :].strip()


@plan_node
class Verbatim(Logical):
    """A query kept as text because the algebra cannot carry it."""

    text: str
    reason: str

    @property
    def detail(self) -> str:
        return self.reason

    @property
    def output(self) -> tuple[str, ...]:
        return ("?",)


@plan_node
class Wrapped(Logical):
    """A query in parentheses of its own."""

    label: ClassVar[str] = "Parens"
    child: Logical


@plan_node
class SetOp(Logical):
    """UNION, INTERSECT, EXCEPT; ``keyword`` as written, with ALL, DISTINCT, BY NAME."""

    left: Logical
    right: Logical
    keyword: str

    @property
    def detail(self) -> str:
        return " ".join(self.keyword.lower().split())

    @property
    def output(self) -> tuple[str, ...]:
        return self.left.output


@plan_node
class Cte(Logical):
    """One definition of WITH; ``head`` is all that is written before its opening parenthesis."""

    name: str
    key: str  # unlike the name, unique in the statement
    head: str
    renames: tuple[str, ...]
    query: Logical

    @property
    def detail(self) -> str:
        return f"{self.name}({', '.join(self.renames)})" if self.renames else self.name

    @property
    def output(self) -> tuple[str, ...]:
        return (f"{self.name}.*",)


@plan_node
class With(Logical):
    """WITH definitions over a query."""

    definitions: tuple[Cte, ...]
    child: Logical

    @property
    def output(self) -> tuple[str, ...]:
        return self.child.output


@plan_node
class Pipeline(Logical):
    """A query in pipe syntax: its text, where that begins in the statement, and the same query without pipes."""

    text: str
    child: Logical
    offset: int = field(default=0, compare=False)

    @property
    def detail(self) -> str:
        return " ".join(self.text.split())

    @property
    def output(self) -> tuple[str, ...]:
        return self.child.output


@plan_node
class Statement(Logical):
    """INSERT … SELECT, CREATE TABLE AS, CREATE VIEW, CACHE TABLE, MERGE: what is written around a query.

    ``prefix`` is the text before the query and ``suffix`` that behind it.  ``offset``: where ``prefix`` begins in the
    text, inside the query where a WITH or FROM stands before INSERT.  It is printed before the query, which Spark reads
    alike.
    """

    prefix: str
    child: Logical
    suffix: str = ""
    offset: int = field(default=0, compare=False)

    def query_in(self, text: str) -> str:
        """The query of this statement in its text."""
        end = text.rindex(self.suffix) if self.suffix else len(text)
        return text[: self.offset] + text[self.offset + len(self.prefix) : end]

    @property
    def words(self) -> frozenset[str]:
        """The words of the prefix, in capitals."""
        return frozenset(self.prefix.upper().split())

    @property
    def is_view(self) -> bool:
        """Whether this creates a view, which keeps its text."""
        return "VIEW" in self.words

    @property
    def is_cache(self) -> bool:
        """Whether this caches the query, and Spark may run it again over other rows."""
        return self.prefix[:5].upper() == "CACHE"

    @property
    def detail(self) -> str:
        return " ".join(f"{self.prefix}{'…' if self.suffix else ''}{self.suffix}".split())
