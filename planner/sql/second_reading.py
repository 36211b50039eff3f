"""A second reading of a statement: sqlglot parses all of it, and both readings must agree.

Both readings are compared in the structure that rules rely on: the names and scopes of WITH, the queries of a set
operation, relations with their aliases, the kinds and the nesting of joins, the number of conjuncts and where each
begins, the subqueries of every expression.  Inside an expression nothing is compared: the reader carries it as text,
and a rule that looks into it reads sqlglot's tree anyway.

In these points sqlglot differs from Spark or parses less, and its reading is not compared:

- A comma is a join like any other, which it is not under ``spark.sql.ansi.relationPrecedence``: grouped here.
- ``a JOIN b`` without ON has the condition TRUE, a comma is a CROSS JOIN.
- It does not know MATCH_CONDITION: an as-of join is compared as a join without it.  Nor does it know NEAREST BY, whose
  expression is compared as the condition of a join.
- A query in pipe syntax is read once more, and sqlglot reads the blocks that it was read as; it does not confirm that
  the pipes mean these blocks.
- TABLESAMPLE, versions, options and hints are not compared; nor is what the reader carries as text alone: PIVOT,
  a function in FROM, a query that it does not read.

If sqlglot cannot parse a statement at all, the rewriting is still allowed, and the trace reports it: sqlglot does not
know Spark's newest syntax, and the reader has verified that it lost no token.  It parses all golden cases that are
rewritten (``tests/planner/test_second_reading.py``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from sqlglot import exp

from dovetail.planner.catalog import Settings
from dovetail.planner.errors import Place, Unsupported
from dovetail.planner.expr import Scalar
from dovetail.planner.expr.ranking import read_direction
from dovetail.planner.expr.subqueries import subqueries
from dovetail.planner.expr.tokens import words
from dovetail.planner.logical import (
    Aggregate,
    Derived,
    Filter,
    Join,
    JoinKind,
    LateralView,
    Limit,
    Logical,
    Nested,
    OneRow,
    Opaque,
    Pipeline,
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
    clauses_of,
)
from dovetail.planner.logical.nearest_syntax import AsofJoin, NearestByJoin
from dovetail.planner.sql.from_sql import from_sql, read_again
from dovetail.planner.sql.reader import find_definition
from dovetail.planner.sql.to_sql import to_sql
from dovetail.planner.sql.whole_statement import (
    first_name,
    parsed,
    queries,
    query_alone,
    table_of,
    without_joins,
    without_nearest_clauses,
    without_pipes,
)
from dovetail.planner.tree import Node, transform_up

_CLAUSES = {"WHERE": "where", "HAVING": "having", "QUALIFY": "qualify"}
_TAILS = {
    "ORDER": "order",
    "SORT": "sort",
    "CLUSTER": "cluster",
    "DISTRIBUTE": "distribute",
    "LIMIT": "limit",
    "OFFSET": "offset",
}
_GROUPING_WORDS = ("all", "rollup", "cube", "grouping_sets")
_GROUPING_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)
_SET_OPERATIONS = {"UNION": exp.Union, "EXCEPT": exp.Except, "MINUS": exp.Except, "INTERSECT": exp.Intersect}


class Differs(Exception):
    """Both readings of a statement differ; the message has the first difference."""


def compare(plan: Logical, text: str, settings: Settings) -> None:
    """Compare a plan, as it was read from a text, with sqlglot's tree of it.  Raises ``Differs``, ``Unread``."""
    query, seen = (plan.child, query_alone(plan, text)) if isinstance(plan, Statement) else (plan, text)
    for pipeline in (node for node in plan.walk() if isinstance(node, Pipeline)):
        seen = without_pipes(seen, pipeline)
    read = transform_up(query, _as_plain_join)
    _Comparison(text, settings).query(read, parsed(without_nearest_clauses(seen)))


