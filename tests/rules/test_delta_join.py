"""The solver of delta joins against brute force: every join graph, every order of arrival, NULLs and duplicates."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import chain, combinations, product
from random import Random
from time import thread_time
from typing import TYPE_CHECKING, Any

import networkx as nx
import pytest

from dovetail.planner.errors import Unsupported
from dovetail.planner.state.delta import DeltaJoin, DeltaPath, Value
from dovetail.rules.analysis.delta_join import JoinGraph, Sizes, delta_join
from dovetail.rules.analysis.equivalence_classes import Equality

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Row = dict[str, int | None]
Joined = tuple[Row, ...]
NAMES = "abcde"


@cache
def connected(n: int) -> list[tuple[tuple[int, int], ...]]:
    """The edges of every connected graph of n numbered inputs."""
    pairs = list(combinations(range(n), 2))
    subsets = chain.from_iterable(combinations(pairs, k) for k in range(n - 1, len(pairs) + 1))
    return [edges for edges in subsets if nx.is_connected(nx.Graph([*edges, *((i, i) for i in range(n))]))]


@cache
def arrivals(n: int) -> list[tuple[int, ...]]:
    """Every order in which n inputs can arrive, several in one epoch too: the epoch of each."""
    return [e for e in product(range(n), repeat=n) if set(e) == set(range(max(e) + 1))]


def equal(left: Value, right: Value, *, plain: bool = True) -> Equality:
    return Equality(left, right, strict=True, plain=plain)


def graph_of(n: int, equalities: list[Equality], more: Sequence[frozenset[int]] = (), **also: object) -> JoinGraph:
    own = [frozenset(number for number, _ in (e.left, e.right)) for e in equalities]
    return JoinGraph(tuple(NAMES[:n]), tuple(equalities), (*own, *more), **also)  # type: ignore[arg-type]


class Example:
    """A join graph with columns for its edges, conditions besides, and rows."""

    def __init__(self, n: int, edges: Sequence[tuple[int, int]], random: Random):
        self.n = n
        self.equalities = [
            equal((i, random.choice("xy")), (j, random.choice("xy")), plain=random.random() < 0.8) for i, j in edges
        ]
        others = [frozenset(random.sample(range(n), random.randint(1, min(3, n)))) for _ in range(random.randrange(3))]
        self.graph = graph_of(n, self.equalities, others)
        self.rows = [
            [{"id": k, **{c: random.choice((None, 0, 0, 1)) for c in "xy"}} for k in range(random.randint(2, 3))]
            for _ in range(n)
        ]
        for rows in self.rows:
            rows.append(dict(random.choice(rows)))

    def holds(self, condition: int, row: Callable[[int], Row]) -> bool:
        """Whether a condition holds of rows, by input."""
        if condition < len(self.equalities):
            equality: Any = self.equalities[condition]
            left, right = (row(i)[c] for i, c in (equality.left, equality.right))
            return left is not None and left == right
        return sum(row(i)["id"] or 0 for i in self.graph.conditions[condition]) % 3 > 0

    def brute(self) -> list[tuple[int, ...]]:
        """The joined rows, each as the places of its rows."""
        return [
            places
            for places in product(*(range(len(rows)) for rows in self.rows))
            if all(self.holds(c, lambda i: self.rows[i][places[i]]) for c in range(len(self.graph.conditions)))  # noqa: B023
        ]

    def run(self, plan: DeltaJoin, epochs: Sequence[int]) -> Counter[tuple[int, tuple[int, ...]]]:
        """What the paths find, with the epoch in which they do; ``epochs`` says when each input's rows arrive."""
        return Counter(
            (epoch, places)
            for epoch in range(max(epochs) + 1)
            for path in plan.paths
            for places in self._walk(path, epochs, epoch)
        )

    def _walk(self, path: DeltaPath, epochs: Sequence[int], epoch: int) -> Iterator[tuple[int, ...]]:
        new = range(len(self.rows[path.input])) if epochs[path.input] == epoch else ()
        found = [{path.input: place} for place in new]
        found = [f for f in found if self._all(path.conditions, f)]
        for step in path.lookups:
            there = epochs[step.input] < epoch or (step.version == "curr" and epochs[step.input] == epoch)
            rows = self.rows[step.input] if there else []
            index: dict[tuple[int | None, ...], list[int]] = {}
            for place, row in enumerate(rows):
                index.setdefault(tuple(row[own] for own in step.by), []).append(place)
            probed = [
                {**f, step.input: place}
                for f in found
                if None not in (key := tuple(self.rows[i][f[i]][text] for _, (i, text) in step.key))
                for place in index.get(key, ())
            ]
            found = [f for f in probed if self._all(step.conditions, f)]
        return (tuple(f[i] for i in range(self.n)) for f in found)

    def _all(self, conditions: Sequence[int], found: dict[int, int]) -> bool:
        return all(self.holds(c, lambda i: self.rows[i][found[i]]) for c in conditions)

    def check(self, orders: Sequence[Sequence[int]], **hint: object) -> int:
        """Hold the paths against brute force; how many joined rows there are."""
        plan = delta_join(self.graph, **hint)  # type: ignore[arg-type]
        self.check_early(plan)
        joined = self.brute()
        for epochs in orders:
            expected = Counter((max(epochs[i] for i in range(self.n)), places) for places in joined)
            assert self.run(plan, epochs) == expected, (self.graph, epochs)
        return len(joined)

    def check_early(self, plan: DeltaJoin) -> None:
        """Each condition stands once in a path, where the last of its inputs is found."""
        for path in plan.paths:
            seen = {path.input}
            assert all(self.graph.conditions[c] <= seen for c in path.conditions)
            for step in path.lookups:
                seen.add(step.input)
                assert all(step.input in self.graph.conditions[c] <= seen for c in step.conditions)
            placed = [*path.conditions, *(c for step in path.lookups for c in step.conditions)]
            assert sorted(placed) == list(range(len(self.graph.conditions)))


