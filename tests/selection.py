"""Which tests on Spark `make test` leaves to `make test-all`; it runs all golden plans and all tests without a JVM.

Of the answers of golden plans it runs one for each rule together with each operator of its plans, of each kind of join
and on each axis; of all other tests one eighth, by their names.  The number in `tests/round.txt` says which eighth, so
that eight releases come to all of them.  Never those that are marked as `thorough`: they take minutes, or kill
processes at moments that hang on the machine.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from itertools import product
from typing import TYPE_CHECKING
from zlib import crc32

from effort import ROUND
from execution import execution_of

if TYPE_CHECKING:
    import pytest

    from dovetail.golden_plans.case import Case

PARTS = 8
# Of the tests on servers of Spark Connect and on local clusters, which have processes of their own, this one alone.
IN_A_PROCESS_OF_ITS_OWN = "tests/golden/test_connect.py::test_a_small_share_of_the_cases"
ANSWERS = "tests/golden/test_answers.py::test_the_rewriting"
_OPERATOR = re.compile(
    r"^[-+ │├└─]*(?:subquery \d+: )?([A-Z]\w+)(?: {2,3}(inner|left|right|full|semi|anti|cross)\b)?", re.MULTILINE
)


def left_out(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The tests that are left to `make test-all`; which one stands for a kind is decided by names, too."""
    seen: set[Hashable] = set()
    by_hash = sorted(items, key=lambda item: (crc32(item.nodeid.encode()), item.nodeid))
    return [item for item in by_hash if any(item.iter_markers("spark")) and not _taken(item, seen)]


def in_part(name: str, part: int, parts: int) -> bool:
    """Whether a test of this name is in one of so many parts of all tests."""
    return crc32(name.encode()) % parts == part % parts


def _taken(item: pytest.Item, seen: set[Hashable]) -> bool:
    if any(item.iter_markers("connect")) or any(item.iter_markers("cluster")):
        return item.nodeid == IN_A_PROCESS_OF_ITS_OWN
    if not item.nodeid.startswith(ANSWERS):
        return in_part(item.nodeid, ROUND, PARTS)
    case: Case = item.callspec.params["case"]  # type: ignore[attr-defined]
    if item.callspec.params["execution"] != execution_of(case.name):  # type: ignore[attr-defined]
        return False
    new = _kinds(case) - seen
    seen |= new
    return bool(new)


def _kinds(case: Case) -> set[Hashable]:
    """What the answer of a case stands for: each rule that changed it, with each operator of the plan."""
    plan = case.sections
    rules = re.findall(r"^\d+\. \w+ / (\w+)", plan["rewrites"], re.MULTILINE)
    axes = re.findall(r"unix_micros|unix_date", plan["sql"]) or [""]
    return set(product(rules, _OPERATOR.findall(plan["plan"]), axes))
