"""Prints a physical plan as one Spark SQL statement.

Clauses, items and conditions are printed in the user's own words; only what a rule changed is new text.  A physical
operator renders itself (``Rendered``): it is given the text of its inputs and returns the text of a relation.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal

from dovetail.planner.errors import ShowsAddedColumn, Unsupported
from dovetail.planner.expr import Scalar, quote
from dovetail.planner.expr.tokens import tokenize
from dovetail.planner.logical import (
    Aggregate,
    Cte,
    Derived,
    Filter,
    Join,
    LateralView,
    Limit,
    Nested,
    OneRow,
    Opaque,
    Pipeline,
    Project,
    Relation,
    Scan,
    SetOp,
    Sort,
    Statement,
    Values,
    Verbatim,
    Windows,
    With,
    Wrapped,
    clauses_of,
    expressions,
    nodes_of_from,
)
from dovetail.planner.logical.nearest_syntax import NearestSyntax
from dovetail.planner.logical.self_join import HiddenRelation
from dovetail.planner.rendered import NameGenerator, Rendered
from dovetail.planner.tree import Node, unwrap

Commas = Literal["none", "left", "any"]

STAR_OVER_MERGED = "* over USING or NATURAL"
STAR_WITHOUT_NAME = "a relation without a name stands where *"


def to_sql(plan: Node, taken: Collection[str] = ()) -> str:
    """Print a physical (or logical) plan as one Spark SQL statement; ``taken`` are names that it must not add.

    Raises ``Unsupported`` when a ``*`` would show a column that the rewriting adds.
    """
    return _Printer(taken).query(plan)


def for_spark(text: str) -> str:
    """A statement as Spark reads it, to whom ``>>`` behind the bare word ARRAY, MAP or STRUCT is two brackets."""
    if ">>" not in text:
        return text
    t = tokenize(text)
    for i in reversed(range(len(t) - 1)):
        if t[i].word in ("ARRAY", "MAP", "STRUCT") and t[i + 1].word == "(":
            text = f"{text[: t[i].start]}`{t[i].text}`{text[t[i].end :]}"
    return text


class _Printer:
    def __init__(self, taken: Collection[str] = ()) -> None:
        self.names = NameGenerator(taken)

    def query(self, plan: Node) -> str:
        node = unwrap(plan)
        match node:
            case Statement():
                behind = f"\n{node.suffix}" if node.suffix else ""
                return f"{node.prefix}{self.query(node.child)}{behind}"
            case With():
                definitions = ",\n".join(self.query(d) for d in node.definitions)
                return f"WITH {definitions}\n{self.query(node.child)}"
            case Cte():
                return f"{node.head} (\n{self.query(node.query)}\n)"
            case Sort() | Limit():
                for scalar in expressions(node) if adds_columns(node.child) else ():
                    refuse_stars(scalar)
                return f"{self.query(node.child)}\n{node.keyword} {self.behind(node)}"
            case SetOp():
                return f"{self.query(node.left)}\n{node.keyword}\n{self.query(node.right)}"
            case Wrapped():
                return f"({self.query(node.child)})"
            case Project():
                return self.block(node)
            case Values():
                return self.scalar(node.text)
            case Verbatim() | Pipeline():
                return node.text
            case Rendered():  # an operator that stands for a whole block
                sides = tuple(self.relation(side, operand=True) for side in node.sides)
                return node.render(sides, self.names, self.operand)
        raise TypeError(f"{type(node).__name__} is not a query")

    def behind(self, node: Sort | Limit) -> str:
        """What follows ORDER BY, LIMIT and the like."""
        return node.listed(map(self.scalar, node.keys)) if isinstance(node, Sort) else self.scalar(node.count)

    def block(self, project: Project) -> str:
        """One SELECT."""
        clauses: dict[str, str] = {}
        below, node = clauses_of(project)
        for clause in below:
            match clause:
                case Filter():
                    clauses[clause.clause] = self.conjunction(clause.condition)
                case Aggregate():
                    clauses["GROUP BY"] = ", ".join(map(self.scalar, expressions(clause)))
                case Windows():
                    clauses["WINDOW"] = self.scalar(clause.definitions)
        if adds_columns(node):
            for scalar in (scalar for clause in below for scalar in expressions(clause)):
                refuse_stars(scalar)
        hint = self.scalar(project.hint) if project.hint else ""
        requested = (n.spark_hint for n in map(unwrap, nodes_of_from(node)) if isinstance(n, Rendered))
        if hints := list(dict.fromkeys(filter(None, requested))):
            hint = f"{hint} /*+ {', '.join(hints)} */".strip()
        select = " ".join(w for w in ("SELECT", hint, project.quantifier) if w)
        lines = [f"{select} {', '.join(self.items(project, node))}"]
        if not isinstance(node, OneRow):
            lines.insert(0 if project.from_first else 1, f"FROM {self.relation(node, commas='any')}")
        order = ("WHERE", "GROUP BY", "HAVING", "QUALIFY", "WINDOW")
        return "\n".join([*lines, *(f"{word} {clauses[word]}" for word in order if word in clauses)])

    def items(self, project: Project, source: Node) -> list[str]:
        """The select list; a ``*`` over a relation that carries added columns is expanded by relation."""
        if not adds_columns(source):
            return [self.scalar(i) for i in project.items]
        items: list[str] = []
        for item in project.items:
            if item.text == "*":
                items += star_items(source)
            else:
                refuse_stars(item)
                items.append(self.scalar(item))
        return items

    def relation(self, plan: Node, *, commas: Commas = "none", operand: bool = False) -> str:
        """Print a relation in FROM; ``operand`` adds parentheses around joins."""
        node = unwrap(plan)
        match node:
            case Scan():
                return f"{node.text} {node.suffix}".rstrip()
            case Opaque():
                return self.scalar(node.text)
            case Derived():
                lateral = "LATERAL " if node.lateral else ""
                return f"{lateral}({self.query(node.query)}) {node.suffix}".rstrip()
            case Nested():
                if node.alias and adds_columns(node.child):
                    raise ShowsAddedColumn(f"{node.alias}.*")
                return f"({self.relation(node.child)}) {node.suffix}".rstrip()
            case LateralView():
                return f"{self.relation(node.child, commas=commas)} {self.scalar(node.text)}"
            case Join():
                return self._wrap(self.join(node, commas), operand)
            case NearestSyntax():
                left = self.relation(node.left, commas="none" if commas == "none" else "left")
                right = self.relation(node.right, operand=True)
                return self._wrap(node.render((left, right), self.names, self.operand), operand)
            case Rendered():
                sides = tuple(self.relation(side, operand=n > 0) for n, side in enumerate(node.sides))
                return self._wrap(node.render(sides, self.names, self.operand), operand)
            case Filter():  # a filter that a rule left between joins
                raise Unsupported("a filter between joins has no place in FROM")
        raise TypeError(f"{type(node).__name__} is not a relation")

    @staticmethod
    def _wrap(text: str, operand: bool) -> str:
        return f"({text})" if operand else text

    def join(self, node: Join, commas: Commas) -> str:
        """A join.

        ``commas``: which may be written as such here: none in parentheses, only those that stand from left to right
        before another join, any before nothing but further commas.
        """
        if node.keyword == ",":
            comma = commas == "any" or (commas == "left" and node.comma == "left")
            bare = comma and node.comma == "last" and _is_comma_item(node.right)
            left, right = self.relation(node.left, commas=commas), self.relation(node.right, operand=not bare)
            return f"{left}, {right}" if comma else f"{left} CROSS JOIN {right}"
        left = self.relation(node.left, commas="none" if commas == "none" else "left")
        right = self.relation(node.right, operand=True)
        joined = f"{left}\n{node.keyword} {right}"
        if node.condition:
            return f"{joined} ON {self.conjunction(node.condition)}"
        return f"{joined} USING ({', '.join(node.using)})" if node.using else joined

    def scalar(self, scalar: Scalar) -> str:
        return scalar.render(self.query)

    def operand(self, conjuncts: tuple[Scalar, ...]) -> str:
        """Conjuncts joined with AND, to stand in a larger condition."""
        return self.conjunction(conjuncts, alone=False)

    def conjunction(self, conjuncts: tuple[Scalar, ...], *, alone: bool = True) -> str:
        """Conjuncts joined with AND; one with an OR outside brackets is in parentheses unless it stands alone."""
        alone = alone and len(conjuncts) == 1 and conjuncts[0].whole is None
        return " AND ".join(
            f"({self.scalar(c)})" if not alone and has_or(c.text) else self.scalar(c) for c in as_written(conjuncts)
        )


def as_written(conjuncts: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """Conjuncts with what a normal form has cut put together again, where all parts stand side by side."""
    found: list[Scalar] = []
    at = 0
    while at < len(conjuncts):
        whole = conjuncts[at].whole
        end = at + (whole.parts if whole else 1)
        if whole and end <= len(conjuncts) and all(c.whole is whole for c in conjuncts[at:end]):
            found.append(whole.written)
        else:
            end = at + 1
            found.append(conjuncts[at])
        at = end
    return tuple(found)


def has_or(text: str) -> bool:
    """Whether there is an OR outside brackets."""
    if not re.search(r"(?i)\bor\b", text):
        return False
    t = tokenize(text)
    return any(t[i].word == "OR" for i in t.top(0, len(t)))


def _is_comma_item(node: Node) -> bool:
    inner = unwrap(node)
    return not (isinstance(inner, Join) and inner.keyword == ",")


def adds_columns(node: Node) -> bool:
    """Whether the relations of one SELECT carry a column that a rewriting added; subqueries hide their own."""
    node = unwrap(node)
    if isinstance(node, HiddenRelation) or (isinstance(node, Rendered) and node.adds_columns):
        return True
    if isinstance(node, Relation) and not isinstance(node, Nested):
        return False
    return any(adds_columns(child) for child in node.children)


def refuse_stars(scalar: Scalar) -> None:
    """Raise ``Unsupported`` where an expression takes every column there is: ``hash(*)``, ``* EXCEPT (a)``."""
    if "*" not in scalar.text:
        return
    t = tokenize(scalar.text)
    for i in range(len(t)):
        before = t[i - 1].word if i else ","
        if t[i].word != "*" or before not in ("(", ",", "DISTINCT"):
            continue
        if before == "(" and i > 1 and t[i - 2].word == "COUNT" and t.word(i + 1) == ")":
            continue
        raise ShowsAddedColumn(scalar.shown, scalar.place)


def star_items(node: Node) -> list[str]:
    """The select items that ``*`` stands for over a FROM tree.  Raises ``Unsupported`` where there are none such."""
    node = unwrap(node)
    match node:
        case Join() if node.using or node.natural:
            raise ShowsAddedColumn(STAR_OVER_MERGED)
        case Join():
            right = [] if node.kind in ("semi", "anti") else star_items(node.right)
            return star_items(node.left) + right
        case HiddenRelation():
            return []
        case Rendered():
            return node.stars(star_items)
        case Nested() if not node.alias:
            return star_items(node.child)
        case LateralView() if node.alias:
            return [*star_items(node.child), f"{quote(node.alias)}.*"]
        case Scan() | Derived() | Opaque() | Nested() if node.alias:
            return [f"{quote(node.alias)}.*"]
    raise ShowsAddedColumn(STAR_WITHOUT_NAME)
