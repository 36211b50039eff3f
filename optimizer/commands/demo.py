"""``dovetail demo``: what the demo did, as a story or as JSON."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from optimizer.commands import say
from optimizer.commands.inputs import Job
from optimizer.commands.work import optimizer_for
from optimizer.demo import FULL, QUERY, QUICK, Demo, run_demo
from planner.errors import InputError
from planner.explain.printer import show_tree


def show_demo(data: Path, *, quick: bool, json: bool) -> None:
    """Run the demo and show it; exit code 1 when the two answers differ."""
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--data {data}: {(error.strerror or str(error)).lower()}") from error
    with optimizer_for(Job(QUERY), "dovetail-demo") as opt:
        demo = run_demo(opt.session, data.absolute(), QUICK if quick else FULL, say.status)
    if json:
        say.print_json(_as_json(demo))
    else:
        _tell(demo, say.page())
    if not demo.agree:
        say.fail("plain Spark and Dovetail gave different answers for the slice; please report this", 1)


def _tell(demo: Demo, console: Console) -> None:
    size, plan = demo.size, demo.plan
    made = "found" if demo.made is None else f"made in {say.seconds(demo.made)}"

    def part(title: str, *bodies: RenderableType) -> None:
        console.print(Text(title, style="bold"))
        for body in bodies:
            console.print(Padding(body, (0, 0, 0, 2), expand=False))
        console.print()

    console.print()
    part("The data", Text(f"{size.events:,} events and {size.sessions:,} sessions, {made}:\n{_near(demo.data)}"))
    part("The query: what happened while a session was open?", _sql(QUERY))
    if plan.logical is not None:
        part("The plan as written", Text(show_tree(plan.logical)))
    part("The plan as Dovetail has it", Text(plan.explain("plan")))
    part("What fired", Text(plan.explain("trace")))
    part("The SQL that Spark gets", _sql(plan.sql()))
    planning = plan.timings.get("total", 0.0)
    part(
        f"The answer: {_matches(demo):,} matches among {size.pairs:,} pairs, in {say.seconds(demo.whole.seconds)}",
        Text(f"{say.seconds(planning)} of it for planning, on a Spark that has just started"),
        say.rows_table(demo.columns, demo.whole.rows),
    )
    part(
        "The same query over a slice, on plain Spark and through Dovetail",
        Text(
            f"{size.slice_events:,} events × {size.slice_sessions:,} sessions are {size.slice_pairs:,} pairs, "
            f"1/{size.pairs // size.slice_pairs} of the whole: few enough for plain Spark to finish. "
            "One run each after a warm-up, in the same session, planning included."
        ),
        _side_by_side(demo),
        Text("Both gave the same rows." if demo.agree else "The rows differ!", style="" if demo.agree else "red"),
        Text(
            f"At that pace plain Spark would need about {say.seconds(demo.plain_estimate)} for the whole query. "
            "That is reckoned, not measured."
        ),
    )


def _side_by_side(demo: Demo) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("the slice")
    table.add_column("seconds", justify="right")
    table.add_row("plain Spark", f"{demo.plain.seconds:.2f}")
    table.add_row("Dovetail", f"{demo.dovetail.seconds:.2f}")
    table.add_row("plain Spark ÷ Dovetail", f"{demo.plain.seconds / demo.dovetail.seconds:.1f}", style="bold")
    return table


def _matches(demo: Demo) -> int:
    return sum(row[2] for row in demo.whole.rows)


def _near(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _sql(text: str) -> Text:
    said = Syntax("", "sql", theme="ansi_light", background_color="default").highlight(text)
    said.rstrip()
    said.no_wrap, said.overflow = False, "fold"
    return said


def _as_json(demo: Demo) -> dict[str, object]:
    size = demo.size
    return {
        "rows": {"events": size.events, "sessions": size.sessions, "pairs": size.pairs},
        "slice": {"events": size.slice_events, "sessions": size.slice_sessions, "pairs": size.slice_pairs},
        "query": QUERY,
        "sql": demo.plan.sql(),
        "rewritten": demo.plan.rewritten,
        "rules": list(demo.plan.rules),
        "columns": [{"name": name, "type": kind} for name, kind in demo.columns],
        "answer": [[say.plain_value(value) for value in row] for row in demo.whole.rows],
        "agree": demo.agree,
        "seconds": {
            "making the data": demo.made and round(demo.made, 3),
            "planning": round(demo.plan.timings.get("total", 0.0), 3),
            "whole, Dovetail": round(demo.whole.seconds, 3),
            "slice, Dovetail": round(demo.dovetail.seconds, 3),
            "slice, plain Spark": round(demo.plain.seconds, 3),
            "whole, plain Spark (reckoned)": round(demo.plain_estimate, 1),
        },
    }
