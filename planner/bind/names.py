"""Resolves columns to relations and infers the types of expressions by Spark's rules, on demand.

The catalog is queried only when a rule needs a name.  A name that cannot be resolved unambiguously is ``UnknownName``,
with the reason; Spark itself resolves the query, so there is no need to guess.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial

from sqlglot import exp

from dovetail.planner.catalog import Catalog
from dovetail.planner.catalog.declared import LookupTable
from dovetail.planner.catalog.settings import NameCase
from dovetail.planner.errors import NoSuchColumn, Place, Refused, UnknownName, Unsupported
from dovetail.planner.expr import ColumnRef, Scalar, column_ref, is_reference, is_star, name_of_item, quote, sql
from dovetail.planner.expr.calls import FUNCTIONS_WITHOUT_BRACKETS
from dovetail.planner.expr.tokens import tokenize
from dovetail.planner.logical import (
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
from dovetail.planner.logical.nearest_join import NearestJoin
from dovetail.planner.logical.placeholder import placeholder
from dovetail.planner.sql.to_sql import to_sql
from dovetail.planner.tree import Node, transform_up, unwrap
from dovetail.planner.types.schema import Column, Deferred, SqlType
from dovetail.planner.types.typed import infer_type


@dataclass(frozen=True)
class Source:
    """A relation in FROM: its names from the outermost in, the last of which qualifies columns, and its columns.

    None for columns that are not known.

    A *folded* name has the form in which ``case`` compares names.
    ``qualified_only``: the folded names of columns that USING or NATURAL merged into others: they need a qualifier.
    """

    names: tuple[str, ...]
    columns: tuple[Column, ...] | None
    qualified_only: frozenset[str] = frozenset()
    case: NameCase = field(default=NameCase(False), compare=False, repr=False)

    @cached_property
    def folded_names(self) -> tuple[str, ...]:
        """Its names, folded."""
        return self.case.folded(self.names)

    @property
    def folded_name(self) -> str:
        """Its last name, folded; empty where it has none."""
        return self.folded_names[-1] if self.names else ""

    @property
    def shown(self) -> str:
        """What messages call it."""
        return ".".join(self.names) or "a relation"

    @cached_property
    def columns_by_name(self) -> dict[str, tuple[Column, ...]]:
        """The columns by their folded names."""
        found: dict[str, tuple[Column, ...]] = {}
        for column in self.columns or ():
            name = self.case.fold(column.name)
            found[name] = (*found.get(name, ()), column)
        return found

    def known_columns(self, number: int | None = None) -> tuple[Column, ...]:
        """Its columns.  Raises ``UnknownName`` where they are not known, or not so many as ``number``."""
        if self.columns is None or number not in (None, len(self.columns)):
            raise UnknownName(f"the columns of {self.shown} are not known")
        return self.columns

    def check_distinct_columns(self, *, named: bool = False) -> None:
        """Raise ``Refused`` where two of its columns have one name; with ``named``, also where one has none."""
        if len(self.columns_by_name) < len(self.known_columns()) or (named and "" in self.columns_by_name):
            raise Refused(f"two columns of {self.shown} have one name, or one has none; name each with AS")

    @property
    def only_name(self) -> str:
        """Its name.  Raises ``Refused`` where that has several words, or none."""
        if len(self.names) != 1:
            raise Refused(f"{self.shown} has no name of one word; give it an alias")
        return self.names[0]

    def is_named(self, qualifier: tuple[str, ...]) -> bool:
        """Whether the folded names before a column are those of this relation; none fit any."""
        return not qualifier or self.folded_names[-len(qualifier) :] == qualifier

    def reference(self, column: str) -> str:
        """SQL for a column by the name of the relation; by its own name where it is one of two, merged by USING."""
        return ".".join(map(quote, (*self.names[-1:], column)))


def check_distinct_names(sources: Iterable[Source], place: Place | None = None) -> None:
    """Raise ``Refused`` where two relations have one name; one without a name has none in common."""
    names = Counter(source.folded_name for source in sources if source.names)
    if twice := next((name for name, times in names.items() if times > 1), None):
        raise Refused(f"two relations have the name {twice}; give one of them an alias", place)


class Resolver(NameCase):
    """Resolves columns against a catalog and the WITH definitions of one statement."""

    def __init__(self, catalog: Catalog, definitions: Mapping[str, Cte]):
        self.catalog, self._case = catalog, catalog.settings
        super().__init__(self._case.case_sensitive)
        self.definitions = dict(definitions)  # types are found later, when the statement may have others
        self._tables: dict[tuple[str, ...], tuple[Column, ...] | None] = {}
        self._queries: dict[Node, tuple[Column, ...] | None] = {}
        self._sources: dict[Node, tuple[Source, ...]] = {}

    def defines(self, table: tuple[str, ...]) -> bool:
        """Whether a WITH of the statement defines the name of a table, wherever in the statement."""
        return len(table) == 1 and self.is_among(table[0], (cte.name for cte in self.definitions.values()))

    def sources(self, plan: Node) -> tuple[Source, ...]:
        """The relations whose columns a condition over ``plan`` can name, in order."""
        if plan not in self._sources:
            self._sources[plan] = tuple(map(self._certain, self._find_sources(plan)))
        return self._sources[plan]

    def _certain(self, source: Source) -> Source:
        """A relation; as one that is not known where a column of it has the name of what is read as a function."""
        if source.case is self._case:
            return source  # one of a relation below
        odd = any(c.name.lower() in FUNCTIONS_WITHOUT_BRACKETS for c in source.columns or ())
        return Source(source.names, None if odd else source.columns, source.qualified_only, self._case)

    def _find_sources(self, node: Node) -> tuple[Source, ...]:
        if isinstance(node, NearestJoin) and any(shown.values for shown in node.nearest.right):
            return tuple(Source((one.name,), one.columns) for one in (*node.nearest.left, *node.nearest.right))
        match plan := unwrap(node):
            case Nested() if not plan.alias:
                return self.sources(plan.child)
            case Relation():
                return self._relation(plan)
            case Join() if plan.kind in ("semi", "anti"):
                return self.sources(plan.left)
            case LateralView():
                left = self.sources(plan.child)
                return (*left, self._generated(plan, plan.text, plan.alias, plan.columns, left))
            case Join() if isinstance(right := unwrap(plan.right), Opaque) and right.lateral:
                left = self.sources(plan.left)
                return (*left, self._generated(right, right.text, right.alias, right.renames, left))
        return tuple(s for child in plan.children for s in self.sources(child))

    def _relation(self, plan: Relation) -> tuple[Source, ...]:
        if plan.declared_columns is not None:
            return tuple(Source(_one(alias), columns) for alias, columns in plan.declared_columns)
        columns: tuple[Column, ...] | None
        match plan:
            case Scan():
                return (self._scan(plan),)
            case Derived():
                columns = _renamed(self._known(plan.query), plan.renames)
            case Nested():
                columns = None
            case Opaque() if plan.renames and not plan.lateral and plan.text.text.upper().startswith("VALUES"):
                query = Project(plan, (Scalar("*"),))
                columns = tuple(self._deferred(query, n, Column(c)) for n, c in enumerate(plan.renames))
            case _:
                columns = tuple(Column(c) for c in plan.renames) or None
        return (Source(_one(plan.alias), columns),)

    def columns(self, query: Logical) -> tuple[Column, ...] | None:
        """Return the columns of a query by its text, or None if they are unknown."""
        match unwrap(query):
            case With() | Sort() | Limit() | Wrapped() as query:
                return self.columns(query.child)
            case SetOp() as query:
                left, right = self.columns(query.left), self.columns(query.right)
                if left is None or right is None or len(left) != len(right) or "NAME" in query.keyword.upper():
                    return left and tuple(Column(c.name) for c in left)
                pairs = enumerate(zip(left, right, strict=True))
                return tuple(Column(a.name, Deferred(query, n, partial(_common, a, b))) for n, (a, b) in pairs)
            case Project() as query:
                found: list[Column] = []
                for number, item in enumerate(query.items):
                    more = self._item(item, query, number)
                    if more is None:
                        return None
                    found += more
                return tuple(found)
        return None

    def _known(self, query: Logical) -> tuple[Column, ...] | None:
        """Return the columns of a query, from its text if that names all of them, else from the catalog.

        A type that does not follow from the text comes from the catalog, once a rule needs it.
        """
        if query not in self._queries:
            columns = self.columns(query)
            if columns is None or not all(c.name for c in columns):
                columns = self._requested(query) or columns
            else:
                columns = tuple(self._deferred(query, n, c) for n, c in enumerate(columns))
            self._queries[query] = columns
        return self._queries[query]

    def _deferred(self, query: Logical, number: int, column: Column) -> Column:
        """A column whose type is found in the text of its query, else by the catalog, as is whether it may be NULL."""

        def requested() -> Column:
            found = self._requested(query) or ()
            same = number < len(found) and self.is_same(found[number].name, column.name)
            return found[number] if same else Column(column.name)

        return Column(
            column.name,
            Deferred(query, number, lambda: column.type or requested().type),
            nullable=Deferred(query, number, lambda: requested().may_be_null),
        )

    def _requested(self, query: Logical) -> tuple[Column, ...] | None:
        """The columns of a query, from the catalog."""
        with suppress(Unsupported):
            return self.catalog.schema(self.standalone_query(query))
        return None

    def standalone_query(self, query: Logical) -> str:
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
        return placeholder(node, lookup.columns) if lookup and isinstance(node, Scan) else node

    def lookup(self, scan: Scan) -> LookupTable | None:
        """The lookup that a table with FOR SYSTEM_TIME AS OF names; None for anything else."""
        return self.catalog.declaration(scan.name).lookup if scan.as_of and not scan.cte else None

    def resolve(self, ref: ColumnRef, sources: tuple[Source, ...]) -> tuple[int, Column]:
        """The relation (its index in ``sources``) and the column that ``ref`` names.

        A reference into a struct resolves to its column with the type of the field.  Raises ``UnknownName``.
        """
        for qualifiers in range(min(3, len(ref.parts) - 1), -1, -1):
            found = self._match(ref.parts, qualifiers, sources)
            if len(found) > 1:
                raise UnknownName(f"{ref.text} could belong to more than one relation")
            if found:
                return found[0]
        raise NoSuchColumn(f"{ref.text} is not a column of these relations")

    def _match(self, parts: tuple[str, ...], qualifiers: int, sources: tuple[Source, ...]) -> list[tuple[int, Column]]:
        qualifier = self.folded(parts[:qualifiers])
        name, rest = self.fold(parts[qualifiers]), parts[qualifiers + 1 :]
        found = []
        for index, source in enumerate(sources):
            if not source.is_named(qualifier):
                continue
            if source.columns is None:
                if not qualifier:
                    source.known_columns()
                found.append((index, Column(parts[qualifiers], None, rest)))
                continue
            if not qualifier and name in source.qualified_only:
                continue
            hits = source.columns_by_name.get(name, ())
            found += [(index, Column(c.name, c.type and c.type.field(rest), rest) if rest else c) for c in hits]
        return found

    def starred(self, star: exp.Expr, sources: tuple[Source, ...]) -> tuple[int, ...]:
        """The relations, by their index, whose columns ``*`` or ``relation.*`` shows.

        Raises ``Refused`` where it shows only some of their columns, or others.
        """
        qualifier = self.folded(part.name for part in star.parts[:-1]) if isinstance(star, exp.Column) else ()
        if any((star.this if isinstance(star, exp.Column) else star).args.values()):
            raise Refused(f"{sql(star)} is more than all columns")
        return tuple(number for number, source in enumerate(sources) if source.is_named(qualifier))

    def expand_star(
        self, star: exp.Expr, sources: tuple[Source, ...], relation: Node | None = None
    ) -> tuple[tuple[int, Column], ...]:
        """The columns that ``*`` or ``relation.*`` shows, each with the index of its relation.

        ``relation``: what FROM reads.  Raises ``Refused`` where they are not known or are fields of a struct, and where
        USING or NATURAL merges some.
        """
        numbers = self.starred(star, sources)
        merges = relation and any(isinstance(node, Join) and (node.using or node.natural) for node in relation.walk())
        if merges or not numbers:
            reason = "shows columns that USING or NATURAL merges" if numbers else "shows the fields of a struct"
            raise Refused(f"{sql(star)} {reason}; list these columns")
        return tuple((n, column) for n in numbers for column in sources[n].known_columns())

    def type_of(self, tree: exp.Expr, sources: tuple[Source, ...]) -> SqlType | None:
        """Infer the type of an expression without Spark; None if that is impossible, and for a computed interval."""

        def known(node: exp.Expr) -> SqlType | None:
            if is_reference(node):
                return self.resolve(column_ref(node), sources)[1].type  # type: ignore[arg-type]
            if isinstance(node, exp.Cast):
                raise Refused(
                    f"whether {sql(node)} has a time zone is not known: spark.sql.timestampType is TIMESTAMP_NTZ"
                )
            return None

        found = infer_type(tree, known, ntz=self.catalog.settings.timestamp_ntz)  # type: ignore[arg-type]
        if found and found.name == "interval" and not is_reference(tree):
            return None  # only Spark knows from which field to which
        return found

    def _generated(
        self, node: Node, text: Scalar, alias: str | None, names: tuple[str, ...], left: tuple[Source, ...]
    ) -> Source:
        """The relation that a call returns for each row of others, with the type of what ``explode`` takes apart."""

        def find() -> SqlType | None:
            t = tokenize(text.text)
            start = next((n for n in range(len(t) - 1) if t[n].is_name and t.word(n + 1) == "("), None)
            tree = None if start is None else Scalar(t.slice(start, t.match[start + 1] + 1)).known
            return self._type_of_item(tree, left) if isinstance(tree, exp.Explode) else None

        typed = Deferred(node, 0, find) if len(names) == 1 else None
        return Source(_one(alias), tuple(Column(name, typed) for name in names) or None)

    def _scan(self, scan: Scan) -> Source:
        if scan.cte and scan.cte in self.definitions:
            cte = self.definitions[scan.cte]
            columns = _renamed(self._known(cte.query), cte.renames)
        else:
            lookup = self.lookup(scan)
            if not lookup and scan.name not in self._tables:
                self._tables[scan.name] = self.catalog.columns(scan.name)
            columns = lookup.columns if lookup else self._tables[scan.name]
        aliased = bool(scan.suffix) and not self.is_same(scan.alias, scan.name[-1])
        names = _one(scan.alias) if aliased or scan.suffix else scan.name
        return Source(names, _renamed(columns, scan.renames))

    def _item(self, item: Scalar, query: Project, number: int) -> list[Column] | None:
        """The columns that one item of a select list returns."""
        try:
            sources = self.sources(query.child)
            tree = item.tree
            if is_star(tree):
                return [Column(c.name, c.typed) for _, c in self.expand_star(tree, sources, query.child)]
            name = name_of_item(tree)
        except Refused:  # also where only Spark reads the item
            return None
        return [Column(name, Deferred(query, number, partial(self._type_of_item, tree.unalias(), sources)))]

    def _type_of_item(self, tree: exp.Expr, sources: tuple[Source, ...]) -> SqlType | None:
        try:
            return self.type_of(tree, sources)
        except Refused:  # a column of the query around it, in LATERAL
            return None


def _one(alias: str | None) -> tuple[str, ...]:
    return (alias,) if alias else ()


def _renamed(columns: tuple[Column, ...] | None, renames: tuple[str, ...]) -> tuple[Column, ...] | None:
    if not renames:
        return columns
    if columns is None or len(columns) != len(renames):
        return tuple(Column(name) for name in renames)
    return tuple(Column(name, c.typed, nullable=c.nullable) for name, c in zip(renames, columns, strict=True))


def _common(one: Column, other: Column) -> SqlType | None:
    return one.type if one.type == other.type else None
