"""Hints on band joins that do nothing after all, which shows only when the joins have been planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planner.errors import Place, a
from planner.hints.blocks import RANGE_JOIN, Hint, SideHint, hints_in, read_hints
from planner.logical import BandJoin, Join, JoinKind, Logical, Project
from planner.physical.base import Physical
from planner.physical.bin_join import BinJoin
from planner.tree import Node, unwrap

_BUILT: dict[tuple[str, str], frozenset[JoinKind]] = {
    ("BROADCAST", "left"): frozenset({"inner", "cross", "right"}),
    ("BROADCAST", "right"): frozenset({"inner", "cross", "left", "semi", "anti"}),
    ("SHUFFLE_HASH", "left"): frozenset({"inner", "cross", "left", "right", "full"}),
}  # the joins for which Spark makes a hash table of a side; of no other pair it is said that it cannot


def idle_hints(
    text: str,
    logical: Logical | None,
    optimized: Logical | None,
    runs: Physical | None,
    held: Mapping[Place | None, str],
) -> Iterator[tuple[Hint, str]]:
    """Every such hint of a statement, with the reason.

    ``runs`` is the plan of the rewriting, None where the text runs as written.  ``held``: who held back where, and why.
    """
    read = [h.text for n in _nodes(logical) if isinstance(n, Project) for h in read_hints(n.hint)]
    joins = [n for n in _nodes(optimized) if isinstance(n, BandJoin)]
    plain = {id(o.condition) for n in _nodes(runs) if isinstance(o := unwrap(n), Join)}
    for hint in hints_in(text):
        if hint.name != RANGE_JOIN:
            continue
        own = [j for j in joins if j.bin_width is not None and j.hints[0].hint.text == hint.text]
        because = next((held[p] for j in own if (p := j.band.conjuncts[0].place) in held), "")
        if runs is None:
            yield hint, because or "Spark runs the statement as written"
        elif hint.text not in read:
            yield hint, "Spark runs the query that it stands in as written"
        elif own and all(id(j.condition) in plain for j in own):
            yield hint, because or "Spark runs its join as written"
    simple = {id(n.condition) for n in _nodes(runs) if isinstance(n, BinJoin) and not n.matched}
    for join in joins:
        for side_hint in join.hints:
            if id(join.condition) in simple and not _possible(side_hint, join.kind):
                kind = f"{a(join.kind)} join"
                yield side_hint.hint, f"Spark makes no hash table of the {side_hint.side} side of {kind} over bins"


def _possible(hint: SideHint, kind: JoinKind) -> bool:
    kinds = _BUILT.get((hint.hint.strategy, hint.side)) if hint.whole else None
    return kinds is None or kind in kinds


def _nodes(plan: Node | None) -> Iterator[Node]:
    if plan is not None:
        yield from plan.walk()
