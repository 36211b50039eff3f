"""LEFT and RIGHT joins of changelogs as they are read: which relations are joined, and whether each row has one match.

    FROM orders o JOIN shops s ON o.shop = s.id LEFT JOIN customers c ON o.customer = c.id WHERE c.region = 'north'

    inner      orders o, shops s     ON o.shop = s.id
    left       customers c           ON o.customer = c.id
    where      c.region = 'north'

A left join keeps the rows of its left side, so inner joins and conditions on other relations commute with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from planner.expr import Scalar, column_ref, columns_in, sql
from planner.logical import Join, Logical, Scan
from planner.state.bounds import equalities
from planner.types.schema import SqlType
from rules.analysis.respelling import never_raises
from rules.analysis.same_source import SourceRows
from rules.analysis.unique import Unique, unique_keys
from rules.context import Context
from rules.query.moving import block_of
from rules.stream.stream_blocks import COLUMNS, NotTaken, Shape, bare

_NULL_OF_NULL = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Boolean,
    exp.Paren,
    exp.Neg,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.Mod,
    exp.Cast,
    exp.DataType,
    exp.DataTypeParam,
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.Between,
)
"""What raises no error for a NULL that it would not raise for a value."""

Named = Callable[[exp.Expression], frozenset[int]]
TypeOf = Callable[[exp.Expression], SqlType | None]


def left_shape(query: Logical, ctx: Context) -> Shape | None:
    """A query whose FROM has left joins, and inner ones; None where it has no outer join, or is more than a SELECT.

    ``on`` of the shape are the conjuncts of inner joins, then those of each left join.  Raises ``NotTaken``,
    ``Unresolved``, ``Unsupported``.
    """
    block = block_of(query)
    if block is None or not _has_outer(block.tree):
        return None
    read = _From()
    read.add(block.tree)
    sources = [(n, s) for n, relation in enumerate(read.relations) for s in ctx.names.sources(relation)]
    flat = tuple(s for _, s in sources)
    lefts = {number for number, _ in read.lefts}
    inner: list[Scalar] = []
    where: list[Scalar] = []
    for conjunct in (*read.inner, *block.condition):
        named = {sources[ctx.names.resolve(column_ref(c), flat)[0]][0] for c in columns_in(conjunct.tree)}
        (where if named & lefts else inner).append(conjunct)
    on = (*inner, *(c for _, own in read.lefts for c in own))
    return Shape(block, "inner", tuple(read.relations), on, tuple(where), lefts=tuple(read.lefts))


def keys_of(relation: Logical, read: SourceRows, changed: bool, ctx: Context) -> Unique:
    """The sets of columns of a relation, as it shows them, in which no two of the rows that are there agree."""
    if not changed:
        return unique_keys(relation, ctx)
    said = ctx.catalog.declaration(read.base.name).changelog if isinstance(read.base, Scan) else None
    shown = [read.named(sql(exp.column(ctx.names.fold(c), quoted=True))) for c in (said.key if said else ())]
    names = frozenset(ctx.names.fold(name) for name in shown if name)
    return frozenset((names,)) if names and all(shown) else frozenset()


def compared(number: int, on: Sequence[Scalar], named: Named, type_of: TypeOf) -> list[exp.Column]:
    """The columns of a relation that ON sets equal to something of others, so that one value meets one value.

    Values of two types may meet more: '1' and '01' are both the number 1.
    """
    found = []
    for conjunct in on:
        operands = equalities(conjunct)
        plain: list[exp.Expression] = [operand.unnest() for operand in operands or ()]  # type: ignore[misc]
        for own, other in (plain, plain[::-1]) if plain else ():
            if isinstance(own, exp.Column) and named(own) == {number} and number not in named(other):
                types = type_of(own), type_of(other)
                if types[0] and types[1] and (types[0] == types[1] or (types[0].integral and types[1].integral)):
                    found.append(own)
    return found


def why_not_one(name: str, change: str, keys: Unique) -> str:
    """What to do about a relation of which a row may have several matches."""
    if not keys:
        said = f"declare_changelog({name!r}, {change!r}, [its key])" if change else f"declare_key({name!r}, [its key])"
        return f"a row may have several matches in {name}, as far as is known; declare its key: {said}"
    known = " or ".join(f"({', '.join(sorted(key))})" for key in sorted(keys, key=sorted))
    return f"a row may have several matches in {name}: ON compares no key of it, {known}, with values of its types"


def check_without_match(shape: Shape, named: Named, type_of: TypeOf, *, ansi: bool) -> str:
    """Why expressions above left joins cannot be computed for rows without a match; nothing where they can.

    Each row is computed without its match as well, and what comes of it taken away: an error would stay.
    """
    lefts = {number for number, _ in shape.lefts}
    own = [(c, lefts - {number}) for number, on in shape.lefts for c in on]
    above = [(s, lefts) for s in (*shape.block.project.items, *shape.where)]
    for scalar, among in (*above, *own):
        tree: exp.Expression = scalar.tree.unalias()  # type: ignore[assignment]
        if isinstance(tree, exp.Star) or not named(tree) & among:
            continue
        plain = all(isinstance(node, _NULL_OF_NULL) for node in tree.walk())
        if not plain and not never_raises(tree, type_of, ansi=ansi):
            return f"{scalar.shown} might raise an error for a row without a match; compute it over what is returned"
    return ""


class _From:
    """The relations of FROM in the order written, with the conjuncts of inner joins and of each left join."""

    def __init__(self) -> None:
        self.relations: list[Logical] = []
        self.inner: list[Scalar] = []
        self.lefts: list[tuple[int, tuple[Scalar, ...]]] = []

    def add(self, node: Logical) -> None:
        node = bare(node)
        if not isinstance(node, Join):
            self.relations.append(node)
            return
        if node.using or node.natural:
            raise NotTaken(COLUMNS)
        if node.kind in ("inner", "cross"):
            self.add(node.left)
            self.add(node.right)
            self.inner += node.condition
        elif node.kind == "left":
            self.add(node.left)
            self.lefts.append((self._alone(node.right, node), node.condition))
        elif node.kind == "right":
            number = self._alone(node.left, node)
            self.add(node.right)
            self.lefts.append((number, node.condition))
        else:
            raise NotTaken(
                f"rows of a {node.kind} join do not follow from changes one by one; write an inner or a left join"
            )

    def _alone(self, node: Logical, join: Join) -> int:
        """The number of the relation that a left join looks up."""
        if isinstance(bare(node), Join):
            raise NotTaken(f"a {join.keyword.upper()} looks up more than one relation; join them one after the other")
        self.add(node)
        return len(self.relations) - 1


def _has_outer(node: Logical) -> bool:
    node = bare(node)
    if not isinstance(node, Join):
        return False
    return node.kind not in ("inner", "cross") or _has_outer(node.left) or _has_outer(node.right)
