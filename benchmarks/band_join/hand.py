"""The optimizer ÷ the same join binned by hand in Spark SQL, with the bins and hints that trials found best."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import harness
from benchmarks.band_join import cases
from benchmarks.band_join.bench import NOT_REWRITTEN
from benchmarks.band_join.data import LONGEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from benchmarks.band_join.bench import Bench
    from benchmarks.band_join.cases import Case

TITLE = "÷ Spark SQL binned by hand, with the bins and hints that trials found best"
TARGET = 1.0
FINALISTS = 2  # of the trials, measured beside the optimizer
SECOND_ROUND = 4  # of the trials, run twice instead of once

Trials = dict[str, str]  # how, and the text


# By hand


def hinted(text: str, side: str) -> Trials:
    """A text as Spark plans it, and with each hint for the side that is copied."""
    hint_names = {"broadcast": "BROADCAST", "shuffled hash": "SHUFFLE_HASH", "sorted": "MERGE"}
    hints = {"": "", **{f", {how}": f"/*+ {hint}({side}) */ " for how, hint in hint_names.items()}}
    return {how: text.replace("SELECT ", f"SELECT {hint}", 1) for how, hint in hints.items()}


def tried(texts: Mapping[str, str], side: str) -> Trials:
    """All texts with all hints."""
    return {how + hint: text for how, plain in texts.items() for hint, text in hinted(plain, side).items()}


def points(widths: Iterable[int], head: str, kind: str = "JOIN") -> Trials:
    """Each interval is copied to the bins it touches."""
    return {
        f"bins of {width:,}": f"""
        SELECT {head}
        FROM (SELECT *, x DIV {width} AS bin FROM points) p
        {kind} (SELECT *, explode(sequence(lo DIV {width}, hi DIV {width})) AS bin FROM intervals) i
          ON p.bin = i.bin AND p.x BETWEEN i.lo AND i.hi
        """
        for width in widths
    }


def levels(chosen: Iterable[tuple[int, int, int]]) -> Trials:
    """An interval lives on the level whose bins suit its length; a point is looked up on every level."""

    def text(narrowest: int, factor: int, reach: int) -> str:
        widths = [narrowest]
        while widths[-1] * reach < LONGEST:
            widths.append(widths[-1] * factor)
        level = " ".join(f"WHEN hi - lo <= {width * reach} THEN {width}L" for width in widths)
        every = ", ".join(f"{width}L" for width in widths)
        return f"""
        SELECT count(*), sum(p.v * i.w)
        FROM (SELECT *, x DIV width AS bin FROM (SELECT *, explode(array({every})) AS width FROM points)) p
        JOIN (
            SELECT *, explode(sequence(lo DIV width, hi DIV width)) AS bin
            FROM (SELECT *, CASE {level} END AS width FROM intervals)
        ) i
          ON p.width = i.width AND p.bin = i.bin AND p.x BETWEEN i.lo AND i.hi
        """

    return {
        f"bins from {narrowest:,}, levels {factor}× apart, ≤ {reach + 1} bins": text(narrowest, factor, reach)
        for narrowest, factor, reach in chosen
    }


def bands(widths: Iterable[int], key: str = "") -> Trials:
    """Each row of one side is copied to the bins that its band touches; beside a key, if there is one."""
    low, high = f"(x - {cases.BAND})", f"(x + {cases.BAND})"
    return {
        f"bins of {width:,}": f"""
        SELECT count(*), sum(a.v * b.v)
        FROM (SELECT *, x DIV {width} AS bin FROM a) a
        JOIN (SELECT *, explode(sequence({low} DIV {width}, {high} DIV {width})) AS bin FROM b) b
          ON {key} a.bin = b.bin AND a.x BETWEEN b.x - {cases.BAND} AND b.x + {cases.BAND}
        """
        for width in widths
    }


def overlaps(widths: Iterable[int]) -> Trials:
    """Both are copied to the bins they touch, and a pair is taken in the first bin that both touch."""
    return {
        f"bins of {width:,}": f"""
        SELECT count(*), sum(a.w * b.w)
        FROM (SELECT *, explode(sequence(lo DIV {width}, hi DIV {width})) AS bin FROM a) a
        JOIN (SELECT *, explode(sequence(lo DIV {width}, hi DIV {width})) AS bin FROM b) b
          ON a.bin = b.bin AND a.lo <= b.hi AND b.lo <= a.hi AND a.bin = greatest(a.lo, b.lo) DIV {width}
        """
        for width in widths
    }


def pitted(million: int) -> list[tuple[Case, Trials]]:
    """Every case and what is tried for it; `million` is smaller in a quick run."""
    intervals = (1_000, 2_000, 8_000)
    neighbours = (250, 500, 1_000)
    inner, left = "count(*), sum(p.v * i.w)", "count(*), sum(p.v * coalesce(i.w, 7))"
    spread = ((500, 8, 1), (500, 64, 16), (2_000, 64, 16), (2_000, 256, 64))
    return [
        (cases.point_in_interval(2 * million), tried(points(intervals, inner), "i")),
        (cases.pareto(2 * million), tried(levels(spread), "i")),
        (cases.left_join(2 * million), tried(points(intervals, left, "LEFT JOIN"), "i")),
        (cases.band(million), tried(bands(neighbours), "b")),
        (cases.zipf_band(million), tried(bands(neighbours, "a.k = b.k AND"), "b")),
        (cases.overlap(million // 5), tried(overlaps(intervals), "b")),
    ]


# Measuring


def measure(bench: Bench) -> None:
    """Try by hand, then run the optimizer and the best trials in turn."""
    rounds = 1 if bench.quick else 5
    some = slice(FINALISTS) if bench.quick else slice(None)
    rows = []
    for case, every in pitted(100_000 if bench.quick else 1_000_000):
        bench.register(case)
        trials = dict(list(every.items())[some])
        with harness.console.status(f"{case.title}: {len(trials)} ways by hand"):
            finalists = best(bench, case, trials)
        rows.append(against(bench, case, {how: trials[how] for how in finalists}, len(trials), rounds))
    bench.report.table(
        f"Target ≤ {TARGET}",
        ("join", "rows in", "rows out", "best by hand", "which", "ways tried", "optimizer", "÷", "first time", "÷"),
        rows,
    )
    bench.report.note(
        f"Every way by hand ran once, the best {SECOND_ROUND} of them twice; the best {FINALISTS} then ran "
        f"beside the optimizer, and the better one counts. {harness.medians(rounds)} after a round of warm-up, "
        "all ways in turn. Times go from SQL text to the answer, so they include planning, and the optimizer's "
        "requests about the tables: the first time that is lengths or samples, too; later an optimizer remembers them "
        "while the files stay the same. All ways gave the same answer."
    )


def best(bench: Bench, case: Case, trials: Trials) -> list[str]:
    """Return the ways that were fastest in a few runs."""

    def once(how: str) -> float:
        return harness.seconds(lambda: bench.plain(case, trials[how]))

    once(next(iter(trials)))
    times = {how: once(how) for how in trials}
    for how in sorted(times, key=lambda how: times[how])[:SECOND_ROUND]:
        times[how] = min(times[how], once(how))
    return sorted(times, key=lambda how: times[how])[:FINALISTS]


def against(bench: Bench, case: Case, finalists: Trials, tried: int, rounds: int) -> tuple[str, ...]:
    """A line of the table."""
    ours = bench.rewritten(case)
    ways: dict[str, Callable[[], None]] = {how: partial(bench.plain, case, text) for how, text in finalists.items()}
    if ours:
        ways |= {"optimizer": lambda: bench.again(case), "first time": lambda: bench.ours(case)}
    with harness.console.status(f"{case.title}: the optimizer, {', '.join(finalists)}"):
        times = {name: median(all_) for name, all_ in harness.in_turn(ways, warm_up=1, rounds=rounds).items()}
    how = min(finalists, key=lambda how: times[how])
    harness.console.print(case.title, *(f"{name} {time_:.2f} s" for name, time_ in times.items()), highlight=False)
    by_hand = (f"{times[how]:.2f} s", how, str(tried))
    return (
        case.title,
        f"{case.rows_in:,}",
        f"{bench.rows_out(case):,}",
        *by_hand,
        *(cell for way in ("optimizer", "first time") for cell in beside(bench, times.get(way), times[how])),
    )


def beside(bench: Bench, ours: float | None, by_hand: float) -> tuple[str, str]:
    """A time of the optimizer, and its ratio to the best by hand."""
    if ours is None:
        return "–", NOT_REWRITTEN
    return f"{ours:.2f} s", bench.report.judged(f"{ours / by_hand:.2f}", ours <= TARGET * by_hand)
