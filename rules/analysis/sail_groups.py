"""Refuses keys and values that Sail groups otherwise than Spark: zeros of both signs, NaN and infinity."""

from __future__ import annotations

from dovetail.planner.errors import Refused
from dovetail.planner.types.schema import SqlType
from dovetail.rules.context import Context


def check_groups_on_sail(type_: SqlType | None, shown: str, ctx: Context) -> None:
    """Raise ``Refused`` for a key or a value whose groups have other rows, or another extreme, on Sail than on Spark.

    A join of Sail finds 0.0 and -0.0 equal, but its groups and partitions keep them apart; and the least and greatest
    DOUBLE of a group are wrong where it has NaN, or nothing but infinity.
    """
    if ctx.catalog.settings.sail and (type_ is None or type_.approximate):
        raise Refused(f"{shown} is of type {type_ or 'unknown'}, whose -0.0 and NaN Sail groups otherwise than Spark")
