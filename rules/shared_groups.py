"""Groups of one definition in WITH that several relations of a FROM read, each under other constants.

    WITH m AS (SELECT k, month, sum(v) AS s FROM t GROUP BY k, month)
    SELECT … FROM m a JOIN m b ON a.k = b.k WHERE a.month = 1 AND b.month = 2

Spark inlines the definition and pushes each constant below its own copy, so that no two copies are the same, and the
source is read and aggregated for each.  A filter on an aggregate is not pushed: with ``max(month) AS month`` in the
definition, and ``month IN (1, 2)`` below, the copies are one exchange, and each keeps its own groups of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from planner.expr import Scalar, column_ref, quote, sql
from planner.logical import Aggregate, Cte, Derived, Filter, Logical, Opaque, Project, Scan, Verbatim, With
from planner.names import Unresolved
from planner.schema import Column
from planner.tokens import tokenize
from planner.tree import Node
from planner.trying import whole_number
from rules.correlation import scalars
from rules.inner_joins import in_block, where
from rules.moving import Block, block_of, check_steady
from rules.partners import Sight, is_literal_of
from rules.rule import Context
from rules.spots import Spot, read_spots
from rules.ties import exact

Constants = dict[str, str]  # by the name of a column, the value that it has to have


@dataclass
class Use:
    """What a block asks of one of the relations that read a definition."""

    spot: Spot
    constants: Constants = field(default_factory=dict)
    compared: set[str] = field(default_factory=set)  # columns that conditions with other relations name
    alone: dict[str, set[str]] = field(default_factory=dict)  # other conditions on it alone, and the columns of each
    named: set[str] = field(default_factory=set)


def uses_of(cte: Cte, statement: With, ctx: Context) -> tuple[Use, ...]:
    """The relations that read a definition, if they are several, all in one FROM, and each an operand of inner joins.

    Raises ``Unresolved``, ``NotCarried`` where it cannot be told what they are asked for.
    """
    count = sum(isinstance(n, Scan) and n.cte == cte.key for n in statement.walk())
    if count < 2 or cte.renames or not _groups(cte.query) or _read_in_text(cte, statement, ctx):
        return ()
    for node in statement.walk():
        block = block_of(node) if isinstance(node, Project) else None
        spots = read_spots(block.tree) if block else None
        if block is None or spots is None:
            continue
        own = [s for s in spots.found if isinstance(s.relation, Scan) and s.relation.cte == cte.key]
        constants = sum(map(_has_constant, (*spots.conjuncts, *block.condition)))
        if len(own) == count <= constants and all(s.kind == "inner" and _plain(s.relation) for s in own):
            return _read(own, block, Sight(spots.found, ctx), ctx)
    return ()


def _read_in_text(cte: Cte, statement: With, ctx: Context) -> bool:
    """Whether something that is only known as text may read a definition: PIVOT, ``IN (TABLE m)``, IDENTIFIER."""
    name = ctx.names.fold(cte.name)
    for node in statement.walk():
        if isinstance(node, Verbatim | Opaque):
            return True
        for scalar in scalars(node):
            t = tokenize(scalar.text)
            for i in range(len(t)):
                if t[i].word == "IDENTIFIER" or (ctx.names.fold(t[i].text.strip("`")) == name and t.word(i + 1) != "."):
                    return True
    return False


def _groups(query: Logical) -> bool:
    """Whether a query aggregates groups, or shows what a subquery of it does.  Looks nothing up."""
    block = block_of(query)
    while block and not block.more and isinstance(block.tree, Derived):
        block = block_of(block.tree.query)
    return block is not None and any(isinstance(node, Aggregate) for node in block.more)


def _has_constant(conjunct: Scalar) -> bool:
    tree = exp.Null() if conjunct.plans else conjunct.tree.unnest()
    return isinstance(tree, exp.EQ) and (tree.this.find(exp.Column) is None) != (
        tree.expression.find(exp.Column) is None
    )


def _plain(relation: Logical) -> bool:
    return isinstance(relation, Scan) and relation.plain and not relation.renames


def _read(own: list[Spot], block: Block, sight: Sight, ctx: Context) -> tuple[Use, ...]:
    uses = {spot.number: Use(spot) for spot in own}
    spots = read_spots(block.tree)
    every = frozenset(s.number for s in spots.found)
    conjuncts = (*spots.conjuncts, *block.condition)
    outer = tuple(c for s in spots.found for c in s.on)
    others = (s for node in (block.project, *block.more) for s in scalars(node))
    for scalar in (*conjuncts, *outer, *others):
        if scalar.plans:
            raise Unresolved(f"{scalar.shown} holds a subquery")
        found = [sight.resolve(ref, (every,)) for ref in scalar.columns if ref.parts[-1] != "*"]
        if any(not isinstance(star.parent, exp.Count) for star in scalar.tree.find_all(exp.Star)):
            raise Unresolved(f"{scalar.shown} takes all columns")
        for number, column in found:
            if number in uses:
                uses[number].named.add(ctx.names.fold(column.name))
    for conjunct in (*conjuncts, *outer):
        check_steady(conjunct)
        found = [sight.resolve(ref, (every,)) for ref in conjunct.columns]
        numbers = {number for number, _ in found}
        if conjunct in outer:  # ON of an outer join keeps no row out
            numbers.add(-1)
        use = uses.get(found[0][0]) if len(numbers) == 1 else None
        if use is not None:
            constant = _constant(conjunct, found[0][1])
            names = {ctx.names.fold(column.name) for _, column in found}
            if constant is not None and len(names) == 1:
                use.constants[names.pop()] = constant
            else:
                use.alone[_anonymous(conjunct)] = names
        for number, column in found if len(numbers) > 1 else ():
            if number in uses:
                uses[number].compared.add(ctx.names.fold(column.name))
    return tuple(uses.values())


def _constant(conjunct: Scalar, column: Column) -> str | None:
    """The value that a conjunct says a column of exact type has; None for any other conjunct."""
    tree = conjunct.tree.unnest()
    if not isinstance(tree, exp.EQ) or not exact(column.type):
        return None
    left, right = tree.this.unnest(), tree.expression.unnest()
    if not isinstance(left, exp.Column):
        left, right = right, left
    assert column.type is not None
    if not isinstance(left, exp.Column) or len(column_ref(left).parts) > 2:
        return None
    if column.type.integral and whole_number(right) is not None:
        return str(whole_number(right))
    return sql(right) if is_literal_of(right, column.type) else None


def _anonymous(conjunct: Scalar) -> str:
    """A conjunct without the names of relations."""

    def bare(node: exp.Expr) -> exp.Expr:
        return exp.column(node.parts[-1].name.lower()) if isinstance(node, exp.Column) else node

    return sql(conjunct.tree.copy().transform(bare))


@dataclass(frozen=True)
class Grouped:
    """A definition whose copies are one; ``relations`` are read for it, ``keys`` say what it is grouped by.

    Each of ``keys`` is a relation, and its columns; columns that have constants are not among them, but counted: there
    are ``constants`` different ones.
    """

    query: Project
    relations: tuple[Logical, ...]
    keys: tuple[tuple[Logical, tuple[str, ...]], ...]
    constants: int


def grouped(query: Logical, uses: tuple[Use, ...], ctx: Context) -> Grouped | None:
    """A definition with the differing constants behind ``max`` and below; None where there are no such.

    Raises ``Unresolved``, ``NotCarried`` where the copies would not be the same, or groups depend on each other.
    """
    asked = [set(use.constants) for use in uses]
    common = set.intersection(*asked)
    hidden = {name for name in common if len({use.constants[name] for use in uses}) > 1}
    if not hidden:
        return None
    inner = _Inner(query, uses, ctx)
    keys = inner.keys()
    for use in uses:
        if use.compared & keys != uses[0].compared & keys or set(use.constants) & keys != asked[0] & keys:
            raise Unresolved("they are not compared by the same columns")
        mine, theirs = ({said for said, names in u.alone.items() if names & keys} for u in (use, uses[0]))
        if mine != theirs:
            raise Unresolved("one of them has a condition on its groups that another has not")
        if use.named - keys != uses[0].named - keys:
            raise Unresolved("they show other aggregates")
    if not hidden <= keys:
        return None
    values = {name: tuple(dict.fromkeys(use.constants[name] for use in uses)) for name in sorted(hidden)}
    count = len({tuple(use.constants[name] for name in sorted(common)) for use in uses})
    return replace(inner.rewritten(values, common & keys), constants=count)


class _Inner:
    """The block of a definition that aggregates, under blocks that only show and filter what it returns."""

    def __init__(self, query: Logical, uses: tuple[Use, ...], ctx: Context):
        self.ctx = ctx
        self.path: list[Block] = []
        self.names: dict[str, str] = {}  # of the definition's columns, in the block that aggregates
        node: Node = query
        while True:
            block = block_of(node)
            if block is None or not isinstance(node, Project) or node.quantifier or node.hint:
                raise Unresolved("it is more than a SELECT that groups")
            if any(item.plans or item.tree.find(exp.Window, exp.UDTF, exp.Explode) for item in node.items):
                raise Unresolved("it computes over several groups")
            self.path.append(block)
            if block.more:
                break
            if not isinstance(block.tree, Derived) or block.tree.lateral or block.tree.renames:
                raise Unresolved("it does not group")
            node = block.tree.query
        groups = [n for n in block.more if isinstance(n, Aggregate)]
        rest = [n for n in block.more if not isinstance(n, Aggregate)]
        if len(groups) != 1 or any(not isinstance(n, Filter) or n.clause != "HAVING" for n in rest):
            raise Unresolved("it is more than a SELECT that groups")
        self.block, self.groups = block, groups[0].groups
        self.sources = ctx.names.sources(block.tree)
        self.outer = self._outer()

    def _outer(self) -> dict[str, Scalar]:
        """By its name in the definition, the item of the grouping block that a column is, where it is one."""
        fold = self.ctx.names.fold
        found = {fold(i.tree.alias_or_name): i for i in self.block.project.items}
        for block in reversed(self.path[:-1]):
            shown = {}
            sources = self.ctx.names.sources(block.tree)
            for item in block.project.items:
                bare = item.tree.unalias()
                if not isinstance(bare, exp.Column) or isinstance(bare.this, exp.Star):
                    continue
                ref = column_ref(bare)
                name = fold(self.ctx.names.resolve(ref, sources)[1].name)
                if fold(ref.parts[-1]) == name and name in found:
                    shown[fold(item.tree.alias_or_name)] = found[name]
            found = shown
        return found

    def _grouped_by(self) -> dict[tuple[int, str], str]:
        """The columns that are grouped by, with their texts."""
        select = Scalar(f"(SELECT 1 GROUP BY {self.groups.text})").tree.find(exp.Select)
        group = select and select.args.get("group")
        if self.groups.plans or not group or any(v for k, v in group.args.items() if k != "expressions"):
            raise Unresolved("its groups are more than columns")
        found = {}
        for tree in group.expressions:
            if not isinstance(tree, exp.Column):
                raise Unresolved("its groups are more than columns")
            found[self._column(tree)] = sql(tree)
        return found

    def _column(self, tree: exp.Expr) -> tuple[int, str]:
        ref = column_ref(tree)  # type: ignore[arg-type]
        index, column = self.ctx.names.resolve(ref, self.sources)
        if self.ctx.names.fold(ref.parts[-1]) != self.ctx.names.fold(column.name):
            raise Unresolved(f"{ref.text} is a field of a column")
        return index, self.ctx.names.fold(column.name)

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
        for name, said in values.items():
            item = self.outer[name]
            text = by[self._column(item.tree.unalias())]
            hidden[item] = Scalar(f"max({text}) AS {quote(item.tree.alias_or_name)}")
            filters.append(Scalar(f"{text} IN ({', '.join(said)})"))
        items = tuple(hidden.get(item, item) for item in block.project.items)
        tree = where(block.tree, (*block.condition, *filters))
        new: Project = replace(in_block(block.project, tree), items=items)  # type: ignore[type-var, assignment]
        for outer in reversed(self.path[:-1]):
            assert isinstance(outer.tree, Derived)
            inside = where(replace(outer.tree, query=new), outer.condition)
            new = in_block(outer.project, inside)  # type: ignore[assignment]
        spots = read_spots(block.tree).found
        relations = [s.relation for s in spots]
        shown = (s for s in spots if s.kind not in ("semi", "anti"))
        owners = [s.number for s in shown for _ in ctx.names.sources(s.relation)]
        gone = {self._column(self.outer[name].tree.unalias()) for name in constant}
        owned: dict[int, list[str]] = {}
        for key, text in by.items():
            if key not in gone:
                owned.setdefault(owners[key[0]], []).append(text)
        return Grouped(new, tuple(relations), tuple((relations[n], tuple(t)) for n, t in owned.items()), 1)
