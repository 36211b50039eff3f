"""One lookup as a plan describes it: data only; ``planner/runtime/lookup/`` carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

Constant = str | int | float | bool | Decimal | date | datetime


@dataclass(frozen=True)
class LookupSpec:
    """Which rows and columns of a lookup table a query needs, and how to get them.

    The options have the names and defaults of Flink's LOOKUP hint (FLIP-204, FLIP-462) where it has them.
    """

    table: str  # the registered name
    keys: tuple[str, ...]  # columns of the source, in the order of the key columns that are looked up
    columns: tuple[str, ...]  # columns of the source that the query needs, the keys among them
    constants: tuple[tuple[str, Constant], ...] = ()  # equalities that go to the fetch
    shuffle: bool = False  # equal keys meet in one task, so each is fetched once in all
    skew: bool = False  # with shuffle: rows of hot keys are spread over tasks
    batch: int = 500  # keys in a round trip
    cache_size: int = 10_000  # keys that a worker remembers; with shuffle and a time to live, of each share of the keys
    cache_ttl: float | None = None  # seconds that it remembers one; None: until the stage is at its end
    attempts: int = 3  # tries of a round trip, the first included
    delay: float = 0.1  # seconds before each further try
    timeout: float = 180.0  # seconds for one round trip
    retry_missing: bool = False  # ask again for a key without a row: FLIP-462's retry predicate lookup_miss
    ordered: bool = True  # rows come out in the order they came in
    asynchronous: bool = False  # several round trips of a task at once
    full_load: bool = False  # each task loads its hash share of the table instead of asking by key
