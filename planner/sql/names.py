"""Which relation a column belongs to, and what type an expression has: Spark's rules of resolution, on demand.

Nothing is looked up in the catalog before a rule asks.  What cannot be told for certain is ``Unresolved``, with the
reason; Spark itself will resolve the query, so there is nothing to guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from sqlglot import exp

from planner.catalog import Catalog
from planner.catalog.declared import LookupTable
from planner.errors import Unsupported
from planner.expr import ColumnRef, Scalar, column_ref, is_reference, sql
from planner.expr.calls import FUNCTIONS_WITHOUT_BRACKETS
from planner.logical import (
    Cte,
    Derived,
    Join,
    LateralView,
    Limit,
    Logical,
    Nested,
    Opaque,
    Project,
    Relation,
    Scan,
    SetOp,
    Sort,
    Verbatim,
    With,
    Wrapped,
)
from planner.logical.stand_in import stand_in
from planner.sql.to_sql import to_sql
from planner.tree import Node, transform_up, unwrap
from planner.types.schema import INTEGRAL, Column, SqlType, sql_type
from planner.types.typed import cast_type


class Unresolved(Exception):
    """A name that cannot be told for certain; the text says why."""


class NoSuchColumn(Unresolved):
    """A name that certainly is not a column of the relations at hand."""


@dataclass(frozen=True)
class Source:
    """A relation in FROM: the names it goes by, from the outermost in, and its columns (None: not known)."""

    names: tuple[str, ...]
    columns: tuple[Column, ...] | None


class Resolver:
    """Resolves columns against a catalog and the WITH definitions of one statement."""

    def __init__(self, catalog: Catalog, definitions: Mapping[str, Cte]):
        self.catalog = catalog
        self.definitions = definitions
        self._tables: dict[tuple[str, ...], tuple[Column, ...] | None] = {}
        self._queries: dict[Node, tuple[Column, ...] | None] = {}
        self._sources: dict[Node, tuple[Source, ...]] = {}

    def fold(self, name: str) -> str:
        """The form of a name in which two names are compared."""
        return name if self.catalog.settings.case_sensitive else name.lower()

    def sources(self, plan: Node) -> tuple[Source, ...]:
        """The relations whose columns a condition over ``plan`` can name, in order."""
        if plan not in self._sources:
            self._sources[plan] = tuple(map(self._certain, self._find_sources(plan)))
        return self._sources[plan]

    @staticmethod
    def _certain(source: Source) -> Source:
        """A relation; as one that is not known where a column of it has the name of what is read as a function."""
        odd = any(c.name.lower() in FUNCTIONS_WITHOUT_BRACKETS for c in source.columns or ())
        return Source(source.names, None) if odd else source

    def _find_sources(self, node: Node) -> tuple[Source, ...]:
        plan = unwrap(node)
        if isinstance(plan, Relation) and plan.tells is not None:
            return tuple(Source(_one(alias), columns) for alias, columns in plan.tells)
        match plan:
            case Scan():
                return (self._scan(plan),)
            case Derived():
                return (Source(_one(plan.alias), _renamed(self._known(plan.query), plan.renames)),)
            case Nested() if plan.alias:
                return (Source((plan.alias,), None),)
            case Join() if plan.kind in ("semi", "anti"):
                return self.sources(plan.left)
            case LateralView():
                columns = tuple(Column(c) for c in plan.columns) or None
                return (*self.sources(plan.child), Source(_one(plan.alias), columns))
            case Relation() if not isinstance(plan, Nested):
                columns = tuple(Column(c) for c in plan.renames) or None
                return (Source(_one(plan.alias), columns),)
        return tuple(s for child in plan.children for s in self.sources(child))

    def columns(self, query: Logical) -> tuple[Column, ...] | None:
        """The columns that a query returns, or None when they cannot be told."""
        match unwrap(query):
            case With() | Sort() | Limit() | Wrapped() as query:
                return self.columns(query.child)
            case SetOp() as query:
                left, right = self.columns(query.left), self.columns(query.right)
                if left is None or right is None or len(left) != len(right) or "NAME" in query.keyword.upper():
                    return left and tuple(Column(c.name) for c in left)
                return tuple(
                    Column(a.name, a.type if a.type == b.type else None) for a, b in zip(left, right, strict=True)
                )
            case Project() as query:
                found: list[Column] = []
                for item in query.items:
                    more = self._item(item, query)
                    if more is None:
                        return None
                    found += more
                return tuple(found)
        return None

    def _known(self, query: Logical) -> tuple[Column, ...] | None:
        """The columns of a query, from its text where that tells them all with their types, else from the catalog."""
        if query not in self._queries:
            columns = self.columns(query)
            if columns is None or not all(c.name and c.type for c in columns):
                with suppress(Unsupported):
                    columns = self.catalog.schema(self.standing_alone(query)) or columns
            self._queries[query] = columns
        return self._queries[query]

    def standing_alone(self, query: Logical) -> str:
        """A query as SQL, with the WITH definitions that it may need before it, and without any row of a lookup."""
        definitions = self._needed(query)
        return to_sql(transform_up(With(definitions, query) if definitions else query, self._stand_in))

    def _needed(self, query: Logical) -> tuple[Cte, ...]:
        """The WITH definitions that a query reads, also through others; all of them where some of it is only text."""
        found: set[str] = set()
        waiting: list[Node] = [query]
        while waiting:
            for node in waiting.pop().walk():
                if isinstance(node, Verbatim | Opaque):
                    return tuple(self.definitions.values())
                if isinstance(node, Scan) and node.cte in self.definitions and node.cte not in found:
                    found.add(node.cte)
                    waiting.append(self.definitions[node.cte].query)
        return tuple(definition for key, definition in self.definitions.items() if key in found)

    def _stand_in(self, node: Node) -> Node:
        lookup = self.lookup(node) if isinstance(node, Scan) else None
        return stand_in(node, lookup.columns) if lookup and isinstance(node, Scan) else node

    def lookup(self, scan: Scan) -> LookupTable | None:
        """The lookup that a table with FOR SYSTEM_TIME AS OF names; None for anything else."""
        return self.catalog.declaration(scan.name).lookup if scan.as_of and not scan.cte else None

    def resolve(self, ref: ColumnRef, sources: tuple[Source, ...]) -> tuple[int, Column]:
        """The relation (its index in ``sources``) and the column that ``ref`` names.

        A reference into a struct resolves to its column with the type of the field.  Raises ``Unresolved``.
        """
        for qualifiers in range(min(3, len(ref.parts) - 1), -1, -1):
            found = self._match(ref.parts, qualifiers, sources)
            if len(found) > 1:
                raise Unresolved(f"{ref.text} could belong to more than one relation")
            if found:
                return found[0]
        raise NoSuchColumn(f"{ref.text} is not a column of these relations")

    def _match(self, parts: tuple[str, ...], qualifiers: int, sources: tuple[Source, ...]) -> list[tuple[int, Column]]:
        qualifier = tuple(map(self.fold, parts[:qualifiers]))
        name, rest = self.fold(parts[qualifiers]), parts[qualifiers + 1 :]
        found = []
        for index, source in enumerate(sources):
            names = tuple(map(self.fold, source.names))
            if qualifier and (not names or names[-len(qualifier) :] != qualifier):
                continue
            if source.columns is None:
                if not qualifier:
                    raise Unresolved(f"the columns of {'.'.join(source.names) or 'a relation'} are not known")
                found.append((index, Column(parts[qualifiers], None, rest)))
                continue
            hits = [c for c in source.columns if self.fold(c.name) == name]
            found += [(index, Column(c.name, c.type and c.type.field(rest), rest) if rest else c) for c in hits]
        return found

    def type_of(self, tree: exp.Expr, sources: tuple[Source, ...]) -> SqlType | None:
        """The type of an expression as far as it can be told without Spark; None where it cannot."""
        match tree:
            case exp.Paren():
                return self.type_of(tree.this, sources)
            case exp.Column() | exp.Dot() if is_reference(tree):
                return self.resolve(column_ref(tree), sources)[1].type
            case exp.Cast():  # TryCast too
                found = cast_type(tree, ntz=self.catalog.settings.timestamp_ntz)
                if found is None:
                    raise Unresolved(f"whether {sql(tree)} has a time zone is not told: TIMESTAMP means TIMESTAMP_NTZ")
                return found
            case exp.Literal() if tree.is_string:
                return sql_type("string")
            case exp.Literal():
                return _literal(tree.name)
            case exp.Neg() | exp.Abs() | exp.Max() | exp.Min():
                return self.type_of(tree.this, sources)
            case exp.Coalesce() | exp.Greatest() | exp.Least():
                return _common([self.type_of(e, sources) for e in (tree.this, *tree.expressions)])
            case exp.Count():
                return sql_type("bigint")
            case exp.Sum() | exp.Avg() if not isinstance(tree.this, exp.Distinct):
                return _aggregated(tree, self.type_of(tree.this, sources))
            case exp.UnixSeconds() | exp.UnixMillis() | exp.UnixMicros():
                return SqlType("bigint")
            case exp.TimestampTrunc():
                return SqlType("timestamp")
            case exp.CurrentDate():
                return SqlType("date")
        return None

    def _scan(self, scan: Scan) -> Source:
        if scan.cte and scan.cte in self.definitions:
            cte = self.definitions[scan.cte]
            columns = _renamed(self._known(cte.query), cte.renames)
        else:
            lookup = self.lookup(scan)
            if not lookup and scan.name not in self._tables:
                self._tables[scan.name] = self.catalog.columns(scan.name)
            columns = lookup.columns if lookup else self._tables[scan.name]
        aliased = bool(scan.suffix) and self.fold(scan.alias or "") != self.fold(scan.name[-1])
        names = _one(scan.alias) if aliased or scan.suffix else scan.name
        return Source(names, _renamed(columns, scan.renames))

    def _item(self, item: Scalar, query: Project) -> list[Column] | None:
        """The columns that one item of a select list returns."""
        sources = self.sources(query.child)
        try:
            tree = item.tree
            if isinstance(tree, exp.Star):
                if tree.args.get("except_") or tree.args.get("replace") or _merged(query.child):
                    return None
                return _all(sources)
            if isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star):
                names = tuple(self.fold(p.name) for p in tree.parts[:-1])
                wanted = [s for s in sources if tuple(map(self.fold, s.names))[-len(names) :] == names]
                return None if tree.this.args.get("except_") else _all(wanted)
            name = tree.alias_or_name if isinstance(tree, exp.Alias | exp.Column) else ""
            return [Column(name or "", self.type_of(tree.unalias(), sources))]
        except Unresolved:
            return None


def _aggregated(tree: exp.Expr, of: SqlType | None) -> SqlType | None:
    """The type of sum or avg of values of a type."""
    if of is None or not of.numeric:
        return None
    if of.name == "decimal":
        more = (10, 0) if isinstance(tree, exp.Sum) else (4, 4)
        precision, scale = (min(digits + add, 38) for digits, add in zip((of.precision, of.scale), more, strict=True))
        return sql_type(f"decimal({precision},{scale})")
    return sql_type("bigint" if of.integral and isinstance(tree, exp.Sum) else "double")


def _common(types: list[SqlType | None]) -> SqlType | None:
    """The type that holds all of these, where there is little to it: one type, or integers of any size."""
    known = [t for t in types if t is not None]
    if len(known) == len(types) and all(t.integral for t in known):
        return max(known, key=lambda t: INTEGRAL.index(t.name))
    return known[0] if len(known) == len(types) and len(set(known)) == 1 else None


def _one(alias: str | None) -> tuple[str, ...]:
    return (alias,) if alias else ()


def _all(sources: list[Source] | tuple[Source, ...]) -> list[Column] | None:
    if any(s.columns is None for s in sources):
        return None
    return [c for s in sources for c in s.columns or ()]


def _merged(plan: Node) -> bool:
    return any(isinstance(n, Join) and (n.using or n.natural) for n in plan.walk())


def _renamed(columns: tuple[Column, ...] | None, renames: tuple[str, ...]) -> tuple[Column, ...] | None:
    if not renames:
        return columns
    if columns is None or len(columns) != len(renames):
        return tuple(Column(name) for name in renames)
    return tuple(Column(name, c.type) for name, c in zip(renames, columns, strict=True))


def _literal(text: str) -> SqlType:
    if "e" in text.lower():
        return SqlType("double")
    if "." in text:
        before, behind = text.split(".")
        precision, scale = max(len(before.lstrip("0")) + len(behind), 1), len(behind)
        return SqlType("decimal", precision, scale, f"decimal({precision},{scale})")
    return SqlType("int" if int(text) < 2**31 else "bigint")
