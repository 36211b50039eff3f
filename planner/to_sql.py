"""Physical plan -> one Spark SQL statement.

Clauses, items and conditions are printed in the user's own words; only what a rule changed is new text.  A physical
operator renders itself through ``Operand``: it is given the text of its inputs and returns the text of a relation.
"""

from __future__ import annotations

import re

from planner.errors import NotCarried
from planner.expr import Scalar, quote
from planner.logical import (
    Aggregate,
    BandJoin,
    Cte,
    Derived,
    Filter,
    Join,
    LateralView,
    Limit,
    Nested,
    OneRow,
    Opaque,
    Project,
    Scan,
    SetOp,
    Sort,
    Statement,
    Values,
    Verbatim,
    Windows,
    With,
    Wrapped,
)
from planner.physical.base import unwrap
from planner.physical.rendered import Names, Rendered
from planner.tokens import tokenize
from planner.tree import Node


def to_sql(plan: Node) -> str:
    """Print a physical (or logical) plan as one Spark SQL statement.

    Raises ``NotCarried`` when a ``*`` would show a column that the rewriting adds.
    """
    return _Printer().query(plan)


class _Printer:
    def __init__(self) -> None:
        self.names = Names()

    def query(self, plan: Node) -> str:
        node = unwrap(plan)
        match node:
            case Statement():
                return f"{node.prefix}{self.query(node.child)}"
            case With():
                definitions = ",\n".join(self.query(d) for d in node.definitions)
                return f"WITH {definitions}\n{self.query(node.child)}"
            case Cte():
                return f"{node.head} (\n{self.query(node.query)}\n)"
            case Sort() | Limit():
                return f"{self.query(node.child)}\n{self.scalar(node.clause)}"
            case SetOp():
                return f"{self.query(node.left)}\n{node.keyword}\n{self.query(node.right)}"
            case Wrapped():
                return f"({self.query(node.child)})"
            case Project():
                return self.block(node)
            case Values():
                return self.scalar(node.text)
            case Verbatim():
                return node.text
        raise TypeError(f"{type(node).__name__} is not a query")

    def block(self, project: Project) -> str:
        """One SELECT."""
        tail: list[str] = []
        node = unwrap(project.child)
        windows = ""
        where: list[str] = []
        while True:
            match node:
                case Filter():
                    (where if node.clause == "WHERE" else tail).append(
                        f"{node.clause} {self.conjunction(node.condition)}"
                    )
                case Aggregate():
                    tail.append(f"GROUP BY {self.scalar(node.groups)}")
                case Windows():
                    windows = f"WINDOW {self.scalar(node.definitions)}"
                case _:
                    break
            node = unwrap(node.child)
        select = " ".join(w for w in ("SELECT", project.hint, project.quantifier) if w)
        lines = [f"{select} {', '.join(self.items(project, node))}"]
        if not isinstance(node, OneRow):
            lines.append(f"FROM {self.relation(node, commas=True)}")
        order = {"GROUP BY": 0, "HAVING": 1, "QUALIFY": 2}
        tail.sort(key=lambda line: next(n for word, n in order.items() if line.startswith(word)))
        return "\n".join([*lines, *where, *tail, *([windows] if windows else [])])

    def items(self, project: Project, source: Node) -> list[str]:
        """The select list; a ``*`` over a relation that carries added columns is spelt out by relation."""
        if not any(isinstance(n, Rendered) for n in _from_tree(source)):
            return [self.scalar(i) for i in project.items]
        said = []
        for item in project.items:
            if item.text == "*":
                said += [f"{name}.*" for name in _star_names(source)]
            elif re.match(r"\*|.*\(\s*\*\s*\)|.*[(,]\s*\*", item.text, re.DOTALL) and not re.fullmatch(
                r"(?is)count\s*\(\s*\*\s*\).*", item.text
            ):
                raise NotCarried(f"{item.shown} would show a column that the rewriting adds", item.place)
            else:
                said.append(self.scalar(item))
        return said

    def relation(self, plan: Node, *, commas: bool = False, operand: bool = False) -> str:
        """A relation in FROM; ``operand`` asks for parentheses around joins."""
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
                return f"({self.relation(node.child)}) {node.suffix}".rstrip()
            case LateralView():
                return f"{self.relation(node.child, commas=commas)} {self.scalar(node.text)}"
            case Join():
                return self._wrap(self.join(node, commas), operand)
            case BandJoin():  # named, and not lowered: still the join it was
                return self._wrap(self.join(node.plain, commas), operand)
            case Rendered():
                sides = tuple(self.relation(side, operand=n > 0) for n, side in enumerate(node.sides))
                return self._wrap(node.render(sides, self.names, self.conjunction), operand)
            case Filter():  # a filter that a rule left between joins
                raise NotCarried("a filter between joins has no place in FROM")
        raise TypeError(f"{type(node).__name__} is not a relation")

    @staticmethod
    def _wrap(text: str, operand: bool) -> str:
        return f"({text})" if operand else text

    def join(self, node: Join, commas: bool) -> str:
        comma = node.keyword == ","
        left = self.relation(node.left, commas=commas and comma)
        right = self.relation(node.right, operand=not (commas and comma and _is_comma_item(node.right)))
        if comma:
            return f"{left}, {right}" if commas else f"{left} CROSS JOIN {right}"
        said = f"{left}\n{node.keyword} {right}"
        if node.condition:
            return f"{said} ON {self.conjunction(node.condition)}"
        return f"{said} USING ({', '.join(node.using)})" if node.using else said

    def scalar(self, scalar: Scalar) -> str:
        return scalar.render(self.query)

    def conjunction(self, conjuncts: tuple[Scalar, ...]) -> str:
        """Conjuncts joined with AND, in parentheses where one has an OR outside brackets."""
        alone = len(conjuncts) == 1
        return " AND ".join(
            f"({self.scalar(c)})" if not alone and has_or(c.text) else self.scalar(c) for c in conjuncts
        )


def has_or(text: str) -> bool:
    """Whether an OR stands outside brackets."""
    if not re.search(r"(?i)\bor\b", text):
        return False
    t = tokenize(text)
    return any(t[i].word == "OR" for i in t.top(0, len(t)))


def _is_comma_item(node: Node) -> bool:
    inner = unwrap(node)
    return not (isinstance(inner, Join) and inner.keyword == ",")


def _from_tree(node: Node) -> list[Node]:
    """The relations and joins of one FROM, without what is inside subqueries."""
    node = unwrap(node)
    below = (
        node.sides
        if isinstance(node, Rendered)
        else node.children
        if isinstance(node, Join | LateralView | Nested)
        else ()
    )
    return [node, *(n for child in below for n in _from_tree(child))]


def _star_names(node: Node) -> list[str]:
    """What ``*`` means over a FROM tree, relation by relation."""
    node = unwrap(node)
    match node:
        case Join() if node.using or node.natural:
            raise NotCarried("* over USING or NATURAL would show a column that the rewriting adds")
        case Join():
            right = [] if node.kind in ("semi", "anti") else _star_names(node.right)
            return _star_names(node.left) + right
        case Rendered():
            kept = node.sides[:1] if node.kind in ("semi", "anti") else node.sides
            return [name for side in kept for name in _star_names(side)]
        case Nested() if not node.alias:
            return _star_names(node.child)
        case LateralView() if node.alias:
            return [*_star_names(node.child), quote(node.alias)]
        case Scan() | Derived() | Opaque() | Nested() if node.alias:
            return [quote(node.alias)]
    raise NotCarried("a relation without a name stands where * would show a column that the rewriting adds")
