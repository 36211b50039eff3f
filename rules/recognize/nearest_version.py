"""Recognizes joins with the valid version of a key: ``lead(ts) OVER … AS until``, ``t.ts >= ts AND t.ts < until``.

    t JOIN (SELECT *, lead(ts) OVER (PARTITION BY k ORDER BY ts) AS until FROM q) v
      ON v.k = t.k AND t.ts >= v.ts AND (t.ts < v.until OR v.until IS NULL)

The version that is valid at a time is the last one that begins at or before it, so it is the nearest row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from dovetail.planner.band.comparisons import endless_comparison
from dovetail.planner.band.lengths import interval_length
from dovetail.planner.band.linear import constant
from dovetail.planner.bind.names import Source
from dovetail.planner.bind.scope import Scope
from dovetail.planner.conditions.compared import Comparison
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, is_star, sql, without_parentheses
from dovetail.planner.expr.calls import GENERATORS, unknown
from dovetail.planner.logical import Derived, Join, Logical, Project, Sort
from dovetail.planner.logical.nearest_join import Joins, NearestJoin, NearestVersions, Tolerance
from dovetail.planner.types.schema import SqlType
from dovetail.rules.context import Context
from dovetail.rules.nearest.pairs import Pairs, Wanted, comparison_text, comparisons_of
from dovetail.rules.nearest.shown_columns import all_readers_of, joins_of
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.query.definitions import definition_of
from dovetail.rules.query.from_items import bare, with_leaves
from dovetail.rules.query.query_block import QueryBlock, read_block, where
from dovetail.rules.query.subquery_columns import columns_inside
from dovetail.rules.rule import rule


@rule(Project, Sort, block=True, needs=("window",))
def nearest_versions(block: QueryBlock, ctx: Context) -> Logical | None:
    """Join each row with the version that is valid at its time, which is the last one that is not after it.

    Spark compares each row with every version of its key.
    """
    if block.project.hint:
        return None
    found: list[tuple[Join, NearestJoin]] = []
    condition = block.condition
    joins = [join for join in joins_of(block.tree) if isinstance(join, Join)]
    for join in reversed(joins):  # the innermost first
        if new := _over_versions(join, block, tuple(old for old, _ in found), ctx):
            found.append((join, new[0]))
            condition = new[1]
    if not found:
        return None
    rows = where(with_leaves(block.tree, reversed(found)), condition)
    why = "the last version instead of all versions of a key"
    return NearestVersions(block.query, block.put(block.over(rows)), why, Joins(tuple(new for _, new in found)))


def _over_versions(
    join: Join, block: QueryBlock, done: tuple[Join, ...], ctx: Context
) -> tuple[NearestJoin, tuple[Scalar, ...]] | None:
    """A join with versions, and WHERE above it; None for any other, and where its condition is another.

    ``done``: the joins inside it that have been found, whose conditions it need not read.
    """
    if join.kind not in ("inner", "cross", "left") or join.using or join.natural:
        return None
    versions = read_versions(join.right, ctx)
    if versions is None or ctx.catalog.streams(ctx.query(join.left)):
        return None
    is_whole = join is block.tree
    above = block.condition if is_whole and join.kind != "left" else ()
    readers = tuple(all_readers_of(replace(block, condition=()) if above else block, (*done, join)))
    try:
        found = nearest_version(join, versions, above, readers, ctx)
    except Refused:
        return None
    if found is None or (found[1] and not is_whole):
        return None
    return found if above else (found[0], (*found[1], *block.condition))


@dataclass(frozen=True)
class Versions:
    """The columns of a relation of versions, as expressions over it.

    ``keys``: what its window is partitioned by.  ``time``: when a version begins.  ``until``: when the next one does;
    ``has_end``: whether the last version has an end instead of NULL.  ``has_gap``: whether a version ends before the
    next one begins, ``lead(day) - 1``.  ``numbered``: whether another window counts rows.
    """

    keys: tuple[exp.Expression, ...]
    time: exp.Expression
    until: exp.Expression
    has_end: bool
    has_gap: bool
    numbered: bool


@dataclass(frozen=True)
class _Lead:
    """A column ``lead(time) OVER (PARTITION BY keys ORDER BY time)`` of a subquery, over the relations inside it."""

    keys: tuple[str, ...]
    time: str
    has_end: bool
    has_gap: bool


def read_versions(relation: Logical, ctx: Context) -> Versions | None:
    """The versions that a relation has; None where it is no subquery with one column of that kind."""
    relation = bare(relation)
    block = _windowed_block(relation, ctx)
    if block is None:
        return None
    try:
        (source,) = ctx.names.sources(relation)
        inside = columns_inside(block, source, ctx, computed=True)
        scope = ctx.scope(block.tree)
        trees = {name: Scalar(text).tree for name, text in inside.items()}
        leads = {name: lead for name, tree in trees.items() if (lead := _lead(tree, scope))}
        if len(leads) != 1 or len(source.names) != 1:
            return None
        ((until, lead),) = leads.items()
        plain = {name: tree for name, tree in trees.items() if not tree.find(exp.Window)}
        canonical = {scope.bind(tree).canonical: name for name, tree in plain.items()}
    except (Refused, ValueError):
        return None
    if not all(part in canonical for part in (*lead.keys, lead.time)):
        return None
    names = [canonical[part] for part in (*lead.keys, lead.time)]
    *keys, time, end = (_column(source, name) for name in (*names, until))
    numbered = len(trees) - len(plain) > 1 or len(inside) < len(source.columns or ())
    return Versions(tuple(keys), time, end, lead.has_end, lead.has_gap, numbered)


def _windowed_block(relation: Logical, ctx: Context) -> QueryBlock | None:
    """The block of a subquery that returns the rows it reads, and may compute windows over them."""
    if isinstance(relation, Derived) and "TABLESAMPLE" in relation.suffix.upper():
        return None
    query = definition_of(relation, ctx)
    block = None if query is None else read_block(query)
    if block is None or not block.is_plain or not any("over" in i.text.lower() for i in block.project.items):
        return None
    return block if all(map(_is_of_one_row, block.project.items)) else None


def _is_of_one_row(item: Scalar) -> bool:
    return not (item.plans or item.tree.find(*GENERATORS) or (not is_star(item.tree) and unknown(item.tree)))


def nearest_version(
    join: Join, versions: Versions, above: tuple[Scalar, ...], readers: tuple[Scalar, ...], ctx: Context
) -> tuple[NearestJoin, tuple[Scalar, ...]] | None:
    """A join with the version that is valid at a moment, as a join with the nearest row, and what WHERE has to test.

    None for any other.  ``above``: conditions that an inner join has besides its own, in WHERE.  ``readers``: what
    reads its rows, these and its own conditions aside.  Raises ``Refused`` where the versions are compared otherwise.
    """
    conjuncts = tuple(part for conjunct in (*join.condition, *above) for part in _bounds(conjunct))
    pairs = Pairs(Join(join.left, join.right, join.kind, "JOIN", conjuncts), conjuncts, ctx)
    wanted = Wanted(versions.time, "backward")
    if len(bounds := pairs.bounds(wanted)) != 1:
        return None
    ((match, moment, strict),) = bounds
    ends = {c: end for c in conjuncts if (end := _end(c, versions, moment, strict, pairs))}
    keys = [c for c in conjuncts if _is_key(c, versions, pairs)]
    if len(comparisons_of(match)) != 1 or not ends or not _has_all_keys(keys, versions, pairs):
        return None
    if not versions.keys and join.kind != "left":
        return None  # bins of a band join are as good, and sort less
    own = [c for c in conjuncts if pairs.side(c.tree) in ("left", None)]
    is_exact = not versions.has_end and not versions.has_gap
    implied = [c for c in ends if is_exact and isinstance(without_parentheses(c.tree), exp.Or)]
    rest = tuple(c for c in conjuncts if c not in {*keys, match, *own, *implied})
    tolerances: tuple[Tolerance, ...] = ()
    if join.kind == "left":
        if not all(c in ends for c in rest):
            return None
        tolerances, rest = tuple(_tolerance(c, ends[c], pairs) for c in rest), ()
    kept = Pairs(pairs.join, (*keys, match, *own), ctx)
    nearest = kept.nearest(wanted, (*readers, *rest))
    shown = (column.name for relation in nearest.right for column in relation.columns)
    if versions.numbered or tolerances or versions.until.name in shown:  # of rows that tie, the last has both
        nearest = kept.nearest(replace(wanted, ties=((versions.until, False, False),)), (*readers, *rest))
    nearest = replace(nearest, tolerances=tolerances)
    new = NearestJoin(join.left, join.right, join.kind, join.keyword, join.condition, nearest, join.comma, certain=True)
    return new, rest


def _lead(tree: exp.Expression, scope: Scope) -> _Lead | None:
    """Read the column of a subquery that returns when the next version begins."""
    window, has_end, has_gap = _inside_end(tree)
    if not isinstance(window, exp.Window) or not isinstance(lead := window.this, exp.Lead) or window.args.get("spec"):
        return None
    order = window.args.get("order")
    keys = order.expressions if order else []
    offset = lead.args.get("offset")
    if len(keys) != 1 or (offset is not None and sql(offset) != "1"):
        return None
    (key,) = keys
    begins = key.this if isinstance(key, exp.Ordered) else key
    if isinstance(key, exp.Ordered) and key.args.get("desc"):
        return None
    time = scope.bind(begins).canonical
    if scope.bind(lead.this).canonical != time:
        return None
    partition = tuple(scope.bind(part).canonical for part in window.args.get("partition_by") or ())
    return _Lead(partition, time, has_end or lead.args.get("default") is not None, has_gap)


def _column(source: Source, folded: str) -> exp.Expression:
    return Scalar(source.reference(source.columns_by_name[folded][0].name)).tree


def _is_key(conjunct: Scalar, versions: Versions, pairs: Pairs) -> bool:
    """Whether a condition compares a key of the versions with the left side, and so takes all versions of the key."""
    parts = comparisons_of(conjunct)
    equality = pairs.scope.compare_sides(parts[0]) if len(parts) == 1 and parts[0].equal else None
    return equality is not None and pairs.scope.canonical(equality.right) in map(pairs.scope.canonical, versions.keys)


def _has_all_keys(conjuncts: list[Scalar], versions: Versions, pairs: Pairs) -> bool:
    matched = {pairs.scope.canonical(end) for c in conjuncts for one in comparisons_of(c) for end in one.operands}
    return matched.issuperset(map(pairs.scope.canonical, versions.keys))


def _bounds(conjunct: Scalar) -> tuple[Scalar, ...]:
    """The two comparisons of BETWEEN; any other condition as it is."""
    parts = comparisons_of(conjunct)
    if len(parts) < 2:
        return (conjunct,)
    return tuple(Scalar(comparison_text(part), (), conjunct.place) for part in parts)


def _end(conjunct: Scalar, versions: Versions, moment: exp.Expression, strict: bool, pairs: Pairs) -> Comparison | None:
    """``moment < until``, of a condition that is false of every version followed by one that is not after the moment.

    It is that, or with ``OR until IS NULL``, or with ``coalesce(until, …)``.
    """
    if conjunct.plans or conjunct.known is None:
        return None
    tree, until = without_parentheses(conjunct.known), pairs.scope.canonical(versions.until)
    if endless := endless_comparison(tree):
        if endless.others or any(pairs.scope.canonical(one) != until for one in endless.tested):
            return None
        tree = endless.comparison
    for one in comparisons_of(Scalar(sql(tree))):
        for turned in (one, one.turned):
            end, _, has_gap = _inside_end(turned.right)
            has_gap = (has_gap or versions.has_gap) and _is_moved_exactly(pairs.scope.type_of(moment), pairs)
            signs = ("<", "<=") if strict or has_gap else ("<",)
            is_moment = pairs.scope.canonical(turned.left) == pairs.scope.canonical(moment)
            if is_moment and turned.sign in signs and pairs.scope.canonical(end) == until:
                return turned
    return None


def _is_moved_exactly(type_: SqlType | None, pairs: Pairs) -> bool:
    """Whether a time from which something is subtracted is earlier, neither rounded nor wrapped around."""
    return type_ is not None and (type_.temporal or (type_.exact_numeric and not pairs.wraps))


def _tolerance(conjunct: Scalar, end: Comparison, pairs: Pairs) -> Tolerance:
    """A condition on the end of a version, which the nearest one fulfills if any does."""
    check_deterministic(conjunct, pairs.scope.volatile_call)
    if pairs.side(end.right) != "right":
        raise Refused(f"{conjunct.shown} depends on both rows of a pair", conjunct.place)
    endless = isinstance(without_parentheses(conjunct.tree), exp.Or)
    return Tolerance("", False, end.turned.sign, pairs.safe(end.left), pairs.safe(end.right), endless)


def _inside_end(tree: exp.Expression) -> tuple[exp.Expression, bool, bool]:
    """What an end is computed from, whether NULL becomes another end, and whether it lies before that."""
    has_end = has_gap = False
    while True:
        match tree:
            case exp.Paren():
                pass
            case exp.Coalesce():
                has_end = True
            case exp.DateSub() | exp.Sub() if _is_positive(tree.expression):
                has_gap = True
            case _:
                return tree, has_end, has_gap
        tree = tree.this


def _is_positive(tree: exp.Expression) -> bool:
    """Whether it is a positive number of days, or a length of time."""
    length = interval_length(tree)
    return length.micros > 0 if length else (constant(tree) or 0) >= 1
