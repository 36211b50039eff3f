"""Bands over texts: whether the first characters differ, so that bins prune."""

from dovetail.planner.band.condition import DistanceBand, OverlapBand
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.logical import BandJoin
from dovetail.rules.context import Context


def why_texts_are_alike(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> str | None:
    """The reason why bins of a band over texts would prune nothing, or may not; None for any other band.

    Only digits and the characters ``-./:`` have positions of their own: names all have one, and would meet in one bin.
    """
    if join.band.axis.name != "text" or ctx.force:
        return None
    band = join.band.in_left if isinstance(join.band, OverlapBand) else join.band
    point = band.left if isinstance(band, DistanceBand) else band.point
    is_left = isinstance(band, DistanceBand) or band.side == "left"
    relation, size = (join.left, left) if is_left else (join.right, right)
    span = ctx.extent(relation, join.band.axis.real_position(point.text, point.type)) if size.plain else None
    if span is None:
        return f"whether the texts of {point.text} begin with different digits is not known"
    if span[0] == span[1]:
        return f"the texts of {point.text} begin with letters or with the same digits, so they all lie in one bin"
    return None
