"""Pairs of rows of one source with equal keys and another column that differs, in queries that use only the key.

    SELECT a.k FROM t a, t b WHERE a.k = b.k AND a.w <> b.w
    SELECT a.k FROM (SELECT a.k FROM t a WHERE a.k IS NOT NULL GROUP BY a.k HAVING min(a.w) <> max(a.w)) AS a

The first query returns a key once for every pair, the second once; EXISTS, IN and a semi join do not see the
difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

from sqlglot import exp

from planner.conditions.compared import compared
from planner.errors import NoSuchColumn, Refused
from planner.expr import ColumnRef, Scalar, column_ref, quote
from planner.expr.substitution import substitute_columns
from planner.logical import Aggregate, Derived, Filter, Logical, Project, Scan
from planner.logical.relations import subquery_as
from planner.logical.self_join import DifferingKeys
from planner.types.schema import Column
from rules.analysis.containment_mapping import same_tables
from rules.analysis.equivalence_classes import FromScope
from rules.analysis.same_source import RelationLineage, over_base, same_source
from rules.context import Context
from rules.query.correlation import leans_on_left
from rules.query.decorrelation import check_deterministic, why_not_simple
from rules.query.definitions import definition_of
from rules.query.from_items import FromItem, FromItems
from rules.query.query_block import QueryBlock, read_block, where

_ANY = (Scalar("1"),)


def without_pairs(query: Logical, wanted: tuple[Scalar, ...], ctx: Context) -> Project | None:
    """A query, of whose rows only the distinct values of ``wanted`` matter, without pairs; None where it has none.

    ``wanted`` are items of its select list, which the new query shows; with none of them, it shows a literal.

    Raises ``Refused``, ``Unsupported`` with the reason why pairs have to stay.
    """
    block = read_block(query)
    if block is None or block.clauses or block.project.hint or not may_pair(block, ctx):
        return None
    if any(item.plans or why_not_simple(item.tree) for item in block.project.items):
        return None
    inner = [from_item for from_item in block.from_items.found if from_item.kind == "inner"]
    for one, other in combinations(inner, 2):
        if same_tables(one.relation, other.relation, ctx) and (found := _pair(one, other, block, wanted, ctx)):
            return found
    for from_item in inner:
        if found := _inside(from_item, block, wanted, ctx):
            return found
    return None


def may_pair(block: QueryBlock, ctx: Context) -> bool:
    """Whether a query, or one that it reads, could compare two rows of one table.  Looks nothing up."""
    inner = [from_item.relation for from_item in block.from_items.found if from_item.kind == "inner"]
    if any(same_tables(a, b, ctx) for a, b in combinations(inner, 2)):
        return any(sign in conjunct.text for conjunct in block.conjuncts for sign in ("<", ">", "!="))
    below = (read_block(query) for relation in inner if (query := definition_of(relation, ctx)))
    return any(found and not found.clauses and may_pair(found, ctx) for found in below)


def _inside(from_item: FromItem, block: QueryBlock, wanted: tuple[Scalar, ...], ctx: Context) -> Project | None:
    """Rewrite the pairs inside one relation of the query, which is a subquery or a CTE."""
    query = definition_of(from_item.relation, ctx)
    held = query and read_block(query)
    if query is None or not held or held.clauses or not may_pair(held, ctx):
        return None
    sight = FromScope(block.from_items.found, ctx)
    (source,) = ctx.names.sources(from_item.relation)
    renamed = isinstance(from_item.relation, Scan | Derived) and from_item.relation.renames
    if isinstance(from_item.relation, Scan):
        renamed = renamed or ctx.definitions[from_item.relation.cte].renames
    if not source.names or renamed or held.project.quantifier:
        return None
    _check_lateral(block.from_items)
    used: set[str] = set()
    for scalar in (*block.conjuncts, *block.from_items.outer_conjuncts, *wanted):
        used |= {ctx.names.fold(column.name) for number, column in _named(scalar, sight) if number == from_item.number}
    items = tuple(item for item in held.project.items if ctx.names.fold(item.tree.alias_or_name) in used)
    if len(items) != len(used) or not items:
        return None
    found = without_pairs(query, items, ctx)
    if found is None:
        return None
    new = subquery_as(found, source.names[-1])
    tree, moved = block.from_items.rebuilt({from_item.number: new}, lambda conjunct: conjunct)
    return Project(where(tree, (*block.condition, *moved)), wanted or _ANY)


def _named(scalar: Scalar, sight: FromScope) -> Iterator[tuple[int, Column]]:
    """The relations and columns that an expression names, but for those of queries around it."""
    if scalar.plans:
        raise Refused(f"{scalar.shown} contains another subquery")
    for ref in scalar.columns:
        if found := _resolved(ref, sight):
            yield found


def _resolved(ref: ColumnRef, sight: FromScope) -> tuple[int, Column] | None:
    if ref.parts[-1] == "*":
        raise Refused("the query returns all columns of the pairs")
    try:
        return sight.resolve(ref, (frozenset(from_item.number for from_item in sight.from_items),))
    except NoSuchColumn:
        return None


def _pair(
    one: FromItem, other: FromItem, block: QueryBlock, wanted: tuple[Scalar, ...], ctx: Context
) -> Project | None:
    """The query with one relation of keys in the place of two that are joined."""
    readings = same_source(one.relation, other.relation, ctx)
    if readings is None:
        return None
    _check_lateral(block.from_items)
    sight = FromScope(block.from_items.found, ctx)
    pair = _Pair(one, other, readings, sight, ctx)
    for conjunct in (*block.condition, *block.from_items.conjuncts):  # the order in which Spark evaluates them
        pair.read(conjunct)
    if not pair.keys or not pair.differ:
        return None
    kept = {c: new for c in block.conjuncts if c not in pair.gone and (new := pair.outside(c))}
    if any({n for n, _ in _named(c, sight)} & pair.numbers for c in block.from_items.outer_conjuncts):
        raise Refused("an outer join uses columns of the pairs")
    items = tuple(pair.shown(item) for item in wanted) or _ANY
    relation = pair.relation()
    # An ON may not see the relation that now has the key; WHERE does.
    tree, moved = block.from_items.rebuilt(
        {one.number: relation, other.number: None}, lambda c: c if kept.get(c) is c else None
    )
    changed = (c for c in block.from_items.conjuncts if c not in moved and kept.get(c) is not c)
    condition = tuple(dict.fromkeys(kept[c] for c in (*block.condition, *moved, *changed) if c in kept))
    return Project(where(tree, condition), items)


def _check_lateral(from_items: FromItems) -> None:
    if any(leans_on_left(from_item.relation) for from_item in from_items.found):
        raise Refused("a LATERAL relation may read the pairs")


@dataclass
class _Pair:
    """Two relations of one source, and the conditions of the block on them."""

    one: FromItem
    other: FromItem
    readings: tuple[RelationLineage, RelationLineage]
    sight: FromScope
    ctx: Context
    keys: dict[str, str] = field(default_factory=dict)  # values of the base that are equal, and their names
    differ: list[str] = field(default_factory=list)  # names of columns that are not
    gone: set[Scalar] = field(default_factory=set)  # conjuncts that the keys stand for
    filters: tuple[dict[str, Scalar], dict[str, Scalar]] = field(default_factory=lambda: ({}, {}))

    @property
    def numbers(self) -> set[int]:
        """Of both relations."""
        return {self.one.number, self.other.number}

    def read(self, conjunct: Scalar) -> None:
        """Read a conjunct on the pair.  Raises ``Refused`` if it needs more than the key."""
        named = {number for number, _ in _named(conjunct, self.sight)}
        if not named & self.numbers:
            return
        check_deterministic(conjunct)
        if named == self.numbers and self._compares(conjunct):
            self.gone.add(conjunct)
        elif len(named) == 1 and all(_resolved(ref, self.sight) for ref in conjunct.columns):
            side = 0 if named == {self.one.number} else 1
            from_item = (self.one, self.other)[side]
            value = over_base(self.ctx.scope(from_item.relation).bind(conjunct), (self.readings[side],))
            self.filters[side][value] = conjunct

    def _compares(self, conjunct: Scalar) -> bool:
        """Whether a conjunct compares a column with itself on the other side."""
        comparison = compared(conjunct)
        if comparison is None or comparison.sign not in ("=", "<>", "<", ">") or not comparison.columns:
            return False
        found = [_resolved(column_ref(end), self.sight) for end in comparison.operands]
        if found[0] is None or found[1] is None:
            return False
        values = [self.sight.value(number, column.name)[1] for number, column in (found[0], found[1])]
        if values[0] != values[1] or found[0][0] == found[1][0]:
            return False
        first = found[0] if found[0][0] == self.one.number else found[1]
        if comparison.sign == "=":
            if not (first[1].type and first[1].type.exact):
                raise Refused(f"{conjunct.shown} compares values that may be equal but not identical")
            self.keys[values[0]] = first[1].name
            return True
        if not (first[1].type and first[1].type.ordered):
            raise Refused(f"{conjunct.shown} compares values of a type that has no order")
        self.differ.append(first[1].name)
        return True

    def outside(self, conjunct: Scalar) -> Scalar | None:
        """Rewrite a conjunct over the relation of keys; None for a filter of the pair's own rows."""
        own = [named for named in _named(conjunct, self.sight) if named[0] in self.numbers]
        if not own:
            return conjunct
        if all(self._is_key(*named) for named in own):
            return self._over_keys(conjunct)
        if any(conjunct in side.values() for side in self.filters):
            return None
        raise Refused(f"{conjunct.shown} uses more of the pairs than their keys")

    def shown(self, item: Scalar) -> Scalar:
        """An item over the relation of keys.  Raises ``Refused``."""
        check_deterministic(item)
        for number, column in _named(item, self.sight):
            if number in self.numbers and not self._is_key(number, column):
                raise Refused(f"{item.shown} uses more of the pairs than their keys")
        name = item.tree.alias_or_name
        text = self._over_keys(item).text
        return Scalar(text if isinstance(item.tree, exp.Alias) or not name else f"{text} AS {quote(name)}")

    def _is_key(self, number: int, column: Column) -> bool:
        return self.sight.value(number, column.name)[1] in self.keys

    def _over_keys(self, scalar: Scalar) -> Scalar:
        return substitute_columns(scalar.without_comments, lambda column: self._key_of(column_ref(column)))

    def _key_of(self, ref: ColumnRef) -> str | None:
        found = _resolved(ref, self.sight)
        if found is None or found[0] not in self.numbers:
            return None
        return self._column(self.keys[self.sight.value(found[0], found[1].name)[1]])

    def _column(self, name: str) -> str:
        return ".".join(map(quote, (*self.sight.path(self.one.number)[-1:], name)))

    def relation(self) -> DifferingKeys:
        """The keys that two rows have which differ.  Raises ``Refused`` unless both sides keep the same rows."""
        if len(self.differ) > 1:
            raise Refused("several comparisons make the two rows of a pair differ")
        own, theirs = (self._rows(side) for side in (0, 1))
        if own != theirs:
            raise Refused("the two rows of a pair are filtered differently")
        names = list(self.keys.values())
        columns = [self._column(name) for name in names]
        (differ,) = self.differ
        filters = [c for value, c in self.filters[0].items() if value in own]
        tree = where(self.one.relation, (*filters, *(Scalar(f"{column} IS NOT NULL") for column in columns)))
        groups = Aggregate(tree, tuple(map(Scalar, columns)))
        least, most = (f"{function}({self._column(differ)})" for function in ("min", "max"))
        query = Project(Filter(groups, (Scalar(f"{least} <> {most}"),), "HAVING"), tuple(map(Scalar, columns)))
        alias = self.sight.path(self.one.number)[-1]
        (source,) = self.ctx.names.sources(self.one.relation)
        kept = tuple(c for c in source.columns or () if c.name in names)
        description = f"{', '.join(names)} of rows that differ in {differ}"
        return DifferingKeys(query, alias, (), f"AS {quote(alias)}", False, kept, description)

    def _rows(self, side: int) -> set[str]:
        """The conditions on the rows of one side that are no matter of the key."""
        found: Iterable[str] = (v for v, c in self.filters[side].items() if self._of_row(c))
        return {*found, *self.readings[side].filters}

    def _of_row(self, conjunct: Scalar) -> bool:
        return not all(self._is_key(*named) for named in _named(conjunct, self.sight))
