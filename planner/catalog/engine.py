"""What the engines that run Spark's SQL do otherwise than Spark: one record for each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Engine:
    """What rewritings have to know of an engine; the defaults are Spark's.

    ``raises_overflow``: in ANSI mode, integers raise an error where they overflow; otherwise they wrap around.
    ``sorts_to_join``: a join may sort both sides; otherwise it always hashes.
    ``groups_as_it_compares``: a group has all zeros and all NaN, as a join on ``=`` has, and its extremes count NaN.
    ``frames_of_dates``: RANGE windows over a DATE have the rows that the standard gives them.
    ``types_nulls``: a union has the types of all its queries; otherwise a NULL in the first one needs a type.  Such an
    engine takes fields of a struct for nullable, and finds none behind a dot in LATERAL.
    ``merges_runs``: a sort takes less time where the rows come in runs that are sorted.
    """

    name: str = "Spark"
    raises_overflow: bool = True
    sorts_to_join: bool = True
    groups_as_it_compares: bool = True
    frames_of_dates: bool = True
    types_nulls: bool = True
    merges_runs: bool = True


SPARK = Engine()
SAIL = Engine(
    "Sail",
    raises_overflow=False,
    sorts_to_join=False,
    groups_as_it_compares=False,
    frames_of_dates=False,
    types_nulls=False,
    merges_runs=False,
)
NATIVE = Engine("Comet or Gluten", merges_runs=False)
