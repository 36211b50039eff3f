"""All of Spark's functions in all places, alone or many together: planned, run, and compared."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bunches import Bunches
from dovetail import Optimizer, Options
from pieces import Tally, compare, planned
from rule_places import PLACES, Place
from spark_calls import Call, Shelf, computed, guarded, put_up
from spark_examples import Example
from user_functions import create

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHELF = 96  # functions whose examples share a table
_OF_USERS = 48  # calls of functions of the user's own
# Settings that change what text means, or what is computed from it.  ANSI is on where nothing is said.
_ANSI = "spark.sql.ansi."
_LEGACY = "spark.sql.legacy."
SETTINGS: dict[str, dict[str, str]] = {
    "as they are": {},
    "not ansi": {_ANSI + "enabled": "false"},
    "case sensitive": {"spark.sql.caseSensitive": "true"},
    "double quoted identifiers": {_ANSI + "doubleQuotedIdentifiers": "true"},
    "escaped string literals": {"spark.sql.parser.escapedStringLiterals": "true"},
    "consecutive string literals": {_LEGACY + "consecutiveStringLiterals.enabled": "true"},
    "timestamps without a zone": {"spark.sql.timestampType": "TIMESTAMP_NTZ"},
    "New York": {"spark.sql.session.timeZone": "America/New_York"},
    "Tokyo": {"spark.sql.session.timeZone": "Asia/Tokyo"},
    "New York, timestamps without a zone": {
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.session.timeZone": "America/New_York",
    },
    "Tokyo, not ansi": {"spark.sql.session.timeZone": "Asia/Tokyo", _ANSI + "enabled": "false"},
    "legacy intervals": {_LEGACY + "interval.enabled": "true", "spark.sql.join.asofJoin.enabled": "true"},
    "legacy numbers": {
        _LEGACY + "exponentLiteralAsDecimal.enabled": "true",
        _LEGACY + "literal.pickMinimumPrecision": "false",
        "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    },
    "legacy times": {_LEGACY + "timeParserPolicy": "LEGACY", _LEGACY + "fromDayTimeString.enabled": "true"},
    "legacy texts": {
        _ANSI + "enabled": "false",
        _LEGACY + "typeCoercion.datetimeToString.enabled": "true",
        _LEGACY + "castComplexTypesToString.enabled": "true",
        _LEGACY + "bangEqualsNot": "true",
        "spark.sql.function.concatBinaryAsString": "true",
    },
    "legacy conditions": {
        _LEGACY + "duplicateBetweenInput": "true",
        _LEGACY + "followThreeValuedLogicInArrayExists": "false",
        _LEGACY + "sizeOfNull": "true",
        _LEGACY + "negativeIndexInArrayInsert": "true",
        _ANSI + "enabled": "false",
    },
    "relations before commas, reserved words": {
        _ANSI + "relationPrecedence": "true",
        _ANSI + "enforceReservedKeywords": "true",
    },
    "no ordinals, no aliases": {
        "spark.sql.groupByOrdinal": "false",
        "spark.sql.orderByOrdinal": "false",
        "spark.sql.groupByAliases": "false",
    },
    "names as patterns": {"spark.sql.parser.quotedRegexColumnNames": "true"},
}


@dataclass(frozen=True)
class Sweep:
    """How much of it: one of ``share`` pairs of call and place, another one for each ``seed``.

    ``guarded``: also over tables with rows on which a call raises and that have no partner in the join: plain Spark
    looks at keys and bands first.
    """

    share: int
    seed: int = 0
    guarded: bool = False

    def takes(self, call: Call, place: Place, setting: str) -> bool:
        """Whether a pair is among them."""
        said = f"{call.text} {call.inner} {call.guarded} {place.name} {setting} {self.seed}"
        return zlib.crc32(said.encode()) % self.share == 0

    def takes_some(self, call: Call, setting: str) -> bool:
        """Whether a call is among them, in any place."""
        both = (call, replace(call, guarded=True)) if self.guarded else (call,)
        return any(self.takes(one, place, setting) for one in both for place in PLACES)


def shelves(found: dict[str, list[Example]], names: list[str]) -> Iterator[list[Example]]:
    """The examples of some functions at a time; neighbors in the alphabet lie apart, for types of every kind."""
    count = max(1, round(len(names) / _SHELF))
    for first in range(count):
        yield [example for name in names[first::count] for example in found[name]]


def sweep(session: SparkSession, setting: str, kept: Shelf, how: Sweep, tally: Tally, *, force: bool = True) -> None:
    """Run a share of the pairs of one shelf under a setting; the session gets its settings and tables here."""
    for name, value in SETTINGS.get(setting, {}).items():
        session.conf.set(name, value)
    put_up(session, kept)
    calls = computed(session, [c for c in kept.calls if how.takes_some(c, setting)])
    if how.guarded:
        calls += guarded(calls)
    optimizer = Optimizer(session, Options(strict=True, force=force, measure_lengths=how.seed % 2 == 1))
    cases = [(place, call) for call in calls for place in PLACES if how.takes(call, place, setting)]
    compare(session, planned(session, optimizer, setting, cases, tally), tally)


def sweep_together(session: SparkSession, setting: str, kept: Shelf, how: Sweep, tally: Tally) -> None:
    """Run a share of all bunches of one shelf under a setting; the session gets its settings and tables here."""
    for name, value in SETTINGS[setting].items():
        session.conf.set(name, value)
    put_up(session, kept)
    calls = computed(session, kept.calls)
    optimizer = Optimizer(session, Options(strict=True, force=True, measure_lengths=how.seed % 2 == 1))
    bunches = Bunches(session, optimizer, setting, tally)
    for place in PLACES:
        for some in bunches.of(place, calls):
            if how.takes(some[0], place, setting):
                bunches.look(place, some)


def shelves_of_users(session: SparkSession, names: list[str]) -> Iterator[Shelf]:
    """Functions that the user makes under these names, so many at a time."""
    calls = create(session, names)
    for start in range(0, len(calls), _OF_USERS):
        yield Shelf({}, calls[start : start + _OF_USERS])
