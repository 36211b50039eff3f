"""Finds hints on band joins that have no effect on the finished plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from dovetail.planner.errors import Place, a
from dovetail.planner.hints.blocks import RANGE_JOIN, Hint, SideHint, hints_in, read_hints
from dovetail.planner.logical import BandJoin, Join, JoinKind, Logical, Project
from dovetail.planner.physical.base import Physical
from dovetail.planner.physical.key_join import KeyJoin
from dovetail.planner.tree import Node, unwrap

T = TypeVar("T")
_BUILT: dict[tuple[str, str], frozenset[JoinKind]] = {
    ("BROADCAST", "left"): frozenset({"inner", "cross", "right"}),
    ("BROADCAST", "right"): frozenset({"inner", "cross", "left", "semi", "anti"}),
    ("SHUFFLE_HASH", "left"): frozenset({"inner", "cross", "left", "right", "full"}),
}  # the joins for which Spark can build a hash table of the side; other hints are always possible


def idle_hints(
    text: str,
    logical: Logical | None,
    optimized: Logical | None,
    runs: Physical | None,
    declined: Mapping[Place | None, str],
) -> Iterator[tuple[Hint, str]]:
    """The hints without effect, with the reason.

    ``runs``: the plan of the rewriting, None if the original text runs.  ``declined``: the reason why a rule declined,
    by place.
    """
    joins = list(_nodes(optimized, BandJoin))
    read = {h.text for project in _nodes(logical, Project) for h in read_hints(project.hint)}
    plain = {_places(join) for node in _nodes(runs, Node) if isinstance(join := unwrap(node), Join)}
    for hint in (h for h in hints_in(text) if h.name == RANGE_JOIN):
        hinted = [j for j in joins if j.bin_width is not None and j.hints[0].hint.text == hint.text]
        because = next((declined[p] for j in hinted if (p := j.band.conjuncts[0].place) in declined), "")
        if runs is None:
            yield hint, because or "Spark runs the statement as written"
        elif hint.text not in read:
            yield hint, "Spark runs the query that it stands in as written"
        elif hinted and plain.issuperset(map(_places, hinted)):
            yield hint, because or "Spark runs its join as written"
    yield from _idle_side_hints(joins, runs)


def _places(join: Join | BandJoin | KeyJoin) -> tuple[tuple[str, Place | None], ...]:
    """The conjuncts of a join and where they stand, which no two joins share."""
    return tuple((conjunct.text, conjunct.place) for conjunct in join.condition)


def _idle_side_hints(joins: list[BandJoin], runs: Physical | None) -> Iterator[tuple[Hint, str]]:
    simple = {_places(join) for join in _nodes(runs, KeyJoin) if not join.matched}
    for join in joins:
        for side_hint in join.hints:
            if _places(join) in simple and not _is_possible(side_hint, join.kind):
                kind = f"{a(join.kind)} join"
                yield side_hint.hint, f"Spark makes no hash table of the {side_hint.side} side of {kind} over bins"


def _is_possible(hint: SideHint, kind: JoinKind) -> bool:
    kinds = _BUILT.get((hint.hint.strategy, hint.side)) if hint.whole else None
    return kinds is None or kind in kinds


def _nodes(plan: Node | None, kind: type[T]) -> Iterator[T]:
    return (node for node in plan.walk() if isinstance(node, kind)) if plan else iter(())
