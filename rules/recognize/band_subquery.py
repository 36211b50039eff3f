"""Recognize aggregates over a band of the same source.

SELECT x.id, (SELECT count(*) FROM t y WHERE y.k = x.k AND y.ts BETWEEN x.ts - 600 AND x.ts) AS n FROM t x
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.band.comparisons import looks_like_band
from planner.band.linear import NotABand
from planner.errors import Unsupported
from planner.expr import Scalar, column_ref, quote
from planner.logical import Join, LateralView, Limit, Logical, Nested, Project, Sort
from planner.logical.band_window import BandWindow, WindowedSource
from planner.sql.names import Unresolved
from planner.sql.to_sql import refuse_stars
from planner.tree import Node
from rules.analysis.same_source import same_source
from rules.context import Context
from rules.query.aggregate_calls import Call, calls, outside, replaced
from rules.query.aggregates import without_alias
from rules.query.inner_joins import InnerJoins, inner_joins
from rules.query.inner_joins import where as filtered
from rules.query.moving import SelectBlock, block_of, check_deterministic, homes
from rules.query.scalar_subqueries import answered
from rules.rule import rule
from rules.window.frame_aggregates import FrameAggregates
from rules.window.self_band import NoWindow, Pair


@rule(Project)
def band_subquery(project: Project, ctx: Context) -> BandWindow | None:
    """Recognize a subquery that aggregates the rows of the same table within a band of each row.

    Spark would join the table with itself on the equal keys and aggregate the pairs.  A window with a RANGE frame
    reads the table once (Leis et al., "Efficient Processing of Window Functions in Analytical SQL Queries", VLDB
    2015).
    """
    block = block_of(project)
    if block is not None:
        for plan in (p for s in (*project.items, *block.condition) for p in s.plans):
            _say_of_one_row(plan, block, ctx)
    if block is None or not any(_is_candidate(p) for s in (*project.items, *block.condition) for p in s.plans):
        return None
    joins = inner_joins(project, ctx.names)
    assert joins is not None
    found = _Found(project, joins, ctx)
    items = tuple(found.rewritten(item, item=True) for item in project.items)
    where = tuple(found.rewritten(c, item=False) for c in block.condition)
    if not found.totals:
        return None
    try:
        other = found.block(items, where)
    except (Unresolved, Unsupported) as no:
        return ctx.decline(f"no window: {no}", None)
    return BandWindow(project, other, "; ".join(dict.fromkeys(found.said)), tuple(found.sources.values()))


def _say_of_one_row(plan: Node, outer: SelectBlock, ctx: Context) -> None:
    """Decline for ``(SELECT y.v FROM t y WHERE y.ts <= x.ts ORDER BY y.ts DESC LIMIT 1)``: the row before another."""
    inner = block_of(plan)
    if inner is None or [type(node) for node in inner.more] != [Limit, Sort]:
        return
    with suppress(Unresolved, Unsupported):
        scopes = (ctx.names.sources(inner.tree), ctx.names.sources(outer.tree))
        for c in filter(looks_like_band, inner.condition):
            if len(homes(c, scopes, ctx.names)) > 1:
                ctx.decline("no window: ORDER BY … LIMIT picks a row, and a window only aggregates", c.place)


def _is_candidate(plan: Node) -> bool:
    """Cheap: one aggregate over one relation, with a comparison by order in WHERE."""
    inner = block_of(plan)
    if inner is None or inner.more or len(inner.project.items) != 1 or len(inner.condition) < 1:
        return False
    return any(looks_like_band(c) for c in inner.condition) and "(" in inner.project.items[0].text


@dataclass
class _Found:
    """The subqueries of one block that become columns of a relation in its FROM."""

    project: Project
    joins: InnerJoins
    ctx: Context

    def __post_init__(self) -> None:
        self.relations = _leaves(self.joins.block.tree)
        self.totals: dict[int, list[FrameAggregates]] = {}
        self.sources: dict[int, WindowedSource] = {}
        self.said: list[str] = []

    def rewritten(self, scalar: Scalar, *, item: bool) -> Scalar:
        """An expression with columns in the place of subqueries, where they are such; else itself."""
        return answered(scalar, lambda plan: self._value(plan, scalar, item))

    def _value(self, plan: Node, scalar: Scalar, item: bool) -> str | None:
        if not _is_candidate(plan):
            return None
        inner = block_of(plan)
        assert inner is not None
        place = inner.condition[0].place
        try:
            if item and self.joins.block.more:
                raise NoWindow("the query around it groups or sorts rows", place)
            if item and not isinstance(scalar.tree, exp.Alias):
                raise NoWindow(f"{scalar.shown} has no name of its own", place)
            return self._as_column(inner)
        except (NoWindow, NotABand, Unsupported) as no:
            self.ctx.decline(f"no window: {no.reason}", no.place or place)
        except Unresolved as no:
            self.ctx.decline(f"no window: {no}", place)
        return None

    def _as_column(self, block: SelectBlock) -> str | None:
        if block.project.quantifier or block.project.hint:
            return None
        sources = self.ctx.names.sources(block.tree)
        if len(sources) != 1:
            raise NoWindow("the subquery reads more than one relation")
        found = calls(block.project.items[0])
        if not found:
            return None
        for at, relation in enumerate(self.relations):
            readings = same_source(relation, block.tree, self.ctx)
            if readings is None:
                continue
            if len(self.relations) != len(self.joins.sources):
                raise NoWindow("a relation in FROM has several names")
            pair = Pair(self.ctx, relation, (1, at), (0, 0), readings, (sources, self.joins.sources))
            if not any(pair.side(c.tree) == "both" for c in block.condition if not c.plans):
                continue
            for conjunct in block.condition:
                check_deterministic(conjunct)
            band = pair.read(block.condition)
            if band is None:
                return None
            own = (*self._own(at), *map(pair.text, band.own))
            alone = len(self.relations) == 1  # Spark groups all rows by what the subquery names of them
            computed = (*pair.computed(self.project, ("left",)), *band.keys, band.column) if alone else ()
            pair.check_computed(band, self.project, own, computed, None)
            totals = next((x for x in self.totals.get(at, []) if x.band == band), None)
            totals = totals or FrameAggregates(pair, band, nulls=True)
            value = self._said(block.project.items[0], found, totals)
            if not any(totals is known for known in self.totals.setdefault(at, [])):
                self.totals[at].append(totals)
            source = self.sources.get(at, WindowedSource(relation, band.keys, own, band.asked))
            self.sources[at] = replace(source, anew=source.anew or totals.anew)
            self.said.append(f"{relation.detail}: {band.said}")
            return value
        scopes = (sources, self.joins.sources)
        if any(len(homes(c, scopes, self.ctx.names)) > 1 for c in block.condition if looks_like_band(c)):
            raise NoWindow("the subquery reads another table; a window sees only the rows of its own")
        return None

    def _own(self, at: int) -> tuple[Scalar, ...]:
        """The conditions of the block on this relation alone."""
        own = []
        for conjunct in self.joins.conjuncts:
            if conjunct.plans:
                continue
            try:
                found = {self.ctx.names.resolve(c, self.joins.sources)[0] for c in conjunct.columns}
            except (Unresolved, Unsupported):
                continue
            if found == {at}:
                own.append(conjunct)
        return tuple(own)

    def _said(self, item: Scalar, found: tuple[Call, ...], totals: FrameAggregates) -> str:
        """The value of the subquery.  It can be NULL to Spark, whatever it is."""
        inner = without_alias(item)
        rest = outside(inner, found)
        check_deterministic(rest)
        if rest.columns:
            raise NoWindow(f"{item.shown} is more than an aggregate", item.place)
        texts = {call: self._total(call, totals) for call in found}
        if len(found) == 1 and inner.text == found[0].text:
            return texts[found[0]]
        return f"if(true, {replaced(inner, found, lambda c: texts[c]).text}, NULL)"

    @staticmethod
    def _total(call: Call, totals: FrameAggregates) -> str:
        if call.distinct and call.function not in ("min", "max"):
            raise NoWindow(f"{call.text}: DISTINCT needs the rows themselves")
        argument = "" if call.argument is None else totals.pair.never_raising(call.argument)
        if call.argument is not None and totals.pair.side(call.argument.tree) != "right":
            raise NoWindow(f"{call.text} is not of the rows in the band alone")
        if call.function == "count":
            count = totals.count(argument)
            return f"nvl2({count}, {count}, 0)"
        type_ = totals.pair.type_of(argument)
        if type_ is None:
            raise NoWindow(f"the type of {argument} is not known")
        if call.function == "sum":
            text, _ = totals.sum(argument, type_)
            return f"CAST({text} AS BIGINT)" if type_.name == "bigint" else text
        if call.function == "avg":
            return totals.mean(argument, type_)
        return totals.extreme(call.function, argument)

    def block(self, items: tuple[Scalar, ...], where: tuple[Scalar, ...]) -> Logical:
        """The block over relations with more columns, which no ``*`` shows.

        Where a relation is on the side of an outer join that gets NULL rows, they have no value in the band either.
        """
        for scalar in (*items, *where, *self.joins.conjuncts):
            self._check_names(scalar)
            if scalar not in items or not _is_star(scalar):
                refuse_stars(scalar)
        block = self.joins.block
        new: dict[int, Logical] = {}
        for at, totals in self.totals.items():
            relation = self.relations[at]
            for total in totals:
                relation = total.relation(relation)
            new[id(self.relations[at])] = relation
        tree = filtered(_put(block.tree, new), where)
        for node in reversed(block.more):
            tree = replace(node, child=tree)  # type: ignore[type-var]
        return replace(self.project, items=tuple(spelt for item in items for spelt in self._spelt(item)), child=tree)

    def _spelt(self, item: Scalar) -> list[Scalar]:
        """An item; a ``*`` as the columns that it shows."""
        if not _is_star(item):
            return [item]
        names = [s for s in self.joins.sources if item.text == "*" or column_ref(item.tree).parts[:-1] == s.names[-1:]]
        if any(isinstance(n, Join) and (n.using or n.natural) for n in self.joins.block.tree.walk()):
            raise Unresolved(f"{item.shown} over USING or NATURAL cannot be spelt out")
        if not names or any(s.columns is None or not s.names for s in names):
            raise Unresolved(f"{item.shown} cannot be spelt out")
        said = [f"{quote(s.names[-1])}.{quote(c.name)}" for s in names for c in s.columns or ()]
        return [Scalar(text, (), item.place) for text in said]

    def _check_names(self, scalar: Scalar) -> None:
        """A relation that gets columns has one name only."""
        names = {self.joins.sources[at].names for at in self.totals}
        if any(len(n) > 1 for n in names) and any(len(c.parts) > 2 for c in scalar.columns):
            raise Unresolved(f"{scalar.shown} could name a relation by more than one name")


def _leaves(node: Node) -> list[Logical]:
    """The relations of a FROM tree, one for each name that a condition can use."""
    match node:
        case Join() if node.kind in ("semi", "anti"):
            return _leaves(node.left)
        case Join():
            return _leaves(node.left) + _leaves(node.right)
        case Nested() if node.alias is None:
            return _leaves(node.child)
        case LateralView():
            return [*_leaves(node.child), node]
    return [node]  # type: ignore[list-item]


def _put(node: Logical, new: dict[int, Logical]) -> Logical:
    """A FROM tree with some of its relations replaced, by their ids."""
    match node:
        case Join():
            return replace(node, left=_put(node.left, new), right=_put(node.right, new))
        case Nested() if node.alias is None:
            return replace(node, child=_put(node.child, new))
        case LateralView():
            return replace(node, child=_put(node.child, new))
    return new.get(id(node), node)


def _is_star(item: Scalar) -> bool:
    return item.text == "*" or item.text.replace(" ", "").endswith(".*")
