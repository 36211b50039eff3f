"""Reads the condition of a join as: equal keys, one bound on a time of the right side, and conditions on one side.

The pairs of a left row are then the right rows with its keys up to a time.  The nearest of them is the last one.  A
further condition on both sides must hold of the nearest row wherever it holds of any: a tolerance does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from dovetail.planner.band.comparisons import looks_like_band
from dovetail.planner.conditions.compared import Comparison, compared
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, sql, without_parentheses
from dovetail.planner.expr.substitution import operand
from dovetail.planner.logical import Join, Logical
from dovetail.planner.logical.joins import EqualKey
from dovetail.planner.logical.nearest_join import Direction, Nearest, NearestJoin, TieBreak, Tolerance
from dovetail.planner.logical.relations import references_left
from dovetail.planner.types.schema import SqlType
from dovetail.planner.types.try_expressions import try_form
from dovetail.rules.analysis.float_groups import check_groups
from dovetail.rules.analysis.unique import Unique, unique_keys
from dovetail.rules.context import Context
from dovetail.rules.nearest.monotone_form import MonotoneForm
from dovetail.rules.nearest.shown_columns import shown_relations
from dovetail.rules.query.condition_scope import condition_scope
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.query.query_block import QueryBlock

_NEAR: dict[Direction, tuple[str, str]] = {"backward": ("<", "<="), "forward": (">", ">=")}
_MOST_DIGITS = 38  # of a decimal
_FAR: dict[Direction, tuple[str, str]] = {"backward": (">", ">="), "forward": ("<", "<=")}


@dataclass(frozen=True)
class Wanted:
    """What a query needs of the pairs of a left row: those with the last or the first values of an expression.

    ``time`` is an expression over the right side.  ``ties``: how right rows of one time are sorted, the one that is
    needed last.  ``count``: how many pairs.  ``near``: the expression over the left side from which they are the least
    distant, where the direction is both; ``nulls_first``: a distance that is NULL is the least.
    """

    time: exp.Expression
    direction: Direction
    ties: tuple[tuple[exp.Expression, bool, bool], ...] = ()
    count: int = 1
    near: exp.Expression | None = None
    nulls_first: bool = False


def may_be_nearest(block: QueryBlock, join: Join, *, by_distance: bool = False) -> bool:
    """Whether a join has a condition that may be a bound on a time; cheap, and never looks anything up.

    A right join is a left join the other way round.  ``by_distance``: the query sorts by a distance, which needs no
    bound.
    """
    if join.kind not in ("inner", "cross", "left", "right") or join.using or join.natural or block.project.hint:
        return False
    return by_distance or any(map(looks_like_band, (*join.condition, *block.condition)))


def nearest_join(join: Join, nearest: Nearest) -> NearestJoin:
    """A join of which only the nearest rows count."""
    if join.kind == "right":
        return NearestJoin(join.right, join.left, "left", join.keyword, join.condition, nearest, turned=True)
    return NearestJoin(join.left, join.right, join.kind, join.keyword, join.condition, nearest, join.comma)


def _as_left_join(join: Join) -> Join:
    """A right join as a left join, the other way round; any other join as it is."""
    return Join(join.right, join.left, "left", "LEFT JOIN", join.condition) if join.kind == "right" else join


class Pairs:
    """The pairs of a join that fulfill some conditions.

    ``whole``: a FROM that begins with the join, of whose further relations the same rows are joined to all pairs of a
    left row, as if they were of the left side.
    """

    def __init__(self, join: Join, conjuncts: tuple[Scalar, ...], ctx: Context, whole: Logical | None = None):
        self.join, self.conjuncts, self.ctx = join, conjuncts, ctx
        self.scope = condition_scope(join, ctx, whole)
        self.wraps = not self.scope.ansi or not ctx.catalog.settings.engine.raises_overflow

    @classmethod
    def of_block(cls, block: QueryBlock, join: Join, ctx: Context, whole: Logical | None = None) -> Pairs:
        """The pairs that a block reads, whose whole FROM is a join; WHERE above an outer join is tested later."""
        join = _as_left_join(join)
        return cls(join, join.condition if join.kind == "left" else (*join.condition, *block.condition), ctx, whole)

    def check_where(self, block: QueryBlock) -> None:
        """Raise ``Refused`` where WHERE reads the right side of an outer join, whose pairs are made before."""
        for conjunct in block.condition if self.join.kind == "left" else ():
            check_deterministic(conjunct, self.scope.volatile_call)
            if self.side(conjunct.tree) not in ("left", None):
                raise Refused(f"{conjunct.shown} in WHERE is of the outer join's right side", conjunct.place)

    def side(self, tree: exp.Expression) -> str | None:
        """The side on which an expression depends: left, right, both, or None for a constant."""
        return self.scope.side(tree)

    def finds(self, wanted: Wanted) -> bool:
        """Whether the pairs have what makes a wanted row the nearest: a bound on its time, or a distance from it."""
        return wanted.near is not None or bool(self.bounds(wanted))

    def bounds(self, wanted: Wanted) -> list[tuple[Scalar, exp.Expression, bool]]:
        """The conditions that keep the wanted time before or after a left expression: which, and whether strictly."""
        if wanted.direction == "both":
            return []
        near = _NEAR[wanted.direction]
        return [
            (conjunct, one.left, one.turned.sign == near[0])
            for conjunct in self.conjuncts
            for part in comparisons_of(conjunct)
            if part.by_order and (one := self.scope.compare_sides(part))
            if one.turned.sign in near and self.is_time(one.right, wanted)
        ]

    def excluded(self) -> tuple[Scalar, ...]:
        """The conditions that leave out one right row at most: ``t.id <> q.id`` in an inner join, q.id being unique."""
        keys = unique_keys(self.join.right, self.ctx) if self.join.kind != "left" else frozenset()
        return tuple(c for c in self.conjuncts if keys and self._excludes(c, keys))

    def _excludes(self, conjunct: Scalar, keys: Unique) -> bool:
        one = self._unequal(conjunct)
        if one is None or not isinstance(one.right, exp.Column):
            return False
        types = {self.scope.type_of(end) for end in one.operands}
        found = self.ctx.scope(self.join.left, self.join.right).column(one.right)
        is_key = not found.column.field and frozenset((found.name,)) in keys
        return is_key and len(types) == 1 and all(t is not None and t.exact for t in types)

    def _unequal(self, conjunct: Scalar) -> Comparison | None:
        """``t.id <> q.id``, the left side first; None for any other condition."""
        found = compared(conjunct)
        return self.scope.compare_sides(found) if found and found.sign == "<>" else None

    def nearest(self, wanted: Wanted, readers: Iterable[Scalar], excluded: tuple[Scalar, ...] = ()) -> Nearest:
        """The nearest row of each left row, by the time that has ``bounds``; ``readers`` are read over these rows.

        ``excluded``: conditions that ``excluded()`` returns, tested above the join; there is a further row for each.
        Raises ``Refused`` where the pairs are not of this kind.
        """
        self.ctx.check_not_correlated()
        if references_left(self.join.right):
            raise Refused("the right side is LATERAL and is computed for each left row")
        left_time, strict = self.left_time(wanted)
        found = _Conditions([], [], ([], []))
        for conjunct in self.conjuncts:
            if conjunct in excluded and (one := self._unequal(conjunct)):
                found.filters[1].append(Scalar(f"{sql(one.right)} IS NOT NULL", (), conjunct.place))
            else:
                self.add(conjunct, wanted, left_time, found)
        left, right = shown_relations((*readers, *excluded), self.join, self.ctx)
        times, time_type = self.times(left_time, wanted.time)
        if time_type != self.scope.type_of(wanted.time) and any(one.other for one in found.tolerances):
            raise Refused(f"a tolerance subtracts {sql(wanted.time)}, which is compared as a TIMESTAMP")
        return Nearest(
            times,
            wanted.direction,
            strict,
            tuple(found.keys),
            tuple(TieBreak(self.safe(tree), descending, first) for tree, descending, first in wanted.ties),
            tuple(found.tolerances),
            (tuple(found.filters[0]), tuple(found.filters[1])),
            left,
            right,
            count=wanted.count + len(excluded),
            nulls_first=wanted.nulls_first,
            time_type=time_type,
        )

    def times(self, left: exp.Expression, right: exp.Expression) -> tuple[tuple[str, str], SqlType | None]:
        """Both times and the type in which Spark compares them: a DATE with a TIMESTAMP as a TIMESTAMP."""
        types = [self.scope.type_of(time) for time in (left, right)]
        texts = self.safe(left), self.safe(right)
        if not _are_date_and_timestamp(*types):
            return texts, types[1]
        first, second = (
            f"CAST({text} AS TIMESTAMP)" if of and of.name == "date" else text
            for text, of in zip(texts, types, strict=True)
        )
        return (first, second), SqlType("timestamp")

    def left_time(self, wanted: Wanted) -> tuple[exp.Expression, bool]:
        """The expression over the left side that is compared with the time, and whether strictly."""
        if wanted.near is not None:
            return wanted.near, False
        bounds = self.bounds(wanted)
        if len({(self.scope.canonical(left), strict) for _, left, strict in bounds}) > 1:
            raise Refused(
                f"{len(bounds)} conditions bound {sql(wanted.time)}; write one, with least()", bounds[1][0].place
            )
        match, left_time, strict = bounds[0]
        self.check_types(left_time, wanted.time, match)
        return left_time, strict

    def add(self, conjunct: Scalar, wanted: Wanted, left_time: exp.Expression, found: _Conditions) -> None:
        """Add a condition to those of its kind.  Raises ``Refused`` for one that the nearest row need not fulfill."""
        for side, text, part in self.parts(conjunct):
            if part is None:
                found.filters[side == "right"].append(self.filter(text))
            elif self.is_match(part, wanted, left_time):
                continue
            elif key := self.key(part):
                found.keys.append(key)
            elif tolerance := self.tolerance(part, wanted):
                found.tolerances.append(tolerance)
            else:
                raise Refused(f"{conjunct.shown} depends on both rows of a pair", conjunct.place)

    def parts(self, conjunct: Scalar) -> Iterator[tuple[str | None, Scalar, Comparison | None]]:
        """Yield the side and the text of a condition on one side, or of each comparison of one on both sides.

        A comparison of both sides comes with its operands.  Raises ``Refused`` for any other condition on both sides.
        """
        check_deterministic(conjunct, self.scope.volatile_call)
        if (side := self.side(conjunct.tree)) != "both":
            yield side, conjunct, None
        elif not (parts := comparisons_of(conjunct)):
            raise Refused(f"{conjunct.shown} depends on both rows of a pair", conjunct.place)
        else:
            for part in parts:
                text = Scalar(comparison_text(part), (), conjunct.place)
                side = self.side(exp.Tuple(expressions=[part.left.copy(), part.right.copy()]))
                yield side, text, part if side == "both" else None

    def check_fixed(self, part: Scalar) -> None:
        """Raise ``Refused`` unless an expression has one value for all pairs of a left row: it is of the left side.

        So is the right side of an equality.
        """
        tree = without_parentheses(part.tree.unalias())
        if not part.plans and self.side(tree) in ("left", None):
            return
        value = self.scope.canonical(tree)
        ends = (end for c in self.conjuncts for one in comparisons_of(c) if one.sign == "=" for end in one.operands)
        if not any(self.side(end) == "right" and self.scope.canonical(end) == value for end in ends):
            raise Refused(f"{part.shown} is not of the left side", part.place)

    def is_match(self, part: Comparison, wanted: Wanted, left_time: exp.Expression) -> bool:
        """Whether a comparison is the bound that the nearest row is nearest to."""
        one = self.scope.compare_sides(part)
        near = _NEAR.get(wanted.direction, ())
        return one is not None and one.turned.sign in near and one.left == left_time and self.is_time(one.right, wanted)

    def only_bounds_time(self, conjunct: Scalar, wanted: Wanted) -> bool:
        """Whether a condition compares the wanted time with expressions over the left side, as a tolerance does.

        It holds of all right rows of one time alike.
        """
        left_time, _ = self.left_time(wanted)
        parts = comparisons_of(conjunct) if self.side(conjunct.tree) == "both" else ()
        return bool(parts) and all(
            self.is_match(part, wanted, left_time) or (not part.equal and self.tolerance(part, wanted) is not None)
            for part in parts
        )

    def key(self, part: Comparison) -> EqualKey | None:
        """An equality of the two sides.  Raises ``Refused`` for one of types that a window groups otherwise."""
        one = self.scope.compare_sides(part) if part.equal else None
        if one is None:
            return None
        types = self.scope.type_of(one.left), self.scope.type_of(one.right)
        if not _comparable(*types):
            raise Refused(f"{comparison_text(part)} compares {types[0]} with {types[1]}")
        if not all(t is not None and (t.exact or t.approximate) for t in types):
            raise Refused(
                f"{comparison_text(part)} compares {types[0]}; keys are numbers, strings, dates, timestamps or booleans"
            )
        for end, type_ in zip(one.operands, types, strict=True):
            check_groups(type_, sql(end), self.ctx)
        return EqualKey(self.safe(one.left), self.safe(one.right), part.sign == "<=>")

    def tolerance(self, part: Comparison, wanted: Wanted) -> Tolerance | None:
        """A condition that holds of the nearest row if it holds of any: it bounds the time from the other side."""
        near, far = _NEAR.get(wanted.direction, ()), _FAR.get(wanted.direction, ())
        for turned in (part, part.turned):
            bounded, bound = turned.left, turned.right
            if self.side(bound) not in ("left", None):
                continue
            if self.is_time(bounded, wanted) and turned.sign in far:
                return Tolerance("", False, turned.sign, self.safe(bound))
            if isinstance(bounded, exp.Sub):
                for time, other in ((bounded.expression, bounded.this), (bounded.this, bounded.expression)):
                    later = time is bounded.this
                    fits = self.is_time(time.unnest(), wanted) and self.side(other) in ("left", None)
                    if fits and turned.sign in (far if later else near):
                        self.check_difference(bounded)
                        return Tolerance(self.safe(other), later, turned.sign, self.safe(bound))
            form = MonotoneForm(self.scope, self.wraps, lambda tree: self.is_time(tree, wanted))
            if (grows := form.slope(bounded)) and turned.sign in (far if grows > 0 else near):
                other, text = form.parts(bounded)
                return Tolerance(self.safe(other) if other else "", False, turned.sign, self.safe(bound), form=text)
        return None

    def check_difference(self, difference: exp.Sub) -> None:
        """Raise ``Refused`` unless a difference of both times is the less, the nearer they are.

        Infinity less itself is NaN, integers may wrap around, and Spark subtracts timestamps by local clocks.
        """
        types = [self.scope.type_of(end) for end in (difference.this, difference.expression)]
        if any(
            t is None
            or t.approximate
            or (t.integral and self.wraps)
            or (t.name == "timestamp" and not self.scope.has_fixed_offset_zone)
            for t in types
        ):
            raise Refused(f"{sql(difference)} need not be less for a nearer row; compare the time with the other bound")

    def is_time(self, tree: exp.Expression, wanted: Wanted) -> bool:
        """Whether an expression is the wanted time."""
        return self.side(tree) == "right" and self.scope.canonical(tree) == self.scope.canonical(wanted.time)

    def check_types(self, left: exp.Expression, right: exp.Expression, match: Scalar) -> None:
        """Raise ``Refused`` unless both times are sorted as they are compared."""
        types = self.scope.type_of(left), self.scope.type_of(right)
        if not (_comparable(*types) or _are_date_and_timestamp(*types)):
            raise Refused(f"{match.shown} compares {types[0]} with {types[1]}", match.place)
        if not all(t is not None and t.ordered and "collate" not in t.text for t in types):
            raise Refused(
                f"{match.shown} compares {types[0]}, which is no number, date, timestamp or string", match.place
            )

    def safe(self, tree: exp.Expression) -> str:
        """An expression that is NULL where it would raise: it is evaluated on rows that have no pair."""
        return sql(tree if isinstance(tree, exp.Column) else self._tried(tree))

    def filter(self, conjunct: Scalar) -> Scalar:
        """The same for a condition, in the user's words where it never raises."""
        tree = conjunct.tree
        tried = self._tried(exp.If(this=tree.copy(), true=exp.Literal.number(1), false=exp.Literal.number(0))).this
        return conjunct if sql(tried) == sql(tree) else Scalar(sql(tried), (), conjunct.place)

    def _tried(self, tree: exp.Expression) -> exp.Expression:
        return try_form(tree, self.scope.type_of, ansi=self.scope.ansi)


