"""The cost model: estimates in pairs, rows, bytes and seconds, and its thresholds, most of which are user options."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan

from dovetail.planner.catalog.stats import Statistics

HASH_JOIN_SHARE = 1 / 3
"""A side is hashed only if it has at most this part of the other side's bytes; else sorting both costs little more."""
DENSE_PAIRS = 24
"""Where so many pairs share a bin for each row, a join over bins sorts: 2 to 7 times as fast as hashing.  With eight
pairs, both take the same time."""
CACHED_BYTES = 4 * 2**20
"""A hash table of at most so many bytes stays in the caches of a core, and hashing is as fast as sorting."""
KEY_SAMPLE = 2_000
"""The rows of either side that are sampled to estimate how many keys are equal."""
LEAST_GAIN = 1.2
"""A rewriting is chosen only if Spark's own plan is estimated to take this many times as long."""
BAND_SAMPLE = 1_000
"""The rows of either side that are sampled to find the most selective of several bands: all pairs are compared."""


@dataclass(frozen=True)
class Thresholds:
    """The numbers that decide between plans; ``optimizer.Options`` carries them."""

    nested_loop_pairs: int = 4_000_000
    """With fewer pairs of rows than this, a join stays as Spark plans it; a nested loop does about 17 million pairs a
    second.  A greater number leaves larger joins to Spark."""

    level_spread: float = 1024.0
    """Split intervals into levels with bins of different widths where their mean length is more than this many times
    their median.  A greater number makes fewer levels, and copies long intervals to more bins."""

    level_reach: int = 65_536
    """The number of bins that one interval is copied to, about, at most.  A greater number allows narrower bins: fewer
    pairs to compare, more copies of long intervals."""

    broadcast_pairs: int = 40_000_000
    """The same as ``nested_loop_pairs`` where Spark can broadcast a side: the loop then does about 150 million pairs a
    second.  A greater number leaves larger joins to Spark."""

    broadcast_bytes: int = 10 * 2**20
    """The size up to which Spark broadcasts a side by itself; set it if you have changed
    spark.sql.autoBroadcastJoinThreshold.  A greater number expects Spark to broadcast larger sides."""

    hash_from_bytes: int = 4 * 2**20
    """Where the files of both sides are larger than this, a hint makes Spark hash or sort, so that it does not
    broadcast a side.  A greater number leaves more joins over bins to Spark's own choice."""

    hash_join_bytes: int = 40 * 2**20
    """A join over bins hashes a side of up to this many bytes in memory; otherwise it sorts both.  A greater number
    hashes larger sides, which needs more memory and, from here on, takes 1.2 to 1.6 times as long."""

    hash_build_bytes: int = 256 * 2**20
    """The same as ``hash_join_bytes`` for semi and anti joins.  A greater number hashes larger sides; the hash table
    has to fit into the memory of a task."""

    one_task_bytes: int = 64 * 2**20
    """The lengths of intervals with fewer bytes than this are measured in one task, without a shuffle.  A greater
    number measures larger inputs in one task."""

    measure_lengths: bool = True
    """Let planning run small queries: lengths of intervals, samples of keys and bands.  False plans faster, without
    these sizes, and may choose worse bins."""

    key_pairs_per_row: float = 40.0
    """With fewer pairs of equal keys than this for each row of both sides, a band join stays Spark's join on the keys.
    A greater number leaves more joins to Spark."""

    running_sum_matches: float = 20.0
    """Where a point has more matches than this on average (with equal keys, half as many), an aggregated band join is
    computed from running sums.  A greater number makes the pairs more often."""

    trust_informational_keys: bool = False
    """Trust keys that are declared but not enforced.  If such a key is not unique after all, rewritten queries return
    wrong rows."""

    lookup_full_rows: int = 10_000
    """A lookup table of at most this many rows is read whole, if its source can do that; this costs about twenty round
    trips.  A greater number reads larger tables whole."""

    lookup_rows_per_key: float = 10.0
    """A lookup table with at most this many rows for each key that is needed is read whole: a row of a scan costs about
    a tenth of a row that is fetched by key.  A greater number reads tables whole more often."""

    one_task_window_rows: int = 2_000_000
    """Without equal keys, a window runs in one task.  Up to this many rows, a band over the same table becomes a window
    all the same.  A greater number gives one task more rows to sort."""

    nearest_range_rows: int = 20_000_000
    """Where more rows than this have one key, or no key at all, nearest rows are sorted in ranges of time, by many
    tasks, which reads the right side twice. A greater number gives one task more rows to sort."""

    window_own_share: float = 0.02
    """Where conditions keep less than this share of the rows, an aggregate over a band stays a self-join, since a
    window is computed for all rows.  A greater number keeps more self-joins."""

    window_share: float = 0.3
    """A correlated aggregate over the same table becomes a window if at most this share of the rows is left after the
    joins and filters of the outer query, or if the rows are themselves computed: a window sorts every row.  A greater
    number makes more windows."""