class _Comparison:
    def __init__(self, text: str, settings: Settings):
        self.settings = settings
        self.lines = (0, *(i + 1 for i, letter in enumerate(text) if letter == "\n"))
        self.scopes: list[dict[str, str]] = []

    def offset(self, place: Place | None) -> int | None:
        """Where a place is in what sqlglot has read."""
        return None if place is None else self.lines[place.line - 1] + place.column - 1

    def query(self, ours: Node, theirs: exp.Expr) -> None:
        """A query, with the names that its WITH defines."""
        if isinstance(ours, Verbatim):
            return
        if isinstance(ours, Pipeline):
            self.blocks(ours)
            return
        definitions = theirs.args.get("with_")
        if isinstance(ours, With):
            self.definitions(ours, definitions)
            self.tails(ours.child, theirs)
            self.scopes.pop()
        elif definitions:
            raise Differs("WITH has another position")
        else:
            self.tails(ours, theirs)

    def blocks(self, ours: Pipeline) -> None:
        """The blocks that a query in pipe syntax was read as."""
        text = to_sql(ours.child)
        try:
            if read_again(ours.text, self.settings, self.scopes) != ours:
                raise Differs("pipes are read in two ways")
            again, _ = from_sql(text, self.settings)
        except Unsupported as no:
            raise Differs(f"the blocks that pipes were read as cannot be read: {no}") from no
        if words(to_sql(again)) != words(text):
            raise Differs("the blocks that pipes were read as do not print back")
        compare(again, text, self.settings)

    def definitions(self, ours: With, theirs: exp.With | None) -> None:
        found = theirs.expressions if theirs else []
        self.same("the number of definitions in WITH", len(ours.definitions), len(found))
        scope: dict[str, str] = {}
        self.scopes.append(scope)
        for own, other in zip(ours.definitions, found, strict=True):
            self.same("a name in WITH", *self.settings.folded((own.name, other.alias)))
            self.same(f"the columns of {own.name}", len(own.renames), len(other.alias_column_names))
            self.query(own.query, other.this)
            scope[self.settings.fold(own.name)] = own.key

    def tails(self, ours: Node, theirs: exp.Expr) -> None:
        """ORDER BY, LIMIT and their like, and the query before them."""
        present = set()
        while isinstance(ours, Sort | Limit):
            name = _TAILS[ours.keyword.split()[0].upper()]
            present.add(name)
            if isinstance(ours, Sort):
                self.sort(ours, theirs.args.get(name))
            else:
                self.subqueries(ours.count.plans, [theirs.args.get(name)])
            ours = ours.child
        if not isinstance(ours, Verbatim | Pipeline):
            self.same(
                "the clauses behind a query", sorted(present), sorted(n for n in _TAILS.values() if theirs.args.get(n))
            )
        self.body(ours, theirs)

    def sort(self, ours: Sort, theirs: exp.Expr | None) -> None:
        """The keys of ORDER BY and its like, and their directions."""
        found = theirs.expressions if theirs else []
        self.pieces(ours.keyword, ours.keys, found)
        for direction, key in zip(ours.directions, found, strict=True):
            if isinstance(key, exp.Ordered):
                descending, first = bool(key.args.get("desc")), bool(key.args.get("nulls_first"))
                self.same("the order of a key", read_direction(direction), (descending, first))

    def body(self, ours: Node, theirs: exp.Expr) -> None:
        match ours:
            case Verbatim() | Values():
                return
            case Pipeline():
                self.blocks(ours)
            case Wrapped():
                if not isinstance(theirs, exp.Subquery | exp.Paren):
                    raise Differs("parentheses around a query have another position")
                self.query(ours.child, theirs.this)
            case SetOp():
                self.set_operation(ours, theirs)
            case Project():
                if not isinstance(theirs, exp.Select):
                    raise Differs("a SELECT has another position")
                self.block(ours, theirs)
            case _:
                raise Differs(f"{type(ours).__name__} is not a query")

    def set_operation(self, ours: SetOp, theirs: exp.Expr) -> None:
        """Both sides; sqlglot puts INTERSECT, which binds tighter, into parentheses that nobody wrote."""
        if isinstance(theirs, exp.Subquery) and isinstance(theirs.this, exp.SetOperation):
            theirs = theirs.this
        word, *more = ours.keyword.upper().split()
        if not isinstance(theirs, _SET_OPERATIONS[word]):
            raise Differs(f"{ours.keyword} has another position")
        self.same(f"ALL behind {word}", "ALL" in more, not theirs.args.get("distinct"))
        self.query(ours.left, theirs.this)
        self.query(ours.right, theirs.expression)

    def block(self, ours: Project, theirs: exp.Select) -> None:
        """One SELECT, clause by clause."""
        self.same("DISTINCT", ours.quantifier.upper() == "DISTINCT", bool(theirs.args.get("distinct")))
        self.same("the number of columns", len(ours.items), len(theirs.expressions))
        self.pieces("the select list", ours.items, theirs.expressions)
        present: set[str] = set()
        below, node = clauses_of(ours)
        for clause in below:
            match clause:
                case Filter():
                    name = _CLAUSES[clause.clause]
                    tree = theirs.args.get(name)
                    self.conjuncts(clause.clause, clause.condition, tree and tree.this)
                case Aggregate():
                    name = "group"
                    self.group_by(clause, theirs.args.get(name))
                case Windows():
                    name = "windows"
                    self.subqueries(clause.definitions.plans, theirs.args.get(name) or [])
            present.add(name)
        clauses = ("where", "group", "having", "qualify", "windows")
        self.same("the clauses of a SELECT", present, {name for name in clauses if theirs.args.get(name)})
        self.from_clause(node, theirs)

    def from_clause(self, ours: Node, theirs: exp.Select) -> None:
        first = theirs.args.get("from_")
        if isinstance(ours, OneRow) or first is None:
            self.same("FROM", isinstance(ours, OneRow), first is None)
            return
        views = list(theirs.args.get("laterals") or [])
        while isinstance(ours, LateralView):
            if not views:
                raise Differs("LATERAL VIEW has another position")
            view = views.pop()
            self.same("the name of a LATERAL VIEW", *self.settings.folded((ours.alias, view.alias)))
            self.same("the columns of a LATERAL VIEW", len(ours.columns), len(view.alias_column_names))
            self.subqueries(ours.text.plans, [view])
            ours = ours.child
        self.same("the number of LATERAL VIEWs", 0, len(views))
        self.joined(ours, first.this, theirs.args.get("joins") or [])

    def joined(self, ours: Node, first: exp.Expr, joins: list[exp.Join]) -> None:
        """A tree of joins against a list of them, read as Spark binds it."""
        if isinstance(ours, Opaque) and joins:  # all of FROM as text
            self.subqueries(ours.text.plans, [first, *joins])
            return
        if first.args.get("joins"):  # joins that sqlglot hangs on a table
            first, joins = without_joins(first), [*first.args["joins"], *joins]
        if joins and isinstance(ours, Join) and ours.keyword == "," and self.settings.commas_last:
            at = len(joins) - 1 - (_width(ours.right) if ours.comma == "last" else 0)
            if at < 0 or joins[at].kind != "CROSS":
                raise Differs("a comma has another position")
            self.same("a comma", (ours.kind, ours.condition), ("cross", ()))
            self.joined(ours.left, first, joins[:at])
            self.joined(ours.right, joins[at].this, joins[at + 1 :])
        elif joins:
            if not isinstance(ours, Join) or (ours.keyword == "," and ours.comma == "last"):
                raise Differs(f"a join with {joins[-1].this.alias_or_name or 'a relation'} has another position")
            if self.settings.commas_last and ours.keyword != "," and _has_comma(ours.left):
                raise Differs("a comma before a join binds last here")
            self.join(ours, joins[-1])
            self.joined(ours.left, first, joins[:-1])
            self.joined(ours.right, joins[-1].this, [])
        elif isinstance(ours, Join):
            raise Differs(f"a {ours.keyword.upper()} has another position")
        else:
            self.relation(ours, first)

    def join(self, ours: Join, theirs: exp.Join) -> None:
        """The kind of a join and its condition."""
        on = theirs.args.get("on")
        natural = theirs.method == "NATURAL"
        using = theirs.args.get("using") or []
        bare = not using and not natural and (not ours.condition and isinstance(on, exp.Boolean) and on.this)
        kind = theirs.kind.lower() if theirs.kind in ("SEMI", "ANTI", "CROSS") else theirs.side.lower() or "inner"
        if kind == "inner" and (bare or not (on or using or natural)):
            kind = "cross"
        self.same("the kind of a join", ours.kind, kind)
        self.same("NATURAL", ours.natural, natural)
        self.same("USING", [_unquoted(n) for n in ours.using], [n.name for n in using])
        self.conjuncts("ON", ours.condition, None if bare else on)

    def relation(self, ours: Node, theirs: exp.Expr) -> None:
        """One relation of FROM, with the name that it goes by."""
        match ours:
            case Opaque():
                self.subqueries(ours.text.plans, [theirs])
                return
            case Scan():
                theirs = table_of(theirs)
                if not isinstance(theirs, exp.Table):
                    raise Differs(f"{ours.text} has another position")
                self.same("a table", ours.name, tuple(part.name for part in theirs.parts))
                self.same(f"what {ours.text} means", ours.cte, self.meant(theirs))
                self.name(ours.alias or ours.name[-1], theirs.alias or theirs.name)
            case Derived():
                lateral = isinstance(theirs, exp.Lateral)
                self.same("LATERAL", ours.lateral, lateral)
                inner = theirs.this if lateral else theirs
                if isinstance(ours.query, Values) and isinstance(inner, exp.Values):
                    self.name(ours.alias or "", theirs.alias)
                    self.same("the columns of a relation", len(ours.renames), len(theirs.alias_column_names))
                    return
                if not isinstance(inner, exp.Subquery):
                    raise Differs("a subquery in FROM has another position")
                self.name(ours.alias or "", theirs.alias)
                self.query(ours.query, inner.this)
            case Nested():
                if not isinstance(theirs, exp.Subquery | exp.Paren):
                    raise Differs("parentheses in FROM have another position")
                self.name(ours.alias or "", theirs.alias if isinstance(theirs, exp.Subquery) else "")
                self.joined(ours.child, theirs.this, theirs.args.get("joins") or [])
                return
            case _:
                raise Differs(f"{type(ours).__name__} is not a relation")
        self.same("the columns of a relation", len(ours.renames), len(theirs.alias_column_names))

    def meant(self, table: exp.Table) -> str:
        """The key of the definition in WITH that a table's name stands for, or nothing."""
        return "" if len(table.parts) > 1 else find_definition(table.name, self.scopes, self.settings)

    def name(self, ours: str, theirs: str) -> None:
        self.same("the name of a relation", *self.settings.folded((ours, theirs)))

    def group_by(self, ours: Aggregate, theirs: exp.Group | None) -> None:
        """GROUP BY: its grouping expressions; where it is more than these, that it is more, and its subqueries."""
        if theirs is None:
            return
        more = any(theirs.args.get(name) for name in _GROUPING_WORDS) or any(
            isinstance(tree, _GROUPING_SETS) for tree in theirs.expressions
        )
        self.same("ALL, ROLLUP, CUBE or GROUPING SETS", ours.sets is not None, more)
        if ours.sets:
            self.subqueries(ours.sets.plans, [theirs])
        else:
            self.pieces("GROUP BY", ours.keys, theirs.expressions)

    def conjuncts(self, clause: str, ours: tuple[Scalar, ...], tree: exp.Expr | None) -> None:
        """The conjuncts of a condition, perhaps inside parentheses, as in ON of an as-of join."""
        while len(ours) > 1 and isinstance(tree, exp.Paren):
            tree = tree.this
        theirs = [] if tree is None else list(tree.flatten(unnest=False)) if isinstance(tree, exp.And) else [tree]
        self.pieces(clause, ours, theirs)

    def pieces(self, clause: str, ours: tuple[Scalar, ...], theirs: list[exp.Expr]) -> None:
        """What a clause is cut into: how many pieces, where each begins, and the subqueries in it."""
        self.same(f"the number of pieces of {clause}", len(ours), len(theirs))
        starts = [self.offset(scalar.place) for scalar in ours]
        for number, (scalar, one) in enumerate(zip(ours, theirs, strict=True)):
            self.expression(scalar, one)
            at = first_name(one)
            if at is not None and None not in starts and bisect_right(starts, at) != number + 1:  # type: ignore[type-var]
                raise Differs(f"{scalar.shown} in {clause} has another position")

    def expression(self, ours: Scalar, tree: exp.Expr | None) -> None:
        """The subqueries of an expression, and which of them are operands of EXISTS and IN."""
        self.subqueries(ours.plans, [tree])
        if ours.plans and tree is not None and not any(isinstance(plan, Verbatim) for plan in ours.plans):
            used = sorted(one.kind if one.kind in ("exists", "in") else "" for one in subqueries(ours))
            self.same("EXISTS and IN", used, sorted(map(_use, queries(tree))))

    def subqueries(self, ours: tuple[Node, ...], trees: Iterable[exp.Expr | None]) -> None:
        """The subqueries of an expression, in order."""
        theirs = sorted(
            (q for tree in trees if tree is not None for q in queries(tree)), key=lambda q: first_name(q) or 0
        )
        if len(ours) > 1 and any(first_name(query) is None for query in theirs):
            return  # no order to compare by
        self.same("the number of subqueries", len(ours), len(theirs))
        for own, other in zip(ours, theirs, strict=True):
            self.query(own, other)

    @staticmethod
    def same(what: str, ours: object, theirs: object) -> None:
        if ours != theirs:
            raise Differs(f"{what}: {_shown(ours)} and {_shown(theirs)}")


