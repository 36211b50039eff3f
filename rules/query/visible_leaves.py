"""The relations of a FROM whose columns a query can name, and what the joins around each do to its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.logical import BandJoin, Join, LateralView, Logical, Nested
from planner.logical.nearest_join import NearestJoin
from planner.logical.pulled_up_columns import PulledUpColumns


@dataclass(frozen=True)
class Leaf:
    """A relation of FROM that can be named above it.

    ``optional``: an outer join may show NULLs instead of a row.  ``sides``: the side that it is in, of a join that a
    rule has recognized, and the other side.  ``filtered``: that join, or one above it, may leave out rows.
    ``carried``: the rewriting of that join may carry columns that nothing reads.  ``top``: the outermost such join that
    it is in.
    """

    relation: Logical
    optional: bool = False
    filtered: bool = False
    sides: tuple[Logical, Logical] | None = None
    carried: bool = False
    top: Logical | None = None


def visible_leaves(tree: Logical) -> Iterator[Leaf]:
    """Yield the relations of a FROM tree, in any kind of join, without those that only a semi or anti join reads."""
    match tree:
        case Join() | BandJoin() | NearestJoin():
            hidden = isinstance(tree, NearestJoin) and any(shown.values for shown in tree.nearest.right)
            both = ((tree.left, tree.right, ("right", "full")), (tree.right, tree.left, ("left", "full")))
            for side, other, kinds in both[:1] if hidden or tree.kind in ("semi", "anti") else both:
                for leaf in visible_leaves(side):
                    again = isinstance(other, NearestJoin) and other.certain  # read again for its ties
                    recognized = again or not isinstance(tree, Join)
                    sides = leaf.sides or ((side, other) if recognized else None)
                    inner = isinstance(tree, NearestJoin) or tree.kind not in ("left", "right", "full")
                    yield Leaf(
                        leaf.relation,
                        leaf.optional or tree.kind in kinds,
                        leaf.filtered or (sides is not None and inner),
                        sides,
                        leaf.carried or isinstance(tree, NearestJoin),
                        tree if recognized else leaf.top,
                    )
        case Nested(alias=None) | LateralView() | PulledUpColumns():
            yield from visible_leaves(tree.child)
        case _:
            yield Leaf(tree)
