"""The specification of a lookup in a plan: data only; ``executor/lookup/`` executes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

Constant = str | int | float | bool | Decimal | date | datetime


@dataclass(frozen=True)
class LookupSpec:
    """The rows and columns of a lookup table that a query needs, and the options to fetch them.

    Options that Flink's LOOKUP hint has too (FLIP-204, FLIP-462) have its names and defaults.
    """

    table: str  # the registered name
    keys: tuple[str, ...]  # columns of the source, in the order of the lookup's key columns
    columns: tuple[str, ...]  # columns of the source that the query needs, including the keys
    constants: tuple[tuple[str, Constant], ...] = ()  # equalities that are pushed down to the fetch
    shuffle: bool = False  # equal keys go to one task, so each is fetched once
    skew: bool = False  # with shuffle: rows of hot keys are spread over tasks
    batch: int = 500  # keys in a round trip
    cache_size: int = 10_000  # keys in a worker's cache; with shuffle and a time to live, in the cache of each split
    cache_ttl: float | None = None  # seconds to live of a cached key; None: until the stage ends
    attempts: int = 3  # attempts of a round trip, including the first
    delay: float = 0.1  # seconds between two attempts
    timeout: float = 180.0  # seconds of one round trip
    retry_missing: bool = False  # fetch again a key without a row: FLIP-462's retry predicate lookup_miss
    ordered: bool = True  # rows come out in the order they came in
    asynchronous: bool = False  # concurrent round trips in a task
    in_spark: bool = False  # Spark itself reads the table, and no key goes to Python
    full_load: bool = False  # each task loads its hash split of the table instead of fetching by key
