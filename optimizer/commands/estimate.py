"""``dovetail estimate``: the aggregates of a query with intervals that become narrower."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.text import Text

from dovetail.optimizer import terminal
from dovetail.optimizer.commands.inputs import Job
from dovetail.optimizer.commands.work import optimizer_for
from dovetail.optimizer.estimate.answer import Answer
from dovetail.optimizer.estimate.run import Goal
from dovetail.planner.errors import InputError
from dovetail.planner.estimate.clusters import Interval


def read_share(option: str, text: str) -> float:
    """A part of 1, written as such or in percent.  Raises ``InputError``.

    >>> read_share("--error", "1%"), read_share("--error", "0.05")
    (0.01, 0.05)
    """
    try:
        return float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        raise InputError(f"{option} {text} is no number; write it as 1% or 0.01") from None


def run_estimate(job: Job, goal: Goal, *, json: bool) -> None:
    """Show each answer in the place of the one before, at a terminal; the last one alone elsewhere."""
    goal.check()
    with optimizer_for(job) as opt:
        with terminal.show_status("reading the first rows"):
            answers = opt.estimate(job.text, **goal._asdict())
            answer = next(answers)
        if not json and sys.stdout.isatty():
            with Live(_view(answer), console=terminal.stdout_console()) as live:
                for later in answers:
                    live.update(_view(later), refresh=True)
            return
        *_, answer = answer, *answers
    if json:
        terminal.print_json(_to_json(answer))
    else:
        answer.show()


def _view(answer: Answer) -> Group:
    return Group(terminal.build_rows_table(*answer.table()), Text(answer.describe()))


def _to_json(answer: Answer) -> dict[str, Any]:
    rows = [
        {
            "values": [_value_to_json(value) for value in row.values],
            "sampled_rows": row.sampled_rows,
            "certified": row.certified,
        }
        for row in answer.rows
    ]
    facts = {name: getattr(answer, name) for name in ("exact", "share", "confidence", "seconds", "seed", "reason")}
    return {**facts, "columns": answer.schema.names, "rows": rows}


def _value_to_json(value: Any) -> Any:
    if isinstance(value, Interval):
        return {name: terminal.to_json_value(getattr(value, name)) for name in ("estimate", "low", "high")}
    return terminal.to_json_value(value)
