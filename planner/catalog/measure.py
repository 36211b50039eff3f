"""Measurement queries of planning, and the parsing of their results."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from math import floor, inf, isnan, log2
from typing import NamedTuple

from dovetail.planner.catalog.interface import Numbers
from dovetail.planner.catalog.stats import LengthClass

_EXPENSIVE = re.compile(
    r"\b(\w*udf\w*|regexp\w*|rlike|\w*_?json\w*|\w*_?xml\w*|\w*_?csv|xpath\w*|parse_url|url_\w+|sha\d?|md5|aes_\w+|"
    r"levenshtein|soundex|transform\w*|aggregate|reduce|filter|split|from_avro|reflect|java_method|\w*_?variant\w*)\(|"
    r" rlike ",
    re.IGNORECASE,
)
ONE_TASK = "/*+ COALESCE(1) */ "  # measures in one task, without a shuffle; a catalog removes it for large inputs
_MOST_TOTAL = 1e305  # sums of a thousand of them are finite


def is_expensive(text: str) -> bool:
    """Whether an expression or a plan contains a call that may cost much more than reading a row."""
    return _EXPENSIVE.search(text) is not None


def length_classes_sql(ends: str) -> str:
    """Build the SQL that groups intervals into classes by length, one class for each power of two.

    ``ends``: a query with the DOUBLE columns ``low`` and ``high``.
    """
    power = "CASE WHEN length > 0 AND length < 1e300D THEN floor(log2(length)) WHEN length > 0 THEN 9999 ELSE -9999 END"
    return (
        "SELECT count(*), sum(length), max(length), min(low), max(high)\n"
        f"FROM (SELECT {ONE_TASK}low, high, high - low AS length FROM (\n{ends}\n))\n"
        f"WHERE length >= 0\nGROUP BY {power}"
    )


def read_length_classes(rows: Iterable[Numbers]) -> tuple[LengthClass, ...]:
    """Parse the classes, shortest first; NaN counts as the greatest length, and sums are finite."""
    classes = (
        LengthClass(
            int(count or 0),
            min(_known(total, inf), _MOST_TOTAL),
            _known(longest, inf),
            _known(first, -inf),
            _known(last, inf),
        )
        for count, total, longest, first, last in rows
    )
    return tuple(sorted(classes, key=lambda c: c.longest))


def length_classes(ends: Iterable[Numbers], times: float) -> tuple[LengthClass, ...]:
    """The same of a sample of intervals, each of which stands for so many of them."""
    groups: dict[int, list[tuple[float, float, float]]] = {}
    for low, high in ends:
        if low is not None and high is not None and not (length := high - low) < 0:
            power = 9999 if not length < 1e300 else floor(log2(length)) if length else -9999
            groups.setdefault(power, []).append((length, low, high))
    columns = (tuple(zip(*rows, strict=True)) for rows in groups.values())
    return read_length_classes(
        (len(length) * times, sum(length) * times, max(length), min(low), max(high)) for length, low, high in columns
    )


def scale_classes(classes: tuple[LengthClass, ...], one_of: int) -> tuple[LengthClass, ...]:
    """Scale the classes of a sample, one in ``one_of``, to all intervals; an unsampled one may be of any length."""
    if one_of == 1:
        return classes
    whole = tuple(replace(c, count=c.count * one_of, total=min(c.total * one_of, _MOST_TOTAL)) for c in classes)
    return (*whole, LengthClass(1, _MOST_TOTAL, inf)) if whole and whole[-1].longest < inf else whole


def _known(number: float | None, otherwise: float) -> float:
    return otherwise if number is None or isnan(number) else number


def extent_sql(positions: str) -> str:
    """Build the SQL for the least and the greatest position; ``positions`` returns them as ``at``, DOUBLE.

    Positions that stand for an open end are left out: infinity and nearly infinite values.
    """
    return f"SELECT min(at), max(at)\nFROM (\n{positions}\n)\nWHERE abs(at) < 1e300D"


def quantiles_sql(positions: Iterable[str], points: Iterable[float], condition: str) -> str:
    """Build the SQL for each key with the number of its positions that satisfy a condition, and their quantiles.

    Each query returns positions as ``at``, and keys as ``k``.
    """
    shares, rows = list(map(repr, points)), "\nUNION ALL\n".join(positions)
    return (
        f"SELECT k, n, {', '.join(f'q[{n}]' for n in range(len(shares)))}\n"
        f"FROM (SELECT k, count(*) AS n, percentile_approx(at, array({', '.join(shares)})) AS q\n"
        f"FROM (\n{rows}\n)\nWHERE {condition}\nGROUP BY k)"
    )


class SampledQuery(NamedTuple):
    """A query with the columns of a condition, and the share of its rows that gives enough of them."""

    text: str
    share: float


def band_matches_sql(left: SampledQuery, right: SampledQuery, conditions: tuple[str, ...], rows: int) -> str:
    """Build the SQL that counts the pairs of two samples of so many rows, and the pairs that satisfy each condition."""
    held = "".join(f", count_if({condition})" for condition in conditions)
    return f"SELECT count(*){held}\nFROM {_sample(left, 1, rows)} CROSS JOIN {_sample(right, 2, rows)}"


def first_match_sql(left: SampledQuery, right: SampledQuery, conditions: tuple[str, ...], rows: int) -> str:
    """Build the SQL for what share of the pairs of two samples satisfies all conditions, and of the left rows.

    Its third column is the mean part of the right rows up to the first one that satisfies them.
    """
    numbered = SampledQuery(f"SELECT *, monotonically_increasing_id() AS row FROM (\n{left.text}\n)", left.share)
    return (
        "SELECT sum(held) / sum(pairs), avg(CAST(held > 0 AS INT)), avg(1 / (1 + held))\n"
        f"FROM (SELECT count(*) AS pairs, count_if({' AND '.join(conditions)}) AS held\n"
        f"FROM {_sample(numbered, 1, rows)} CROSS JOIN {_sample(right, 2, rows)}\nGROUP BY row)"
    )


def _sample(query: SampledQuery, seed: int, rows: int) -> str:
    return f"(SELECT * FROM (\n{query.text}\n) WHERE rand({seed}) < {query.share!r}D LIMIT {rows})"
