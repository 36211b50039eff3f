"""The tests that `make test` runs: one of each kind.  The others get the marker `thorough`, for `make test-all`.

This is the one place that decides it.  All golden plans are in `make test`; of those that are run as well, one for
each combination of rules, operators, kinds of join and axis.  Of all other tests on Spark it takes a part, chosen by a
hash of their names, and of tests that start many processes or servers.  All others without a JVM are in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from fnmatch import fnmatch
from typing import TYPE_CHECKING
from zlib import crc32

from execution import execution_of

if TYPE_CHECKING:
    import pytest

    from golden_plans.case import Case

ONE = 10**6
# Tests on Spark, of which one of so many of each function is in `make test`, and one at least; 0 for none, ONE for one.
# The first pattern that fits counts.
OF_A_FUNCTION = {
    "tests/golden/test_answers.py::test_spark_takes*": 1,
    "tests/golden/test_answers.py::*": ONE,
    "tests/golden/test_metamorphic_answers.py*": 0,
    "tests/golden/*": 1,
    "tests/tpc/*::test_same_schema_and_rows*": 1,
    "tests/tpc/*": 0,
    "tests/answers/test_random_*near_miss*": 6,
    "tests/answers/test_random_*": 1,
    "tests/answers/test_functions.py*": 0,
    "tests/answers/*": 10,
    "tests/optimizer/test_faults.py::test_a_fault_anywhere*": 0,
    "tests/streams/test_killed.py::*views*": ONE,
    "tests/streams/test_killed.py::*": 0,
    "tests/streams/test_crash_points.py::*": 0,
    "tests/streams/test_lost_parts.py::*": 0,
    "tests/streams/test_tpch*": 0,
    "tests/streams/test_left_joins.py::test_views_that_share_a_state*": 0,
    "tests/streams/*": ONE,
    "*": 6,
}
# The same for each file, of what is left: a streaming query takes seconds.
OF_A_FILE = {
    "tests/streams/*": ONE,
    "tests/lookup/*": 3,
    "tests/test_cli*": 4,
    "tests/test_program.py*": ONE,
    "tests/optimizer/test_dataframes.py*": 5,
    "tests/optimizer/*": 3,
    "tests/answers/test_random_nearest*": 2,
    "tests/answers/test_random_*": 1,
    "tests/answers/*": 4,
    "tests/planner/*": 2,
}
# Tests without a JVM of which a part is taken as well, by the same names: they wait for processes and servers.
OF_PROCESSES = {
    "tests/lookup/test_task_matrix.py*": 3,
    "tests/lookup/test_http_limits.py*": 2,
    "tests/test_bare_install.py*": 3,
    "tests/test_cli_terminal.py*": 3,
    "tests/test_cli_values.py::test_in_a_process_of_its_own*": ONE,
    "tests/test_program.py::test_a_program_ends*": 3,
    "tests/test_program.py::test_what_cannot_run*": 3,
}
# The one test in `make test` that starts a JVM of its own.
IN_A_PROCESS_OF_ITS_OWN = "tests/golden/test_connect.py::test_a_small_share_of_the_cases"
_OPERATOR = re.compile(
    r"^[-+ │├└─]*(?:subquery \d+: )?([A-Z]\w+)(?: {2,3}(inner|left|right|full|semi|anti|cross)\b)?", re.MULTILINE
)


def left_out(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The tests that are left to `make test-all`."""
    seen: Counter[Hashable] = Counter()
    by_hash = sorted(items, key=lambda item: (crc32(item.nodeid.encode()), item.nodeid))
    return [item for item in by_hash if not _taken(item, seen)]


def _taken(item: pytest.Item, seen: Counter[Hashable]) -> bool:
    """Whether a test is the next one of its kind and of its file."""
    if not any(item.iter_markers("spark")):
        function = item.nodeid.partition("[")[0]
        seen[function] += 1
        return (seen[function] - 1) % _every(item, OF_PROCESSES) == 0
    if any(item.iter_markers("cluster")) or any(item.iter_markers("connect")):
        return item.nodeid == IN_A_PROCESS_OF_ITS_OWN
    for kind, every in (
        (_kind(item), _every(item, OF_A_FUNCTION)),
        (item.nodeid.partition("::")[0], _every(item, OF_A_FILE)),
    ):
        seen[kind] += 1
        if kind is None or every == 0 or (seen[kind] - 1) % every:
            return False
    return True


def _every(item: pytest.Item, patterns: dict[str, int]) -> int:
    return next((every for pattern, every in patterns.items() if fnmatch(item.nodeid, pattern)), 1)


def _kind(item: pytest.Item) -> Hashable:
    """What one test stands for: its function; for an answer of a golden plan the parts of the plan.

    None for an answer in that execution which is not the one of the case.
    """
    function = item.nodeid.partition("[")[0]
    if not function.startswith("tests/golden/test_answers.py::test_the_rewriting"):
        return function
    case: Case = item.callspec.params["case"]  # type: ignore[attr-defined]
    if item.callspec.params["execution"] != execution_of(case.name):  # type: ignore[attr-defined]
        return None
    plan = case.sections
    rules = frozenset(re.findall(r"^\d+\. \w+ / (\w+)", plan["rewrites"], re.MULTILINE))
    axis = frozenset(re.findall(r"unix_micros|unix_date", plan["sql"]))
    return rules, frozenset(_OPERATOR.findall(plan["plan"])), axis
