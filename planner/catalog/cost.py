"""What a choice costs, in pairs and rows; every threshold is an option of the user's."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan

from planner.catalog.stats import Statistics


@dataclass(frozen=True)
class Thresholds:
    """The numbers that decide between plans; ``optimizer.Options`` carries them."""

    nested_loop_pairs: int = 4_000_000
    """Below so many pairs Spark's nested loop is as good as bins; it does about 17 million a second."""

    level_spread: float = 1024.0
    """An interval level is split when its mean length is more than this many times its median."""

    level_reach: int = 65_536
    """No interval is copied to more than about this many bins."""

    broadcast_pairs: int = 40_000_000
    """The same where Spark can broadcast a side: then its loop is generated code, and does 150 million a second."""

    broadcast_bytes: int = 10 * 2**20
    """Up to how many bytes Spark broadcasts a side unasked (spark.sql.autoBroadcastJoinThreshold)."""

    hash_from_bytes: int = 4 * 2**20
    """Where both sides have more bytes than this in their files, Spark is told to hash one or to sort both, so that it
    does not send one to all tasks."""

    hash_join_bytes: int = 40 * 2**20
    """A side of up to so many bytes in memory is hashed.  Else both are sorted, which is 1.2 to 1.6 times faster from
    here on."""

    hash_join_share: float = 1 / 3
    """And if it has at most this part of the other side's bytes: else sorting that one, too, costs little."""

    hash_build_bytes: int = 256 * 2**20
    """The same for a semi or anti join, which looks up one match of a row; a hash table has to fit into memory."""

    one_task_bytes: int = 64 * 2**20
    """Intervals of fewer bytes are measured in one task, without a shuffle."""

    measure_lengths: bool = True
    """Whether planning may run small queries: the lengths of intervals, samples of keys and of bands."""

    key_pairs_per_row: float = 40.0
    """With fewer pairs of equal keys than this for each row, a hash join on the keys alone is as good as bins."""

    key_sample: int = 2_000
    """Rows of either side whose keys are looked at to learn how often keys meet."""

    band_sample: int = 1_000
    """Rows of either side that are compared to learn which of several bands holds least often."""

    running_sum_matches: float = 20.0
    """An aggregated band join with more matches than this for each point is computed from running sums; with equal
    keys, with half of it."""

    trust_informational_keys: bool = False
    """Whether a key that nobody enforces counts as unique; where it is not, rewritten queries return other rows."""

    lookup_full_rows: int = 10_000
    """A lookup of at most so many rows is read whole, where its source can be; that is about twenty round trips."""

    lookup_rows_per_key: float = 10.0
    """A lookup with at most so many rows for each key that is asked for is read whole: a row that comes in bulk costs
    about a tenth of one that is asked for."""

    one_task_window_rows: int = 2_000_000
    """Up to so many rows a self-join within a band becomes a window even without equal keys: the work of one task."""

    window_own_share: float = 0.02
    """Where conditions leave less than this share of the rows to be asked about, their own join is not replaced by a
    window, which is computed for all rows."""

    shared_groups_share: float = 0.1
    """A definition that is read under several constants is aggregated once where it has at most so many groups for each
    row that is aggregated."""

    window_share: float = 0.3
    """An aggregate of a block's own rows is a window where at most this part of them is left for it, or where they are
    computed: a window sorts every row."""


# Seconds on one core, measured: a row copied or moved to its key, a pair of a bin that is looked at.
_ROW = 4e-7
_PAIR = 1.2e-8
_ROW_BYTES = 16.0
ROW_IN_PAIRS = _ROW / _PAIR


@dataclass(frozen=True)
class Cost:
    """What a plan is estimated to cost: rows that get a key (copies counted), their bytes, pairs looked at.

    ``pairs`` is None where nothing tells how close the values lie.  ``sizes``: the bytes of either side.
    """

    rows: float
    sizes: tuple[float, float]
    pairs: float | None = None

    @property
    def bytes(self) -> float:
        """What is shuffled unless a side is broadcast."""
        return sum(self.sizes)

    @property
    def seconds(self) -> float:
        """On one core, for comparison only."""
        return self.rows * _ROW + (self.pairs or 0) * _PAIR

    def __str__(self) -> str:
        pairs = "an unknown number of" if self.pairs is None else f"about {self.pairs:.2g}"
        return f"{self.rows:.2g} rows, {self.bytes / 2**20:,.0f} MiB shuffled unless broadcast, {pairs} candidate pairs"


def copies(side: Statistics, each: float) -> tuple[float, float]:
    """Rows and bytes of a side when each of its rows is copied so many times; NaN where its rows are not known.

    A row in memory takes some three times its bytes in a file, and its key beside them.
    """
    if side.rows is None:
        return nan, nan
    row = side.bytes / side.rows if side.bytes and side.rows else _ROW_BYTES
    return side.rows * each, side.rows * each * (3 * row + _ROW_BYTES)


def cost(left: tuple[float, float], right: tuple[float, float], pairs: float | None) -> Cost | None:
    """The cost of joining two sides with ``copies``; None where their rows are not known."""
    rows = left[0] + right[0]
    return None if isnan(rows) else Cost(rows, (left[1], right[1]), pairs)


def at_most_pairs(left: Statistics, right: Statistics) -> int | None:
    """How many pairs a nested loop would compare, or None when a side is unknown."""
    if left.rows is None or right.rows is None:
        return None
    return left.rows * right.rows


def said(statistics: Statistics) -> str:
    """A number of rows for people: an estimate, or that there is none."""
    return "an unknown number of" if statistics.rows is None else f"about {statistics.rows:,}"


def said_pairs(pairs: float | None) -> str:
    """A number of pairs for people."""
    return "an unknown number of pairs" if pairs is None else f"up to {float(pairs):.2g} pairs"
