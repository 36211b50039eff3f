"""``dovetail demo``: runs the demo and prints its steps, or JSON."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from dovetail.optimizer import terminal
from dovetail.optimizer.commands.inputs import Job, check_folder
from dovetail.optimizer.commands.work import optimizer_for
from dovetail.optimizer.demo import FULL, QUERY, QUICK, Demo, run_demo
from dovetail.planner.errors import InputError
from dovetail.planner.explain.printer import show_tree


def show_demo(folder: str, *, quick: bool, json: bool) -> None:
    """Run the demo and print it; exit with code 1 if the two results differ."""
    check_folder("--data", folder)
    data = Path(folder)
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--data {data}: {(error.strerror or str(error)).lower()}") from error
    with optimizer_for(Job(QUERY), "dovetail-demo") as opt:
        demo = run_demo(opt.session, data.absolute(), QUICK if quick else FULL, terminal.show_status)
    if json:
        terminal.print_json(_to_json(demo))
    else:
        _print_steps(demo, terminal.page_console())
    if not demo.agree:
        terminal.exit_with_error("plain Spark and Dovetail gave different answers for the slice; please report this", 1)


def _print_steps(demo: Demo, console: Console) -> None:
    size, plan = demo.size, demo.plan
    seconds = terminal.format_seconds
    made = "found" if demo.made is None else f"made in {seconds(demo.made)}"

    def part(title: str, *bodies: RenderableType) -> None:
        console.print(Text(title, style="bold"))
        for body in bodies:
            console.print(Padding(body, (0, 0, 0, 2), expand=False))
        console.print()

    console.print()
    part(
        "The data", Text(f"{size.events:,} events and {size.sessions:,} sessions, {made}:\n{_relative_path(demo.data)}")
    )
    part("The query: what happened while a session was open?", _highlight_sql(QUERY))
    if plan.logical is not None:
        part("The plan as written", Text(show_tree(plan.logical)))
    part("The plan of Dovetail", Text(plan.explain("plan")))
    part("What fired", Text(plan.explain("trace")))
    part("The SQL that Spark gets", _highlight_sql(plan.sql()))
    planning = plan.timings.get("total", 0.0)
    part(
        f"The answer: {_count_matches(demo):,} matches among {size.pairs:,} pairs, in {seconds(demo.whole.seconds)}",
        Text(f"{seconds(planning)} of it for planning, on a Spark that has just started"),
        terminal.build_rows_table(demo.columns, demo.whole.rows),
    )
    part(
        "The same query over a slice, on plain Spark and through Dovetail",
        Text(
            f"{size.slice_events:,} events × {size.slice_sessions:,} sessions are {size.slice_pairs:,} pairs, "
            f"1/{size.pairs // size.slice_pairs} of the whole: few enough for plain Spark to finish. "
            "One run each after a warm-up, in the same session, planning included."
        ),
        _build_comparison(demo),
        Text("Both gave the same rows." if demo.agree else "The rows differ!", style="" if demo.agree else "red"),
        Text(
            f"At that pace plain Spark would need about {seconds(demo.plain_estimate)} for the whole query. "
            "That is an estimate, not a measurement."
        ),
    )


def _build_comparison(demo: Demo) -> Table:
    table = terminal.new_table()
    table.add_column("the slice")
    table.add_column("seconds", justify="right")
    table.add_row("plain Spark", f"{demo.plain.seconds:.2f}")
    table.add_row("Dovetail", f"{demo.dovetail.seconds:.2f}")
    table.add_row("plain Spark ÷ Dovetail", f"{demo.plain.seconds / demo.dovetail.seconds:.1f}", style="bold")
    return table


def _count_matches(demo: Demo) -> int:
    return sum(row[2] for row in demo.whole.rows)


def _relative_path(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _highlight_sql(text: str) -> Text:
    highlighted = Syntax("", "sql", theme="ansi_light", background_color="default").highlight(text)
    highlighted.rstrip()
    highlighted.no_wrap, highlighted.overflow = False, "fold"
    return highlighted


def _to_json(demo: Demo) -> dict[str, object]:
    size = demo.size
    return {
        "rows": {"events": size.events, "sessions": size.sessions, "pairs": size.pairs},
        "slice": {"events": size.slice_events, "sessions": size.slice_sessions, "pairs": size.slice_pairs},
        "query": QUERY,
        "sql": demo.plan.sql(),
        "rewritten": demo.plan.rewritten,
        "rules": list(demo.plan.rules),
        "columns": [{"name": name, "type": kind} for name, kind in demo.columns],
        "answer": [[terminal.to_json_value(value) for value in row] for row in demo.whole.rows],
        "agree": demo.agree,
        "seconds": {
            "making the data": demo.made and round(demo.made, 3),
            "planning": round(demo.plan.timings.get("total", 0.0), 3),
            "whole, Dovetail": round(demo.whole.seconds, 3),
            "slice, Dovetail": round(demo.dovetail.seconds, 3),
            "slice, plain Spark": round(demo.plain.seconds, 3),
            "whole, plain Spark (estimated)": round(demo.plain_estimate, 1),
        },
    }
