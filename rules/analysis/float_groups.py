"""Refuses keys and values that an engine groups otherwise than Spark: zeros of both signs, NaN and infinity."""

from __future__ import annotations

from dovetail.planner.errors import Refused
from dovetail.planner.types.schema import SqlType
from dovetail.rules.context import Context


def check_groups(type_: SqlType | None, shown: str, ctx: Context) -> None:
    """Raise ``Refused`` for a key or a value whose groups have other rows, or another extreme, than on Spark.

    A join of such an engine finds 0.0 and -0.0 equal, but its groups and partitions keep them apart; and the least and
    greatest DOUBLE of a group are wrong where it has NaN, or nothing but infinity.
    """
    engine = ctx.catalog.settings.engine
    if not engine.groups_as_it_compares and (type_ is None or type_.approximate):
        what = f"{shown} is of type {type_ or 'unknown'}"
        raise Refused(f"{what}, whose -0.0 and NaN {engine.name} groups otherwise than Spark")