def test_the_graphs_are_all_there() -> None:
    assert [len(connected(n)) for n in range(2, 6)] == [1, 4, 38, 728]
    assert [len(arrivals(n)) for n in range(2, 6)] == [3, 13, 75, 541]


@pytest.mark.parametrize("n", [2, 3, 4])
def test_every_graph_in_every_order_of_arrival(n: int) -> None:
    random, found = Random(n), 0
    for edges in connected(n):
        for _ in range({2: 60, 3: 30, 4: 2}[n]):
            found += Example(n, edges, random).check(
                arrivals(n), order=random.sample(range(n), random.randrange(n + 1))
            )
    assert found > 100


def test_graphs_of_five_inputs() -> None:
    """Every graph in some orders of arrival, and some graphs in every order."""
    random, found = Random(5), 0
    for edges in connected(5):
        found += Example(5, edges, random).check(random.sample(arrivals(5), 3))
    for edges in random.sample(connected(5), 6):
        found += Example(5, edges, random).check(arrivals(5))
    assert found > 1000


def by_place(plan: DeltaJoin) -> DeltaJoin:
    """Versions as RisingWave's notes draw them: the later the row, the fewer of its last lookups see what is new."""

    def drawn(path: DeltaPath) -> DeltaPath:
        versions = ("prev" if n < path.input else "curr" for n in range(len(path.lookups)))
        return replace(path, lookups=tuple(replace(x, version=v) for x, v in zip(path.lookups, versions, strict=True)))  # type: ignore[arg-type]

    return replace(plan, paths=tuple(map(drawn, plan.paths)))


def test_versions_by_place_in_the_path_are_wrong() -> None:
    """a and b meet only over c, so d(b) looks up c before a: places in the path are not places among the inputs."""
    star = graph_of(3, [equal((0, "x"), (2, "x")), equal((1, "x"), (2, "y"))])
    plan = delta_join(star)
    assert plan.lines[:3] == (
        "new rows of a look up c by x, then b by x",
        "new rows of b look up c by y, then earlier a by x",
        "new rows of c look up earlier a by x, then earlier b by x",
    )
    example = Example(3, [(0, 2), (1, 2)], Random(0))
    example.equalities, example.graph = list(star.equalities), star
    example.rows = [[{"id": 0, "x": 1, "y": 1}] for _ in range(3)]
    together, c_later, b_and_c_later = (0, 0, 0), (0, 0, 1), (0, 1, 1)
    found = {e: list(example.run(by_place(plan), e).values()) for e in (together, c_later, b_and_c_later)}
    assert found == {together: [1], c_later: [1], b_and_c_later: []}  # lost: d(b) saw c as it was before
    a_and_b_later = (1, 1, 0)
    assert list(example.run(by_place(plan), a_and_b_later).values()) == [2]  # from d(a), and again from d(b)
    for epochs in arrivals(3):
        assert list(example.run(plan, epochs).values()) == [1]


