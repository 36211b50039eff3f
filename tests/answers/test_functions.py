"""Spark's built-in functions, in every place where a rule moves, copies, negates, compares or bins an expression.

What plain Spark returns must come back; where it raises, Dovetail may raise too, or return, as Spark itself may when it
evaluates in another order.  A function that is not deterministic is never written more often than the user wrote it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from effort import SEED, fuzzing
from function_sweep import SETTINGS, Sweep, shelves, shelves_of_users, sweep, sweep_together
from pieces import Tally
from rule_places import PLACES, fits, query, query_of_many
from sessions import for_few_rows
from spark_calls import Call, shelf
from spark_examples import Example, examples
from user_functions import names_of_sqlglot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = {
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.timeType.enabled": "true",
}
CALLS = 1  # for each function, of its examples; and another one with a function inside
ORDERS = ("second", "first")  # where Spark looks for temporary functions: behind its own, or before them


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, list[Example]]:
    return examples(spark)


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return fresh(spark)


def fresh(spark: SparkSession) -> SparkSession:
    own = for_few_rows(spark)
    for name, value in QUICK.items():
        own.conf.set(name, value)
    return own


def some_of(names: list[str], every: int) -> list[str]:
    """One of so many names, others for each seed; all of them in `make fuzz`."""
    return names if fuzzing() else names[SEED % every :: every]


def settings_with(turn: int) -> list[str]:
    """Two of the settings, the second of which is another one for each seed; all of them in `make fuzz`."""
    first, *others = SETTINGS
    return [*SETTINGS] if fuzzing() else [first, others[(turn + SEED) % len(others)]]


def report(tally: Tally, capsys: pytest.CaptureFixture[str], *, least: float) -> None:
    """Print the counts, and assert that nothing failed and enough was rewritten."""
    with capsys.disabled():
        print(f"\nseed {SEED}: {tally}")
    assert tally.planned
    assert not tally.failures, "\n\n".join(map(str, tally.failures[:20]))
    assert tally.rewritten >= least * tally.planned
    assert tally.compared + tally.raised >= 0.9 * tally.rewritten
    assert tally.compared >= 0.6 * tally.rewritten


def test_a_place_holds_many_calls_as_it_holds_one() -> None:
    one = Call(("from_json",), "scalar", "from_json(§a, '{x')", "int", "tame", name="b")
    for place in PLACES:
        if place.repeats and fits(place, one):
            alone, many = query(place, one) or "", query_of_many(place, [one] * 3, "b")
            assert not set("«»‹›") & set(alone + many)
            assert many.count("from_json(") == 3 * alone.count("from_json(")


@pytest.mark.hypothesis
def test_the_same_rows_as_plain_spark(
    spark: SparkSession, found: dict[str, list[Example]], capsys: pytest.CaptureFixture[str]
) -> None:
    """All pairs of function and place under the first setting in `make fuzz`, a share of them under each other one."""
    tally = Tally()
    for some in shelves(found, some_of(sorted(found), 40)):
        kept = shelf(fresh(spark), some, CALLS)
        for turn, setting in enumerate(settings_with(8)):
            share = 1 if fuzzing() and not turn else 24  # of all bunches; another part for each seed
            sweep_together(fresh(spark), setting, kept, Sweep(share, SEED), tally)
    report(tally, capsys, least=0.4)


@pytest.mark.hypothesis
def test_the_same_rows_one_by_one(
    spark: SparkSession, found: dict[str, list[Example]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each call in a statement of its own; also over rows on which it raises, and which have no partner."""
    tally = Tally()
    for some in shelves(found, some_of(sorted(found), 80)):
        kept = shelf(fresh(spark), some, CALLS)
        for setting in settings_with(4):
            sweep(fresh(spark), setting, kept, Sweep(160, SEED, guarded=True), tally)
    report(tally, capsys, least=0.4)


@pytest.mark.hypothesis
def test_functions_of_the_user_under_names_that_sqlglot_knows(
    spark: SparkSession, session: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    tally = Tally()
    names = names_of_sqlglot(spark)
    for kept in shelves_of_users(session, some_of(names, 32)):
        sweep(session, "as they are", kept, Sweep(8 if fuzzing() else 160, SEED), tally)
    report(tally, capsys, least=0.25)


@pytest.mark.hypothesis
@pytest.mark.parametrize("order", ORDERS)
def test_functions_of_the_user_under_names_of_spark(
    session: SparkSession, found: dict[str, list[Example]], capsys: pytest.CaptureFixture[str], order: str
) -> None:
    """They count where temporary functions come first; such a session is left to Spark."""
    tally = Tally()
    names = [name for name in sorted(found) if name.isidentifier()]
    for kept in shelves_of_users(session, some_of(names, 24)):
        session.conf.set("spark.sql.functionResolution.sessionOrder", order)
        sweep(session, order, kept, Sweep(8 if fuzzing() else 80, SEED), tally)
    report(tally, capsys, least=0.25 if order == "second" else 0)
    assert not (tally.rewritten and order == "first")
