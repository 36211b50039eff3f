"""The logical algebra: what a query means, clause by clause, in the user's own words.

A SELECT block reads, from the top: ``Limit`` › ``Sort`` › ``Project`` › ``Filter`` (qualify) › ``Windows`` › ``Filter``
(having) › ``Aggregate`` › ``Filter`` (where) › a tree of relations (``Scan``, ``Derived``, ``Join``, …).  Nodes that a
rule has named (``BandJoin``) stand where the ``Join`` stood.

``output`` is symbolic (``p.*`` for everything a relation has): enough to see that a rule changed it, and free of any
look-up.  ``label`` and ``detail`` are what the one printer shows.
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Literal

from planner.band import Band
from planner.expr import Scalar, quote, show_all
from planner.hints import SideHint
from planner.tree import Node, plan_node

JoinKind = Literal["inner", "cross", "left", "right", "full", "semi", "anti"]

JOIN_KEYWORDS: dict[JoinKind, str] = {
    "inner": "JOIN",
    "cross": "CROSS JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
}


class Logical(Node):
    """The base of logical nodes."""

    label: ClassVar[str] = ""

    @property
    def detail(self) -> str:
        """What distinguishes this node from others of its kind, as one line."""
        return ""

    @property
    def output(self) -> tuple[str, ...]:
        """What comes out: item texts above a Project, ``name.*`` below."""
        return tuple(name for child in self.children for name in child.output)  # type: ignore[attr-defined]


class Relation(Logical):
    """A leaf or a named thing in FROM: ``alias`` is the name its columns go by, ``renames`` new column names."""

    alias: str | None
    renames: tuple[str, ...]

    @property
    def output(self) -> tuple[str, ...]:
        return (f"{self.alias or '?'}.*",)


@plan_node
class Scan(Relation):
    """A table, view or CTE by name; ``suffix`` is all that is written behind the name (alias, sample, time travel)."""

    label: ClassVar[str] = "Scan"
    name: tuple[str, ...]
    text: str
    alias: str | None
    renames: tuple[str, ...] = ()
    suffix: str = ""
    plain: bool = True  # nothing but an alias behind the name
    cte: str = ""  # the key of the definition in WITH that the name stands for

    @property
    def detail(self) -> str:
        if not self.plain or not self.suffix:
            return " ".join(f"{self.text} {self.suffix}".split())
        columns = f"({', '.join(self.renames)})" if self.renames else ""
        return f"{self.text} as {quote(self.alias or '')}{columns}"


@plan_node
class Derived(Relation):
    """A subquery in FROM."""

    label: ClassVar[str] = "Derived"
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

    label: ClassVar[str] = "OneRow"


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


@plan_node
class Join(Logical):
    """A join: ``keyword`` as written (``,`` for a comma); ``condition`` its conjuncts, all of which must hold."""

    label: ClassVar[str] = "Join"
    left: Logical
    right: Logical
    kind: JoinKind
    keyword: str
    condition: tuple[Scalar, ...] = ()
    using: tuple[str, ...] = ()
    natural: bool = False

    @property
    def detail(self) -> str:
        kind = f"natural {self.kind}" if self.natural else self.kind
        if self.using:
            return f"{kind}, using {', '.join(self.using)}"
        return f"{kind}, on {conjunction(self.condition)}" if self.condition else kind

    @property
    def output(self) -> tuple[str, ...]:
        return self.left.output if self.kind in ("semi", "anti") else self.left.output + self.right.output


@plan_node
class BandJoin(Logical):
    """A join whose condition keeps two sides within a band; ``condition`` is still all of it, the band included."""

    label: ClassVar[str] = "BandJoin"
    left: Logical
    right: Logical
    kind: JoinKind
    band: Band
    condition: tuple[Scalar, ...]
    others: tuple[Band, ...] = ()  # further bands of the same condition
    bin_width: Fraction | None = None  # what a RANGE_JOIN hint asks for, in units of the band's axis
    hints: tuple[SideHint, ...] = ()  # all that ask for something here, the one that set the width first

    @property
    def plain(self) -> Join:
        """The join it was before it had a name."""
        return Join(self.left, self.right, self.kind, JOIN_KEYWORDS[self.kind], self.condition)

    @property
    def detail(self) -> str:
        band = set(self.band.conjuncts)
        rest = [c.shown for c in self.condition if c not in band]
        width = [f"bins of {self.band.axis.human(self.bin_width)}"] if self.bin_width is not None else []
        asked = dict.fromkeys(h.hint.text for h in self.hints if h.hint.strategy)
        return ", ".join([self.kind, *rest, str(self.band), *width, *asked])

    @property
    def output(self) -> tuple[str, ...]:
        return self.left.output if self.kind in ("semi", "anti") else self.left.output + self.right.output


@plan_node
class LateralView(Logical):
    """LATERAL VIEW [OUTER] generator(…) name AS columns."""

    label: ClassVar[str] = "LateralView"
    child: Logical
    text: Scalar
    alias: str
    columns: tuple[str, ...] = ()

    @property
    def detail(self) -> str:
        return self.text.shown.removeprefix("LATERAL VIEW ")

    @property
    def output(self) -> tuple[str, ...]:
        return (*self.child.output, f"{self.alias}.*")


@plan_node
class Filter(Logical):
    """WHERE, HAVING or QUALIFY: conjuncts that must all hold."""

    label: ClassVar[str] = "Filter"
    child: Logical
    condition: tuple[Scalar, ...]
    clause: Literal["WHERE", "HAVING", "QUALIFY"] = "WHERE"

    @property
    def detail(self) -> str:
        said = conjunction(self.condition)
        return said if self.clause == "WHERE" else f"{self.clause.lower()} {said}"


@plan_node
class Aggregate(Logical):
    """GROUP BY, with ROLLUP, CUBE or GROUPING SETS where they are written."""

    label: ClassVar[str] = "Aggregate"
    child: Logical
    groups: Scalar

    @property
    def detail(self) -> str:
        return f"by {self.groups.shown}"


@plan_node
class Windows(Logical):
    """WINDOW name AS (…): named windows."""

    label: ClassVar[str] = "Windows"
    child: Logical
    definitions: Scalar

    @property
    def detail(self) -> str:
        return self.definitions.shown


@plan_node
class Project(Logical):
    """The select list; ``hint`` is its blocks of hints, ``quantifier`` DISTINCT or ALL where written."""

    label: ClassVar[str] = "Project"
    child: Logical
    items: tuple[Scalar, ...]
    quantifier: str = ""
    hint: Scalar | None = None

    @property
    def detail(self) -> str:
        said = ", ".join(show_all(self.items))
        words = [w for w in (self.hint.shown if self.hint else "", self.quantifier.lower(), said) if w]
        return " ".join(words)

    @property
    def output(self) -> tuple[str, ...]:
        return tuple(i.shown for i in self.items)


@plan_node
class Values(Logical):
    """VALUES (…), (…) as a query of its own."""

    label: ClassVar[str] = "Values"
    text: Scalar

    @property
    def detail(self) -> str:
        return _after(self.text, "VALUES")


@plan_node
class Verbatim(Logical):
    """A query kept as text because the algebra cannot carry it."""

    label: ClassVar[str] = "Verbatim"
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

    label: ClassVar[str] = "SetOp"
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
class Sort(Logical):
    """ORDER BY, SORT BY, DISTRIBUTE BY, CLUSTER BY: one clause."""

    label: ClassVar[str] = "Sort"
    child: Logical
    clause: Scalar

    @property
    def detail(self) -> str:
        return _after(self.clause, "ORDER BY")


@plan_node
class Limit(Logical):
    """LIMIT or OFFSET: one clause."""

    label: ClassVar[str] = "Limit"
    child: Logical
    clause: Scalar

    @property
    def detail(self) -> str:
        return _after(self.clause, "LIMIT")


@plan_node
class Cte(Logical):
    """One definition of WITH; ``head`` is all that is written before its opening parenthesis."""

    label: ClassVar[str] = "Cte"
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

    label: ClassVar[str] = "With"
    definitions: tuple[Cte, ...]
    child: Logical

    @property
    def output(self) -> tuple[str, ...]:
        return self.child.output


@plan_node
class Statement(Logical):
    """INSERT … SELECT, CREATE TABLE AS, CREATE VIEW: ``prefix`` is the text before its query."""

    label: ClassVar[str] = "Statement"
    prefix: str
    child: Logical

    @property
    def detail(self) -> str:
        return " ".join(self.prefix.split())


def _after(clause: Scalar, keyword: str) -> str:
    """A clause without its keyword, or with another one in small letters."""
    said = clause.shown
    if said.upper().startswith(keyword):
        return said[len(keyword) :].strip()
    word = next((w for w in ("SORT BY", "CLUSTER BY", "DISTRIBUTE BY", "OFFSET") if said.upper().startswith(w)), "")
    return word.lower() + said[len(word) :]


def conjunction(conjuncts: tuple[Scalar, ...]) -> str:
    """The conjuncts on one line."""
    return " AND ".join(show_all(conjuncts))