def test_of_all_graphs_of_four_by_place_is_right_only_where_it_says_the_same() -> None:
    random, wrong, same = Random(6), 0, 0
    for edges in connected(4):
        example = Example(4, edges, random)
        example.rows = [[{"id": 1, "x": 0, "y": 0}] for _ in range(4)]
        example.graph = graph_of(4, example.equalities)
        plan = delta_join(example.graph)
        right = all(example.run(by_place(plan), e) == example.run(plan, e) for e in arrivals(4))
        assert right == (by_place(plan) == plan)
        wrong, same = wrong + (not right), same + right
    assert wrong > 20
    assert same > 0


def test_a_lookup_by_the_same_key_comes_first_then_the_size() -> None:
    equalities = [equal((0, "k"), (1, "k")), equal((1, "k"), (2, "k")), equal((1, "j"), (3, "j"))]
    graph = graph_of(4, equalities)
    assert delta_join(graph).lines == (
        "new rows of a look up b by k, then c by k, then d by j",
        "new rows of b look up c by k, then earlier a by k, then d by j",  # c is arranged by k for d(a)
        "new rows of c look up earlier a by k, then earlier b by k, then d by j",  # a.k = c.k follows
        "new rows of d look up earlier b by j, then earlier a by k, then earlier c by k",
        "state: a, b, c, d; a cascade of two-way joins would keep a, b, c, d, a ⋈ b, a ⋈ b ⋈ c",
    )
    fewer = Sizes({0: 30, 1: 40, 2: 20, 3: 50})  # what is new meets the largest, what it finds the smallest
    assert delta_join(graph, sizes=fewer).lines[1] == "new rows of b look up d by j, then c by k, then earlier a by k"


def test_the_order_of_a_hint_stands_above_all() -> None:
    star = graph_of(4, [equal((0, c), (n, "id")) for n, c in ((1, "x"), (2, "y"), (3, "z"))])
    assert delta_join(star, order=(3, 1)).lines[:2] == (
        "new rows of a look up d by id, then b by id, then c by id",
        "new rows of b look up earlier a by x, then d by id, then c by id",
    )


def test_arrangements_are_shared() -> None:
    """By two inputs of one source."""
    twice = graph_of(3, [equal((0, "k"), (1, "k")), equal((1, "k"), (2, "k"))], sources=(0, 1, 0))
    assert delta_join(twice).lines[-1] == "state: a = c, b; a cascade of two-way joins would keep a, b, c, a ⋈ b"


def test_several_keys_at_once_and_equalities_that_carry_no_further() -> None:
    two = graph_of(2, [equal((0, "x"), (1, "x")), equal((0, "y"), (1, "y"))])
    assert delta_join(two).lines[:2] == ("new rows of a look up b by x, y", "new rows of b look up earlier a by x, y")
    other_types = graph_of(3, [equal((0, "x"), (1, "x"), plain=False), equal((1, "x"), (2, "x"), plain=False)])
    assert delta_join(other_types).lines[0] == "new rows of a look up b by x, then c by x"
    assert delta_join(other_types, order=(2,)).lines[0] == "new rows of a look up b by x, then c by x"


def test_without_a_way_from_one_input_to_another() -> None:
    with pytest.raises(
        Unsupported, match="no equality of two relations leads from a, c to b: each new row of b would meet every row"
    ):
        delta_join(graph_of(3, [equal((0, "x"), (2, "x"))], [frozenset({0, 1})]))


def test_an_equality_that_holds_of_nulls_leads_to_its_own_two_values_alone() -> None:
    nulls = Equality((0, "x"), (1, "x"), strict=False, plain=True)
    found = delta_join(JoinGraph(("a", "b", "c"), (nulls, equal((1, "x"), (2, "x")))))
    assert found.lines[0] == "new rows of a look up b by x, then c by x"
    assert found.lines[2] == "new rows of c look up earlier b by x, then earlier a by x"
    assert found.paths[0].lookups[1].key == (("x", (1, "x")),)


def test_a_star_of_eight_is_planned_without_a_search() -> None:
    equalities = [equal((0, f"k{n}"), (n, "id")) for n in range(1, 8)]
    star = JoinGraph(tuple("abcdefgh"), tuple(equalities), tuple(frozenset({0, n}) for n in range(1, 8)))
    start = thread_time()
    assert [len(path.lookups) for path in delta_join(star).paths] == [7] * 8
    assert thread_time() - start < 1  # 10 ms; all orders of each path would take minutes