def _shown(value: object) -> str:
    if isinstance(value, tuple | list | set):
        return ", ".join(map(str, sorted(value) if isinstance(value, set) else value)) or "none"
    return str(value) or "none"


def _use(query: exp.Expr) -> str:
    """Whether a query in an expression is the operand of EXISTS or IN."""
    holder = query.parent
    if isinstance(holder, exp.Exists):
        return "exists"
    is_in = isinstance(holder, exp.Subquery) and isinstance(holder.parent, exp.In) and holder.arg_key == "query"
    return "in" if is_in else ""


def _as_plain_join(node: Node) -> Node:
    """A join without its MATCH_CONDITION, or with ON in the place of NEAREST BY."""
    if isinstance(node, NearestByJoin):
        return Join(node.left, node.right, node.kind, node.keyword, (node.match,))
    if not isinstance(node, AsofJoin):
        return node
    kind: JoinKind = "cross" if node.kind == "inner" and not (node.condition or node.using) else node.kind
    return Join(node.left, node.right, kind, node.keyword, node.condition, node.using)


def _width(ours: Node) -> int:
    """How many joins, outside parentheses, make a relation."""
    return 1 + _width(ours.left) if isinstance(ours, Join) else 0


def _has_comma(ours: Node) -> bool:
    """Whether a comma is among the joins that make a relation."""
    return isinstance(ours, Join) and (ours.keyword == "," or _has_comma(ours.left))


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name[:1] == "`" else name