@dataclass(frozen=True)
class _Conditions:
    keys: list[EqualKey]
    tolerances: list[Tolerance]
    filters: tuple[list[Scalar], list[Scalar]]


def comparisons_of(conjunct: Scalar) -> tuple[Comparison, ...]:
    """The comparisons of which a conjunct is made: one, or the two of BETWEEN."""
    if conjunct.plans or conjunct.known is None:
        return ()
    tree = without_parentheses(conjunct.known)
    if isinstance(tree, exp.Between) and not tree.args.get("symmetric"):
        value = tree.this.unnest()
        low, high = tree.args["low"].unnest(), tree.args["high"].unnest()
        return Comparison(value, ">=", low), Comparison(value, "<=", high)
    found = compared(tree)
    return (found,) if found else ()


def comparison_text(part: Comparison) -> str:
    """A comparison in SQL."""
    return f"{operand(sql(part.left))} {part.sign} {operand(sql(part.right))}"


def _are_date_and_timestamp(*types: SqlType | None) -> bool:
    return {type_.name for type_ in types if type_} == {"date", "timestamp"}


def _comparable(left: SqlType | None, right: SqlType | None) -> bool:
    """Whether a union makes one type of both, without loss, and compares its values as the two are compared."""
    if left is None or right is None:
        return False
    if left == right:
        return True
    if not (left.exact_numeric and right.exact_numeric):
        return False
    return sum(max(ends) for ends in zip(left.digits, right.digits, strict=True)) <= _MOST_DIGITS
