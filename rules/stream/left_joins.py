"""Reads LEFT and RIGHT joins of changelogs: the joined relations, and whether each row has at most one match.

    FROM orders o JOIN shops s ON o.shop = s.id LEFT JOIN customers c ON o.customer = c.id WHERE c.region = 'north'

    inner      orders o, shops s     ON o.shop = s.id
    left       customers c           ON o.customer = c.id
    where      c.region = 'north'

A left join keeps the rows of its left side, so inner joins and conditions on other relations commute with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dovetail.planner.bind.scope import Scope
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Join, Logical, Scan
from dovetail.planner.state.bounds import equalities
from dovetail.rules.analysis.same_source import RelationLineage, base_value
from dovetail.rules.analysis.speculation import may_raise
from dovetail.rules.analysis.unique import Unique, unique_keys
from dovetail.rules.context import Context
from dovetail.rules.query.from_items import INNER, FromItem, bare, read_from_items
from dovetail.rules.query.query_block import read_block
from dovetail.rules.stream.stream_blocks import COLUMNS, Shape

_NULL_OF_NULL = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div),
    *(
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
    ),
)
"""Nodes that raise no error for NULL."""


def left_shape(query: Logical, ctx: Context) -> Shape | None:
    """Read a query with left joins, and inner ones; None if it has no outer join, or is more than one SELECT.

    ``on`` of the shape are the conjuncts of inner joins, then those of each left join.  Raises ``Refused``,
    ``Unsupported``.
    """
    block = read_block(query)
    if block is None:
        return None
    from_items = read_from_items(block.tree, INNER | {"left", "right"})
    for item in from_items.found:
        _check(item, block.tree)
    if not from_items.outer:
        return None
    scope = ctx.scope(*from_items.relations)
    lefts = {item.number for item in from_items.outer}
    inner: list[Scalar] = []
    where: list[Scalar] = []
    for conjunct in (*from_items.conjuncts, *block.condition):
        (where if scope.bind(conjunct).items & lefts else inner).append(conjunct)
    on = (*inner, *from_items.outer_conjuncts)
    of_lefts = tuple((item.number, item.on) for item in from_items.outer)
    return Shape(block, "inner", from_items.relations, on, tuple(where), of_lefts)


def keys_of(relation: Logical, read: RelationLineage, changed: bool, ctx: Context) -> Unique:
    """Return the unique keys of a relation, as sets of its columns."""
    if not changed:
        return unique_keys(relation, ctx)
    declared = ctx.catalog.declaration(read.base.name).changelog if isinstance(read.base, Scan) else None
    shown = [read.output_name(base_value(c, ctx.names)) for c in (declared.key if declared else ())]
    names = frozenset(ctx.names.folded(name for name in shown if name))
    return frozenset((names,)) if names and all(shown) else frozenset()


def compared(number: int, on: Sequence[Scalar], scope: Scope) -> list[exp.Column]:
    """Return the columns of a relation that ON compares with others by equality of one type.

    With two types, several values may be equal: '1' and '01' are both the number 1.
    """
    found = []
    for conjunct in on:
        operands = equalities(conjunct)
        plain: list[exp.Expression] = [operand.unnest() for operand in operands or ()]  # type: ignore[misc]
        for operand, other in (plain, plain[::-1]) if plain else ():
            named = scope.bind(operand).items, scope.bind(other).items
            if isinstance(operand, exp.Column) and named[0] == {number} and number not in named[1]:
                types = scope.type_of(operand), scope.type_of(other)
                if types[0] and types[1] and (types[0] == types[1] or (types[0].integral and types[1].integral)):
                    found.append(operand)
    return found


def key_refusal(name: str, change: str, keys: Unique) -> str:
    """Describe why a row may have several matches in a relation, and what to do."""
    if not keys:
        call = f"declare_changelog({name!r}, {change!r}, [its key])" if change else f"declare_key({name!r}, [its key])"
        return f"a row may have several matches in {name}, as far as is known; declare its key: {call}"
    known = " or ".join(f"({', '.join(sorted(key))})" for key in sorted(keys, key=sorted))
    return f"a row may have several matches in {name}: ON compares no key of it, {known}, with values of its types"


def check_without_match(shape: Shape, scope: Scope, ctx: Context) -> str:
    """Return why expressions above left joins cannot be computed for rows without a match; empty if they can.

    Each row is also computed without its match, and the result is subtracted; an error could not be subtracted.
    """
    lefts = {number for number, _ in shape.lefts}
    in_on = [(c, lefts - {number}) for number, on in shape.lefts for c in on]
    above = [(s, lefts) for s in (*shape.block.project.items, *shape.where)]
    for scalar, among in (*above, *in_on):
        tree: exp.Expression = scalar.tree.unalias()  # type: ignore[assignment]
        if isinstance(tree, exp.Star) or not scope.bind(tree).items & among:
            continue
        plain = all(isinstance(node, _NULL_OF_NULL) for node in tree.walk())
        if not plain and may_raise(scalar, scope.type_of, ctx):
            return f"{scalar.shown} might raise an error for a row without a match; compute it over the result"
    return ""


def _check(item: FromItem, tree: Logical) -> None:
    """Raise ``Refused`` for a join that cannot be split, and for a left join with several relations."""
    join = bare(item.relation)
    if not isinstance(join, Join):
        return
    if item.kind == "left":
        over = next(n for n in tree.walk() if isinstance(n, Join) and item.relation in (n.left, n.right))
        raise Refused(f"a {over.keyword.upper()} looks up more than one relation; join them one after the other")
    if join.using or join.natural:
        raise Refused(COLUMNS)
    raise Refused(f"rows of a {join.kind} join do not follow from changes one by one; write an inner or a left join")
