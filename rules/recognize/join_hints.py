"""Attaches the hints of a SELECT to its joins."""

from dataclasses import dataclass, replace
from fractions import Fraction

from dovetail.planner.band.condition import DistanceBand
from dovetail.planner.band.linear import Side
from dovetail.planner.expr import quote
from dovetail.planner.hints.blocks import DELTA_ORDER, RANGE_JOIN, Hint, SideHint, Width, names_of, read_hints, width_of
from dovetail.planner.logical import (
    BandJoin,
    Logical,
    Project,
)
from dovetail.planner.tree import Node
from dovetail.rules.context import Context
from dovetail.rules.query.hinted import Name, hintable_names, is_named, looks_through, no_relation, relation_name
from dovetail.rules.rule import rule

_FORM = "RANGE_JOIN(relation, width), the width a number above zero: days for DATE, seconds for times"
_MOST_COPIES = 1_000
_SIDES: tuple[Side, Side] = ("left", "right")


@dataclass(frozen=True)
class _RangeJoin:
    """A RANGE_JOIN hint that can be used."""

    hint: Hint
    relation: Name
    width: Width


@rule(Project, needs=("hint",), streams="one")
def join_hints(project: Project, ctx: Context) -> Logical | None:
    """Attach the hints of a SELECT to the joins that they name, and warn of hints without effect.

    RANGE_JOIN(relation, width) sets the width of the bins for the band joins of that relation.  The hints that
    Spark knows stay in the SQL for Spark, and are noted on the joins here.  A hint names relations of its own
    SELECT, by alias or else by table name, not those inside its subqueries.
    """
    hints = read_hints(project.hint)
    if not hints:
        return None
    relations = list(hintable_names(project.child))
    widths = [w for h in hints if h.name == RANGE_JOIN and (w := _usable(h, relations, ctx))]
    used: set[int] = set()
    for hint in hints:
        if hint.strategy:
            _check_names(hint, relations, ctx)
        elif hint.name == DELTA_ORDER:
            ctx.warn(
                f"{hint.text}: it orders the lookups of a join of streams in opt.stream, and does nothing here",
                hint.place,
            )
        elif hint.meant:
            ctx.warn(f"{hint.text}: there is no hint {hint.name}; did you mean {hint.meant}?", hint.place)

    def visit(node: Node) -> Node:
        if not looks_through(node):
            return node
        node = node.map_nodes(visit)
        return _hinted(node, hints, widths, used, ctx) if isinstance(node, BandJoin) else node

    child = visit(project.child)
    for n, w in enumerate(widths):
        if n not in used:
            which = ".".join(map(quote, w.relation))
            ctx.warn(f"{w.hint.text}: no join of {which} in this SELECT has a band to cut into bins", w.hint.place)
    return replace(project, child=child)  # type: ignore[arg-type]


def _check_names(hint: Hint, relations: list[Name], ctx: Context) -> None:
    """Warn where a hint of Spark's names no relation: Spark passes over it."""
    for argument in hint.arguments:
        name = relation_name(argument)
        if name and () not in relations and not any(is_named(r, name, ctx) for r in relations):
            ctx.warn(no_relation(hint, name, relations), argument.place or hint.place)


def _usable(hint: Hint, relations: list[Name], ctx: Context) -> _RangeJoin | None:
    """Read a RANGE_JOIN hint; with a warning, None for one that cannot be used."""
    name = relation_name(hint.arguments[0]) if len(hint.arguments) == 2 else ()
    width = width_of(hint.arguments[1]) if name else None
    if width is None or width.amount <= 0:
        return ctx.warn(f"{hint.text} is not {_FORM}", hint.place)
    if () not in relations and not any(is_named(r, name) for r in relations):
        return ctx.warn(no_relation(hint, name, relations), hint.arguments[0].place)
    return _RangeJoin(hint, name, width)


def _hinted(
    join: BandJoin, hints: tuple[Hint, ...], widths: list[_RangeJoin], used: set[int], ctx: Context
) -> BandJoin:
    """Return the join with the bin width and the hints that apply to it."""
    found: list[SideHint] = []
    amount: Fraction | None = None
    for n, w in enumerate(widths):
        side = _side(join, w.relation, ctx)
        if side is None:
            continue
        used.add(n)
        wide = w.width.on(join.band.axis)
        if wide is None:
            reason = "the band lies on numbers, and bins of them cannot be as wide as an interval; write a number"
            ctx.warn(f"{w.hint.text}: {reason}", w.hint.place)
        elif isinstance(join.band, DistanceBand) and (span := _span(join.band)) > wide * _MOST_COPIES:
            width = join.band.axis.human(span)
            reason = f"a row would go to more than {_MOST_COPIES} bins, the band being {width} wide"
            ctx.warn(f"{w.hint.text}: {reason}; write a greater width", w.hint.place)
        elif amount is not None:
            ctx.warn(f"{w.hint.text}: {found[0].hint.text} already sets the bins of this join; keep one", w.hint.place)
        else:
            amount = wide
            found.append(SideHint(w.hint, side, w.hint.arguments[0].text))
    for side, relation in zip(_SIDES, (join.left, join.right), strict=True):
        own = list(hintable_names(relation))
        found += [
            SideHint(hint, side, argument.text, whole=len(own) == 1)
            for hint in hints
            for argument in (hint.arguments if hint.strategy else ())
            if (name := names_of(argument)) and any(is_named(r, name, ctx) for r in own)
        ]
    return replace(join, bin_width=amount, hints=tuple(found))


def _span(band: DistanceBand) -> Fraction:
    return band.high - band.low + 2 * band.room


def _sole(node: Node) -> Name | None:
    """The name of the one relation that a side is; Spark hands no hint through a join."""
    names = list(hintable_names(node))
    return names[0] if len(names) == 1 else None


def _side(join: BandJoin, wanted: Name, ctx: Context) -> Side | None:
    """The side on which a relation takes part in the band of a join."""
    for side, relation in zip(_SIDES, (join.left, join.right), strict=True):
        if (own := _sole(relation)) and is_named(own, wanted):
            return side
    scope = ctx.scope(join.left, join.right)
    columns = (column for conjunct in join.band.conjuncts for column in scope.bind(conjunct).known_columns)
    return next((_SIDES[scope.item(c)] for c in columns if is_named(scope.source(c).names, wanted)), None)
