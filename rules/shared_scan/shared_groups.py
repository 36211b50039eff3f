"""Grouping CTEs that several relations of a FROM read, each filtered by other constants.

    WITH m AS (SELECT k, month, sum(v) AS s FROM t GROUP BY k, month)
    SELECT … FROM m a JOIN m b ON a.k = b.k WHERE a.month = 1 AND b.month = 2

Spark inlines the definition and pushes each constant below its own copy, so that no two copies are the same, and the
source is read and aggregated for each.  A filter on an aggregate is not pushed: with ``max(month) AS month`` in the
definition, and ``month IN (1, 2)`` below, the copies are one exchange, and each keeps its own groups of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from planner.errors import Refused
from planner.expr import Scalar, is_star, quote, sql
from planner.logical import Derived, Logical, Project, expressions
from planner.tree import Node
from rules.context import Context
from rules.query.char_columns import check_value
from rules.query.query_block import QueryBlock, read_block, where
from rules.shared_scan.shared_uses import Use


@dataclass(frozen=True)
class Grouped:
    """A definition that its readers share; it reads ``relations`` and groups by ``keys``.

    Each of ``keys`` is a relation, and its columns; columns that have constants are not among them, but counted: there
    are ``constants`` different ones.
    """

    query: Project
    relations: tuple[Logical, ...]
    keys: tuple[tuple[Logical, tuple[str, ...]], ...]
    constants: int


def grouped(query: Logical, uses: tuple[Use, ...], ctx: Context) -> Grouped | None:
    """A definition with the differing constants behind ``max`` and below; None where there are no such.

    Raises ``Refused``, ``Unsupported`` where the copies would not be the same, or groups depend on each other.
    """
    constants = [set(use.constants) for use in uses]
    common = set.intersection(*constants)
    hidden = {name for name in common if len({use.constants[name] for use in uses}) > 1}
    if not hidden:
        return None
    definition = _Definition(query, ctx)
    keys = definition.keys()
    for use in uses:
        if use.compared & keys != uses[0].compared & keys or set(use.constants) & keys != constants[0] & keys:
            raise Refused("they are not filtered by the same columns")
        mine, theirs = ({condition for condition, names in u.alone.items() if names & keys} for u in (use, uses[0]))
        if mine != theirs:
            raise Refused("one reader filters the groups by a condition that another does not have")
        if use.named - keys != uses[0].named - keys:
            raise Refused("the readers use different aggregates")
    if not hidden <= keys:
        return None
    values = {name: tuple(dict.fromkeys(use.constants[name] for use in uses)) for name in sorted(hidden)}
    count = len({tuple(use.constants[name] for name in sorted(common)) for use in uses})
    return replace(definition.rewritten(values, common & keys), constants=count)


class _Definition:
    """The block of a CTE that aggregates, below blocks that only project and filter its rows."""

    def __init__(self, query: Logical, ctx: Context):
        self.ctx = ctx
        self.path: list[QueryBlock] = []
        node: Node = query
        while True:
            block = read_block(node)
            if block is None or not isinstance(node, Project) or node.quantifier or node.hint:
                raise Refused("it is more than a SELECT that groups")
            if any(item.plans or item.tree.find(exp.Window, exp.UDTF, exp.Explode) for item in node.items):
                raise Refused("it computes over several groups, in a window")
            self.path.append(block)
            if block.clauses:
                break
            if not isinstance(block.tree, Derived) or block.tree.lateral or block.tree.renames:
                raise Refused("it does not group")
            node = block.tree.query
        if block.aggregate is None or not block.is_grouped:
            raise Refused("it is more than a SELECT that groups")
        self.block, self.aggregate = block, block.aggregate
        self.scope = ctx.scope(block.tree)
        self.outer = self._outer()

    def _outer(self) -> dict[str, Scalar]:
        """By its name in the definition, the item of the grouping block that a column is, where it is one."""
        fold = self.ctx.names.fold
        found = {fold(i.tree.alias_or_name): i for i in self.block.project.items}
        for block in reversed(self.path[:-1]):
            shown = {}
            scope = self.ctx.scope(block.tree)
            for item in block.project.items:
                bare = item.tree.unalias()
                if not isinstance(bare, exp.Column) or is_star(bare):
                    continue
                column = scope.column(bare).column
                if not column.field and fold(column.name) in found:
                    shown[fold(item.tree.alias_or_name)] = found[fold(column.name)]
            found = shown
        return found

    def _grouped_by(self) -> dict[tuple[int, str], str]:
        """The columns that are grouped by, with their texts."""
        found = {}
        for key in expressions(self.aggregate):
            if key.plans or not isinstance(key.known, exp.Column):
                raise Refused("it groups by an expression, not only by columns", key.place)
            found[self._column(key.tree)] = sql(key.tree)
        return found

    def _column(self, tree: exp.Expr) -> tuple[int, str]:
        found = self.scope.column(tree).check_no_field()
        return found.relation, self.ctx.names.fold(found.column.name)

    def keys(self) -> set[str]:
        """The columns of the definition that are groups."""
        by = self._grouped_by()
        found = set()
        for name, item in self.outer.items():
            bare = item.tree.unalias()
            if isinstance(bare, exp.Column) and self._column(bare) in by:
                found.add(name)
        return found

    def rewritten(self, values: dict[str, tuple[str, ...]], constant: set[str]) -> Grouped:
        """The definition with some columns hidden from Spark's optimizer; ``constant`` are all that have one value."""
        by, block, ctx = self._grouped_by(), self.block, self.ctx
        hidden: dict[Scalar, Scalar] = {}
        filters = []
        for name, literals in values.items():
            item = self.outer[name]
            bare = item.tree.unalias()
            check_value(self.scope.column(bare).column)
            text = by[self._column(bare)]
            hidden[item] = Scalar(f"max({text}) AS {quote(item.tree.alias_or_name)}")
            filters.append(Scalar(f"{text} IN ({', '.join(literals)})"))
        items = tuple(hidden.get(item, item) for item in block.project.items)
        tree = where(block.tree, (*block.condition, *filters))
        new = block.over(tree, items=items)
        for outer in reversed(self.path[:-1]):
            assert isinstance(outer.tree, Derived)
            inside = where(replace(outer.tree, query=new), outer.condition)
            new = outer.over(inside)
        from_items = block.from_items.found
        relations = [s.relation for s in from_items]
        shown = (s for s in from_items if s.kind not in ("semi", "anti"))
        owners = [s.number for s in shown for _ in ctx.names.sources(s.relation)]
        gone = {self._column(self.outer[name].tree.unalias()) for name in constant}
        owned: dict[int, list[str]] = {}
        for key, text in by.items():
            if key not in gone:
                owned.setdefault(owners[key[0]], []).append(text)
        return Grouped(new, tuple(relations), tuple((relations[n], tuple(t)) for n, t in owned.items()), 1)
