"""Materialized views of TPC-H on one state: a refresh of all of them ÷ refreshes alone, and ÷ recomputing."""

from __future__ import annotations

import shutil
from collections import defaultdict
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks import harness
from dovetail import Optimizer, Options
from dovetail.executor.state.folder import LocalFolder
from dovetail.executor.state.store import Store
from tests.tpc.changing import CHANGE, CHANGING, Changing
from tests.tpc.data import queries

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.streams.bench import Bench

TITLE = "TPC-H, materialized on one state"
NAMES = {"Q3": "h03", "Q5": "h05", "Q10": "h10"}
ALONE, TOGETHER, RECOMPUTED = "one after the other, each on its own state", "together, on one state", "recomputed"
WARM_UP = (0.001, 0.01)


def measure(bench: Bench) -> None:
    """Three views, refreshed together and one by one after the same changes."""
    scale = 0.01 if bench.quick else 1
    rounds = {0.001: 1, 0.01: 1} if bench.quick else {0.001: 3, 0.01: 4}
    folder = bench.scratch
    tables = Changing(scale, folder / "in")
    opt, plain = Optimizer(bench.spark.newSession(), Options(force=False)), bench.spark.newSession()
    tables.stream(opt.session)
    for name in CHANGING:
        opt.declare_changelog(name, CHANGE)
    texts = {name: queries("tpch")[query].rstrip().rstrip(";") for name, query in NAMES.items()}
    start = perf_counter()
    alone = [opt.materialize(text, f"alone_{name}", state=folder / name) for name, text in texts.items()]
    between = perf_counter()
    views = opt.materialize_all(texts, state=folder / "together")
    first = {ALONE: between - start, TOGETHER: perf_counter() - between}

    def one_by_one() -> list[Any]:
        for view in alone:
            view.refresh()
        return [opt.session.table(view.name).collect() for view in alone]

    def all_at_once() -> list[Any]:
        views.refresh()
        return [opt.session.table(name).collect() for name in views]

    def recomputed() -> list[Any]:
        return [plain.sql(text).collect() for text in texts.values()]

    ways: dict[str, Callable[[], list[Any]]] = {ALONE: one_by_one, TOGETHER: all_at_once, RECOMPUTED: recomputed}
    took: dict[tuple[str, float], list[float]] = defaultdict(list)
    todo = [*((share, False) for share in WARM_UP), *((s, True) for s, times in rounds.items() for _ in range(times))]
    for number, (share, counted) in enumerate(todo):
        orders = round(tables.orders * share)
        tables.delete(orders - orders // 2)
        tables.insert(orders // 2)
        tables.write()
        for name, path in tables.save(folder / f"now{number}").items():
            plain.read.parquet(str(path)).createOrReplaceTempView(name)
        found = {}
        with harness.console.status(f"{100 * share:g} %"):
            for way in [*ways][number % 3 :] + [*ways][: number % 3]:
                begun = perf_counter()
                found[way] = ways[way]()
                took[way, share] += [perf_counter() - begun] if counted else []
        if not found[ALONE] == found[TOGETHER] == found[RECOMPUTED]:
            raise AssertionError("a view differs from its query")
        shutil.rmtree(folder / f"now{number}")
    bench.report.table(
        f"{', '.join(NAMES)} at scale {scale:g}: seconds of a refresh of all three and a look at each",
        ("", "first build", *(f"{100 * share:g} %" for share in rounds)),
        [_times(way, first.get(way), took, rounds) for way in ways],
    )
    bench.report.note(
        "Changes of so many of the orders with their lineitems, half of them new and half deleted. Medians of "
        f"{', '.join(map(str, rounds.values()))} rounds, in which the ways take turns. In each the rows are equal."
    )
    states = {ALONE: [folder / name for name in NAMES], TOGETHER: [folder / "together"]}
    kept = {way: [sum(of) for of in zip(*map(_measure_state, own), strict=True)] for way, own in states.items()}
    bench.report.table(
        "What is kept of the streams, at the end",
        ("", "rows", "MiB", "rows ÷ alone", "bytes ÷ alone"),
        [(way, f"{own[0]:,}", f"{own[1] / 2**20:,.1f}", *_shares(own, kept[ALONE])) for way, own in kept.items()],
    )


def _shares(own: list[int], of: list[int]) -> tuple[str, ...]:
    return tuple(f"{one / other:.2f}" for one, other in zip(own, of, strict=True))


def _times(
    way: str, first: float | None, took: dict[tuple[str, float], list[float]], shares: dict[float, int]
) -> tuple[str, ...]:
    cells = []
    for share in shares:
        seconds, again = median(took[way, share]), median(took[RECOMPUTED, share])
        cells.append(f"{seconds:.2f} s = {seconds / again:.2f} of recomputing")
    return way, f"{first:.1f} s" if first else "", *cells


def _measure_state(state: Path) -> tuple[int, int]:
    """The rows and bytes of all inputs."""
    store = Store(LocalFolder(state / "checkpoint"))
    inputs = store.manifest(store.epochs()[-1]).inputs
    return sum(i.rows for i in inputs), sum(i.bytes for i in inputs)
