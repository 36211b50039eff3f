"""Collects how FROM uses the relations that read one CTE: their constants, other comparisons, and columns."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from planner.conditions.compared import compared
from planner.errors import Refused
from planner.expr import Scalar, canonical, column_ref, has_star, sql
from planner.expr.references import column_refs
from planner.expr.substitution import replace_columns
from planner.expr.tokens import called
from planner.logical import Cte, Derived, Logical, Opaque, Project, Scan, Verbatim, With, expressions
from planner.types.schema import Column
from planner.types.try_expressions import whole_number
from rules.analysis.equivalence_classes import FromScope, is_literal_of
from rules.context import Context
from rules.query.decorrelation import check_deterministic
from rules.query.from_items import FromItem
from rules.query.query_block import QueryBlock, read_block

Constants = dict[str, str]  # by the name of a column, the value that it has to have


@dataclass
class Use:
    """The use that a block makes of one of the relations that read a definition."""

    from_item: FromItem
    constants: Constants = field(default_factory=dict)
    compared: set[str] = field(default_factory=set)  # columns that conditions with other relations name
    alone: dict[str, set[str]] = field(default_factory=dict)  # other conditions on it alone, and the columns of each
    named: set[str] = field(default_factory=set)


def uses_of(cte: Cte, statement: With, ctx: Context) -> tuple[Use, ...]:
    """The relations that read a definition, if they are several, all in one FROM, and each an operand of inner joins.

    Raises ``Refused``, ``Unsupported`` where the requested columns are not known.
    """
    count = sum(isinstance(n, Scan) and n.cte == cte.key for n in statement.walk())
    if count < 2 or cte.renames or not _groups(cte.query):
        return ()
    for node in statement.walk():
        block = read_block(node) if isinstance(node, Project) else None
        if block is None:
            continue
        own = [s for s in block.from_items.found if isinstance(s.relation, Scan) and s.relation.cte == cte.key]
        constants = sum(map(_has_constant, block.conjuncts))
        if len(own) == count <= constants and all(s.kind == "inner" and _plain(s.relation) for s in own):
            return () if _read_in_text(cte, statement, ctx) else _read(own, block, ctx)
    return ()


def _read_in_text(cte: Cte, statement: With, ctx: Context) -> bool:
    """Whether something that is only known as text may read a definition: PIVOT, ``IN (TABLE m)``, IDENTIFIER."""
    name = ctx.names.fold(cte.name)
    for node in statement.walk():
        if isinstance(node, Verbatim | Opaque):
            return True
        for scalar in expressions(node):
            alone = (ref.parts[0] for ref in column_refs(scalar.text) if len(ref.parts) == 1)
            if "IDENTIFIER" in called(scalar.text) or name in map(ctx.names.fold, alone):
                return True
    return False


def _groups(query: Logical) -> bool:
    """Whether a query, or a subquery that it reads, groups.  Looks nothing up."""
    block = read_block(query)
    while block and not block.clauses and isinstance(block.tree, Derived):
        block = read_block(block.tree.query)
    return block is not None and block.aggregate is not None


def _has_constant(conjunct: Scalar) -> bool:
    comparison = compared(conjunct)
    if comparison is None or comparison.sign != "=":
        return False
    return [bool(end.find(exp.Column)) for end in comparison.operands].count(True) == 1


def _plain(relation: Logical) -> bool:
    return isinstance(relation, Scan) and relation.plain and not relation.renames


def _read(own: list[FromItem], block: QueryBlock, ctx: Context) -> tuple[Use, ...]:
    uses = {from_item.number: Use(from_item) for from_item in own}
    sight = FromScope(block.from_items.found, ctx)
    every = frozenset(s.number for s in block.from_items.found)
    conjuncts, outer = block.conjuncts, block.from_items.outer_conjuncts
    for scalar in (*conjuncts, *outer, *expressions(block.project), *block.in_clauses):
        if scalar.plans:
            raise Refused(f"{scalar.shown} holds a subquery")
        found = [sight.resolve(ref, (every,)) for ref in scalar.columns if ref.parts[-1] != "*"]
        if has_star(scalar.tree):
            raise Refused(f"{scalar.shown} takes all columns")
        for number, column in found:
            if number in uses:
                uses[number].named.add(ctx.names.fold(column.name))
    for conjunct in (*conjuncts, *outer):
        check_deterministic(conjunct)
    for conjunct in conjuncts:
        found = [sight.resolve(ref, (every,)) for ref in conjunct.columns]
        numbers = {number for number, _ in found}
        if len(numbers) > 1:
            _compare(found, uses, ctx)
        elif found and (use := uses.get(found[0][0])):
            constant = _constant(conjunct, found[0][1], ctx)
            names = {ctx.names.fold(column.name) for _, column in found}
            if constant is not None and len(names) == 1:
                use.constants[names.pop()] = constant
            else:
                use.alone[_anonymous(conjunct, ctx)] = names
    for conjunct in outer:  # ON of an outer join keeps no row out, whatever constants it names
        _compare([sight.resolve(ref, (every,)) for ref in conjunct.columns], uses, ctx)
    return tuple(uses.values())


def _compare(found: list[tuple[int, Column]], uses: dict[int, Use], ctx: Context) -> None:
    for number, column in found:
        if number in uses:
            uses[number].compared.add(ctx.names.fold(column.name))


def _constant(conjunct: Scalar, column: Column, ctx: Context) -> str | None:
    """Return the constant that a conjunct equates with a column of exact type; None for any other conjunct."""
    comparison = compared(conjunct)
    if comparison is None or comparison.sign != "=" or not (column.type and column.type.exact):
        return None
    left, right = comparison.operands
    if not isinstance(left, exp.Column):
        left, right = right, left
    assert column.type is not None
    if not isinstance(left, exp.Column) or len(column_ref(left).parts) > 2:
        return None
    if column.type.integral and whole_number(right) is not None:
        return str(whole_number(right))
    return sql(right) if is_literal_of(right, column.type, ctx.names) else None


def _anonymous(conjunct: Scalar, ctx: Context) -> str:
    """A conjunct without the names of relations."""

    def bare(column: exp.Expression) -> exp.Expression:
        return exp.column(ctx.names.fold(column_ref(column).parts[-1]), quoted=True)

    return canonical(replace_columns(conjunct.tree, bare))
