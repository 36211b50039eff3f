"""Intervals from clusters, in simulations: how often they hold the exact value, with the rule that stops included.

A shape is a table of rows, each with what it adds to the totals of a group: the pairs that it is in, and their values.
Its rows are put into clusters once; a run reads them in a random order of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from math import ceil, inf, nan
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from dovetail.planner.estimate.clusters import ClusterSample, Interval, fewest_rows, products_of
from dovetail.planner.estimate.expression import TOTAL, Value, evaluate, totals_in
from dovetail.planner.estimate.groups import GroupSums, Powers
from dovetail.planner.estimate.looks import CLUSTERS, LOOKS, STEP, Look, first_look, next_look
from dovetail.planner.estimate.quantiles import t_quantile
from dovetail.planner.expr import Scalar

SUM = Scalar(f"{TOTAL}0").tree
AVERAGE = Scalar(f"{TOTAL}0 / {TOTAL}1").tree
Totals = tuple[float, float]


def uniform(draw: random.Random, rows: int) -> Iterator[Totals]:
    """Values between 0 and 2."""
    return ((2 * draw.random(), 1.0) for _ in range(rows))


def zipf(draw: random.Random, rows: int) -> Iterator[Totals]:
    """The pairs of a join whose keys are Zipf-distributed on both sides."""
    weights = [1 / key**1.1 for key in range(1, 1001)]
    matches = [0.0] * len(weights)
    for key in draw.choices(range(len(weights)), weights, k=rows):
        matches[key] += 1
    return ((matches[key], 1.0) for key in draw.choices(range(len(weights)), weights, k=rows))


def one_hot_key(draw: random.Random, rows: int) -> Iterator[Totals]:
    """A third of the rows have nearly all pairs."""
    return ((rows / 2 if draw.random() < 0.3 else 3.0, 1.0) for _ in range(rows))


def a_rare_hot_key(draw: random.Random, rows: int) -> Iterator[Totals]:
    """One row in 300 has nearly all pairs."""
    return ((rows / 2 if draw.random() < 0.003 else 3.0, 1.0) for _ in range(rows))


def correlated_blocks(draw: random.Random, rows: int) -> Iterator[Totals]:
    """Rows come in blocks of 50 with one value, and a block is in one cluster."""
    return ((50 * value, 50.0) for value in (draw.random() for _ in range(rows // 50)))


def few_matches(draw: random.Random, rows: int) -> Iterator[Totals]:
    """One row in 500 has a match."""
    return ((1.0 if draw.random() < 0.002 else 0.0, 1.0) for _ in range(rows))


def long_tail(draw: random.Random, rows: int) -> Iterator[Totals]:
    """Log-normal values."""
    return ((draw.lognormvariate(0, 1.5), 1.0) for _ in range(rows))


SHAPES = (uniform, zipf, one_hot_key, a_rare_hot_key, correlated_blocks, few_matches, long_tail)


class Table:
    """The clusters of a table with one group, and the exact totals."""

    def __init__(self, rows: Iterator[Totals], draw: random.Random):
        self.rows = 0
        clusters = [[0.0, 0.0] for _ in range(CLUSTERS)]
        for row in rows:
            self.rows += 1
            cluster = clusters[draw.randrange(CLUSTERS)]
            cluster[0] += row[0]
            cluster[1] += row[1]
        self.totals = [sum(cluster[i] for cluster in clusters) for i in (0, 1)]
        self.products = products_of([(0, 1)])
        self.powers = np.array([_products(cluster, self.products) for cluster in clusters])
        sizes = np.array([cluster[1] for cluster in clusters])
        self.met, self.sizes = sizes > 0, np.stack([sizes, sizes**2, sizes**3], axis=1)

    def order(self, seed: int, read: int = 0) -> tuple[Any, GroupSums]:
        """The clusters in a random order, and sums of which so many clusters are to be read."""
        order = np.random.default_rng(seed).permutation(CLUSTERS)
        steps = self.sizes[order].reshape(-1, STEP, 3).sum(axis=1)
        sizes: list[Powers] = [(float(one), float(two), float(three)) for one, two, three in steps]
        return order, GroupSums(self.products, sizes, read)

    def sample(self, chosen: Any, sums: GroupSums) -> ClusterSample:
        """What is known once these clusters have been read, too."""
        sums.add((), int(self.met[chosen].sum()), list(self.powers[chosen].sum(axis=0)))
        ((_, sample),) = sums.samples()
        return sample

    def stops_with(self, tree: object, error: float, seed: int) -> Interval | None:
        """The interval at which one run stops; None if it reads all rows."""
        order, sums = self.order(seed)
        look: Look | None = first_look(0.95, sums.rows, error)
        while look is not None:
            read, sums.read = sums.read, look.read
            sample = self.sample(order[read : look.read], sums)
            value = evaluate(tree, sample.estimates(2))  # type: ignore[arg-type]
            interval = value and sample.interval(value, look.error)
            if interval and interval.certified and interval.error <= error:
                return interval
            factor = error / interval.error if interval and interval.certified else None
            look = next_look(look, factor, jumps=True)
        return None


def _products(cluster: Sequence[float], products: Sequence[tuple[int, ...]]) -> list[float]:
    found = []
    for product in products:
        value = 1.0
        for i in product:
            value *= cluster[i]
        found.append(value)
    return found


def covered(table: Table, tree: object, error: float, runs: int) -> tuple[float, list[int]]:
    """The share of runs whose last interval holds the exact value, and the seeds of those that miss."""
    exact = evaluate(tree, table.totals)  # type: ignore[arg-type]
    assert exact is not None
    missed = []
    for seed in range(runs):
        interval = table.stops_with(tree, error, seed)
        if interval is not None and not interval.low <= exact.number <= interval.high:
            missed.append(seed)
    return 1 - len(missed) / runs, missed


def check_coverage(shape: Callable[[random.Random, int], Iterator[Totals]], rows: int, runs: int) -> None:
    draw = random.Random(48)
    table = Table(shape(draw, rows), draw)
    for tree in (SUM, AVERAGE):
        for error in (0.1, 0.03):
            share, missed = covered(table, tree, error, runs)
            assert share >= 0.94, f"± {error}: {share:.1%} covered; missed with the seeds {missed}"


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_intervals_hold_the_exact_value(shape: Callable[[random.Random, int], Iterator[Totals]]) -> None:
    check_coverage(shape, 100_000, 60)


@pytest.mark.thorough
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_intervals_hold_the_exact_value_in_a_thousand_runs(
    shape: Callable[[random.Random, int], Iterator[Totals]],
) -> None:
    check_coverage(shape, 500_000, 1_000)


def test_intervals_of_uneven_groups() -> None:
    draw = random.Random(48)
    held = certified = 0
    for size in (100, 300, 1_000, 3_000, 10_000, 30_000):
        table = Table(uniform(draw, size), draw)
        for seed in range(30):
            order, sums = table.order(seed, CLUSTERS // 8)
            sample = table.sample(order[: sums.read], sums)
            interval = sample.interval(Value(sample.estimates(2)[0], {0: 1.0}), first_look(0.95, size, 0.05).error)
            certified += interval.certified
            held += interval.certified and interval.low <= table.totals[0] <= interval.high
    assert certified > 110
    assert held / certified >= 0.94


def test_the_variance_is_that_of_clusters() -> None:
    """The rows of a cluster are alike: taken for independent, they would give a tenth of the width."""
    draw = random.Random(1)
    table = Table(((100 * value, 100.0) for value in (draw.random() for _ in range(40_000))), draw)
    estimates, widths = [], []
    for seed in range(300):
        order, sums = table.order(seed, CLUSTERS // 16)
        sample = table.sample(order[: sums.read], sums)
        value = evaluate(SUM, sample.estimates(2))
        assert value is not None
        interval = sample.interval(value, 0.05)
        estimates.append(value.number)
        widths.append((interval.high - interval.low) / 2)
    mean = sum(estimates) / len(estimates)
    deviation = (sum((e - mean) ** 2 for e in estimates) / len(estimates)) ** 0.5
    assert mean == pytest.approx(table.totals[0], rel=0.02)
    assert sum(widths) / len(widths) == pytest.approx(1.96 * deviation, rel=0.2)


def test_a_sample_without_differences_is_not_certified() -> None:
    """What differs has not been met: a share of 0 in the sample is not a share of 0 of all rows."""
    sums = GroupSums(products_of([(0, 1)]), [(9.0 * STEP, 81.0 * STEP, 729.0 * STEP)], STEP)
    for _ in range(STEP):
        sums.add((), 1, _products((0.0, 9.0), sums.products))
    ((_, sample),) = sums.samples()
    interval = sample.interval(Value(0.0, {0: 1 / 576}), 0.05)
    assert not interval.certified


def test_values_that_are_no_numbers_are_not_certified() -> None:
    for odd in (nan, inf):
        sums = {(0,): odd, (0, 0): odd, (0, 0, 0): odd, (1,): 64.0, (1, 1): 64.0, (1, 1, 1): 64.0}
        sample = ClusterSample(CLUSTERS, 64, 1e6, 64, sums)
        assert not sample.interval(Value(odd, {0: 1.0}), 0.05).certified


def test_groups_of_nan_are_one_group() -> None:
    sums = GroupSums(products_of([(0,)]), [])
    for _ in range(2):
        sums.add((float("nan"),), 1, [1.0] * len(sums.products))
    assert len(sums) == 1


@pytest.mark.parametrize("rows", [0, 100, 2e6, 1e12])
def test_the_error_of_all_looks_together_is_that_of_the_confidence(rows: float) -> None:
    taken: list[Look] = []
    look: Look | None = first_look(0.95, rows, 0.05)
    while look is not None:
        taken.append(look)
        look = next_look(look, None, jumps=False)
    assert len(taken) <= LOOKS
    assert sum(look.error for look in taken) <= 0.05 + 1e-12
    assert [look.read for look in taken] == sorted({look.read for look in taken})
    assert next_look(taken[0], 0.01, jumps=True) is None


def test_a_first_look_reads_as_many_rows_as_its_error_may_need() -> None:
    shares = [first_look(0.95, rows, 0.05).read / CLUSTERS for rows in (1_000, 1e6, 1e9)]
    assert shares == [1 / 16, pytest.approx(5_000 / 1e6, rel=0.1), 1 / 512]
    assert first_look(0.95, 4e6, 0.01).read / CLUSTERS * 4e6 == pytest.approx(25_000, rel=0.1)


def test_a_next_look_reads_what_is_predicted_to_suffice() -> None:
    look = first_look(0.95, 4e6, 0.01)
    after = next_look(look, 0.6, jumps=True)
    assert after
    assert 2.5 * look.read < after.read < 5 * look.read
    assert next_look(look, 0.99, jumps=True) == Look(STEP * ceil(1.5 * look.read / STEP), look.error, 2)
    assert next_look(look, None, jumps=True) == Look(5 * look.read, look.error, 2)
    assert next_look(look, 0.05, jumps=True) is None


def test_quantiles_of_student() -> None:
    for probability, degrees, expected in ((0.975, 10, 2.2281), (0.995, 30, 2.7500), (0.99, 60, 2.3901)):
        assert t_quantile(probability, degrees) == pytest.approx(expected, abs=2e-3)
    assert t_quantile(0.975, 10**9) == pytest.approx(NormalDist().inv_cdf(0.975))


def test_expressions_of_totals() -> None:
    tree = Scalar(f"100 * ({TOTAL}0 - {TOTAL}1) / -{TOTAL}2").tree
    assert totals_in(tree) == (0, 1, 2)
    value = evaluate(tree, [7.0, 3.0, 2.0])
    assert value is not None
    assert value.number == pytest.approx(-200)
    assert value.slopes == pytest.approx({0: -50.0, 1: 50.0, 2: 100.0})
    assert evaluate(tree, [7.0, 3.0, 0.0]) is None
    assert totals_in(Scalar(f"sqrt({TOTAL}0)").tree) is None


def test_what_is_near_to_the_size_of_its_cluster_has_a_narrow_interval() -> None:
    """A sample that has too many rows by chance has too much of everything, and the number of all rows is known."""
    draw = random.Random(3)
    table = Table(((1 + draw.random() / 10, 1.0) for _ in range(100_000)), draw)
    order, sums = table.order(1, CLUSTERS // 16)
    sample = table.sample(order[: sums.read], sums)
    interval = sample.interval(Value(sample.estimates(2)[0], {0: 1.0}), 0.05)
    assert interval.certified
    assert interval.error < 0.01
    assert interval.low <= table.totals[0] <= interval.high


def test_what_is_the_size_of_its_cluster_has_the_interval_of_an_estimate_without_it() -> None:
    draw = random.Random(3)
    table = Table(((1.0, 1.0) for _ in range(100_000)), draw)
    order, sums = table.order(1, CLUSTERS // 16)
    sample = table.sample(order[: sums.read], sums)
    interval = sample.interval(Value(sample.estimates(2)[0], {0: 1.0}), 0.05)
    assert interval.certified
    assert interval.estimate == pytest.approx(100_000)
    assert 0.01 < interval.error < 0.05


def test_a_group_that_has_met_no_rare_value_is_not_certified() -> None:
    """Latencies with a timeout in one row of 200: groups of 100 sampled rows show none of them, or a few."""
    draw = random.Random(5)
    average, groups = Scalar(f"{TOTAL}2 / {TOTAL}0").tree, []
    for _ in range(50):
        values = [5000.0 if draw.random() < 0.005 else 100.0 * draw.random() for _ in range(6_000)]
        sums = GroupSums(products_of([(0, 2)]), [(6_000 / CLUSTERS * STEP,) * 3] * (CLUSTERS // STEP), CLUSTERS // 64)
        clusters: dict[int, list[float]] = {}
        for value in values:
            clusters.setdefault(draw.randrange(CLUSTERS), []).append(value)
        for number, found in clusters.items():
            if number < sums.read:
                totals = (len(found), len(found), sum(found))
                sums.add((), 1, _products(totals, sums.products))
        ((_, sample),) = sums.samples()
        estimated = evaluate(average, sample.estimates(3))
        assert estimated is not None
        groups.append((sample, estimated, sum(values) / len(values)))
    alone = [group for group in groups if group[0].interval(group[1], 0.0125).certified]
    assert len(alone) > 10
    missed = [g for g in alone if not g[0].interval(g[1], 0.0125).low <= g[2] <= g[0].interval(g[1], 0.0125).high]
    assert len(missed) > len(alone) / 2, "those that look even have met no timeout"
    fewest = fewest_rows((sample, value) for sample, value, _ in groups)
    assert all(sample.sums[0,] < fewest for sample, _, _ in groups)
    assert fewest < 20_000


def test_identical_rows_are_not_certified_where_few_clusters_have_most_of_them() -> None:
    draw = random.Random(5)
    rows = ((float(size) * draw.random(), float(size)) for size in (int(draw.paretovariate(0.9)) for _ in range(9_000)))
    table = Table(rows, draw)
    order, sums = table.order(1, CLUSTERS // 64)
    assert sums.size_skew > 20
    sample = table.sample(order[: sums.read], sums)
    value = evaluate(SUM, sample.estimates(2))
    assert value is not None
    assert not sample.interval(value, 0.0125).certified