# Measured seconds on one core: a row that is copied or shuffled, a candidate pair that is compared.
_ROW = 4e-7
_PAIR = 1.2e-8
_ROW_BYTES = 16.0
ROW_IN_PAIRS = _ROW / _PAIR
# Pairs a second of a nested loop on one core, and where a side is broadcast: see ``nested_loop_pairs``.
_LOOP_RATE, _BROADCAST_RATE = 1.7e7, 1.5e8


@dataclass(frozen=True)
class Cost:
    """The estimated cost of a plan: rows with a bin key (including copies), their bytes, and candidate pairs.

    ``pairs`` is None if the distribution of values is unknown.  ``sizes``: the bytes of either side.
    """

    rows: float
    sizes: tuple[float, float]
    pairs: float | None = None

    @property
    def bytes(self) -> float:
        """The bytes that are shuffled unless a side is broadcast."""
        return sum(self.sizes)

    @property
    def seconds(self) -> float:
        """The seconds on one core."""
        return self.rows * _ROW + (self.pairs or 0) * _PAIR

    def __str__(self) -> str:
        pairs = "an unknown number of" if self.pairs is None else f"about {self.pairs:.2g}"
        return f"{self.rows:.2g} rows, {self.bytes / 2**20:,.0f} MiB shuffled unless broadcast, {pairs} candidate pairs"


def estimate_copies(side: Statistics, each: float) -> tuple[float, float]:
    """Estimate the rows and bytes of a side whose rows are copied ``each`` times; NaN if its row count is unknown.

    A row in memory takes about three times its bytes in a file, plus its key.
    """
    if side.rows is None:
        return nan, nan
    row = side.bytes / side.rows if side.bytes and side.rows else _ROW_BYTES
    return side.rows * each, side.rows * each * (3 * row + _ROW_BYTES)


def cost(left: tuple[float, float], right: tuple[float, float], pairs: float | None) -> Cost | None:
    """Compute the cost of joining two sides of ``estimate_copies``; None if their row counts are unknown."""
    rows = left[0] + right[0]
    return None if isnan(rows) else Cost(rows, (left[1], right[1]), pairs)


def count_pairs(left: Statistics, right: Statistics) -> int | None:
    """Count the pairs that a nested loop would compare; None if the size of a side is unknown."""
    if left.rows is None or right.rows is None:
        return None
    return left.rows * right.rows


def times_to_match(kind: str) -> int:
    """How many times as long as an inner join a kind of join takes that finds the matches of preserved rows first.

    Measured; semi and anti joins need no pairs afterwards.
    """
    return 2 if kind in ("semi", "anti") else 3


def nested_loop_seconds(pairs: float | None, *, broadcast: bool = False) -> float | None:
    """Estimate the seconds of a nested loop on one core; None if the number of pairs is unknown."""
    return None if pairs is None else pairs / (_BROADCAST_RATE if broadcast else _LOOP_RATE)


def keyed_join_seconds(rows: float, pairs: float, *, broadcast: bool = False) -> float:
    """Estimate the seconds on one core of a join on keys, which shuffles its rows unless it broadcasts a side."""
    return (0 if broadcast else rows * _ROW) + pairs * _PAIR


def sort_seconds(rows: float | None) -> float | None:
    """Estimate the seconds on one core to shuffle and sort so many rows; None if their number is unknown."""
    return None if rows is None else rows * _ROW


def describe_rows(statistics: Statistics) -> str:
    """Format an estimated number of rows."""
    return "an unknown number of" if statistics.rows is None else f"about {statistics.rows:,}"


def describe_pairs(pairs: float | None) -> str:
    """Format a number of pairs."""
    return "an unknown number of pairs" if pairs is None else f"up to {float(pairs):.2g} pairs"
