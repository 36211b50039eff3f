"""Turn LATERAL into a join: ``FROM p, LATERAL (SELECT i.lo, i.hi FROM i WHERE p.x BETWEEN i.lo AND i.hi) t``."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.band.comparisons import looks_like_band
from planner.errors import Unsupported
from planner.expr import Scalar, column_ref
from planner.logical import JOIN_KEYWORDS, Derived, Filter, Join, Logical
from planner.sql.names import Resolver, Source, Unresolved
from rules.context import Context
from rules.query.moving import (
    Home,
    SelectBlock,
    Sources,
    block_of,
    bounds,
    check_deterministic,
    check_inner,
    home,
    homes,
    more_than_a_block,
    moved,
    why_not_simple,
)
from rules.rule import rule


@rule(Join, streams="one")
def lateral_to_join(join: Join, ctx: Context) -> Logical | None:
    """Turn a LATERAL subquery that filters by the left row into a join.

    Spark does this as well, but later; the rules need to see the band between the two sides now.  The subquery must
    return the columns that its conditions compare.  A subquery without a possible band is left as it is.
    (Decorrelation: Galindo-Legaria and Joshi, "Orthogonal Optimization of Subqueries and Aggregation", SIGMOD
    2001.)
    """
    right = join.right
    if not isinstance(right, Derived) or not right.lateral or join.kind not in ("inner", "cross", "left"):
        return None
    block = block_of(right.query)
    if not block or join.using or join.natural or bounds((*block.condition, *join.condition)) < 2:
        return None
    place = next(c.place for c in (*block.condition, *join.condition) if looks_like_band(c))
    try:
        return _join(join, right, block, ctx.names)
    except (Unsupported, Unresolved) as no:
        return ctx.decline(f"LATERAL stays a subquery: {no}", place)


def _join(join: Join, right: Derived, block: SelectBlock, names: Resolver) -> Join:
    if block.more:
        raise Unresolved(more_than_a_block(block.more[0]))
    if block.project.hint or block.project.quantifier:
        raise Unresolved("the subquery has a hint, DISTINCT or ALL of its own")
    if not right.alias:
        raise Unresolved("the subquery has no name")
    check_inner(block.tree, names)
    inner, outer = names.sources(block.tree), names.sources(join.left)
    scopes = (inner, outer)
    inside: list[Scalar] = []
    across: list[Scalar] = []
    for conjunct in block.condition:
        check_deterministic(conjunct)
        (inside if homes(conjunct, scopes, names) <= {0} else across).append(conjunct)
    tree = Filter(block.tree, tuple(inside), "WHERE") if inside else block.tree
    alone = replace(right, query=replace(block.project, child=tree), lateral=False)
    made = [m for item in block.project.items for m in _made(item, block.tree, scopes, names)]
    (seen,) = names.sources(alone)
    if seen.columns is None or len(seen.columns) != len(made):
        raise Unresolved("the columns of the subquery are not known")
    shown = {m: column.name for m, column in zip(made, seen.columns, strict=True) if m}

    def beside(origin: Home) -> tuple[int, str]:
        if origin.scope:
            return origin.relation, origin.column
        if origin not in shown:
            raise Unresolved(f"{origin.column} is not in its select list")
        return len(outer), shown[origin]

    after = (*outer, seen)
    condition = (*join.condition, *(moved(c, scopes, after, beside, names) for c in across))
    kind = "left" if join.kind == "left" else "inner"
    keyword = join.keyword if join.kind == kind else JOIN_KEYWORDS["inner"]
    return Join(join.left, alone, kind, keyword, condition)  # type: ignore[arg-type]


def _made(item: Scalar, tree: Logical, scopes: tuple[Sources, ...], names: Resolver) -> list[Home | None]:
    """For each column that an item of the select list makes, the column that it is; None for one that is computed."""
    if item.plans:
        raise Unresolved("its select list holds a subquery")
    if why := why_not_simple(item.tree):
        raise Unresolved(why)
    bare = item.tree.unalias()
    if isinstance(bare, exp.Star) or (isinstance(bare, exp.Column) and isinstance(bare.this, exp.Star)):
        return _all(bare, tree, scopes[0], names)
    if any(home(c, scopes, names).scope for c in item.columns):
        raise Unresolved(f"{item.shown} in its select list uses columns of the outer query")
    return [home(column_ref(bare), scopes, names) if isinstance(bare, exp.Column) else None]


def _all(star: exp.Expression, tree: Logical, inner: tuple[Source, ...], names: Resolver) -> list[Home | None]:
    """The columns that ``*`` or ``i.*`` stands for."""
    name = tuple(names.fold(p.name) for p in star.parts[:-1]) if isinstance(star, exp.Column) else ()
    plain = star.this if isinstance(star, exp.Column) else star
    if any(plain.args.values()) or any(isinstance(n, Join) and (n.using or n.natural) for n in tree.walk()):
        raise Unresolved("the columns of its * are not known")
    found: list[Home | None] = []
    for index, source in enumerate(inner):
        if name and tuple(map(names.fold, source.names))[-len(name) :] != name:
            continue
        if source.columns is None:
            raise Unresolved("the columns of its * are not known")
        found += [Home(0, index, c.name) for c in source.columns]
    return found
