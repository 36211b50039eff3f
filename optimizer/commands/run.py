"""``dovetail run``: prints the rows of statements as tables or JSON, or writes those of the last to files."""

from __future__ import annotations

import re
from time import perf_counter
from typing import Any

from dovetail.optimizer import terminal
from dovetail.optimizer.api import Optimizer
from dovetail.optimizer.commands.inputs import Job, OutputPath
from dovetail.optimizer.commands.several import located_statement, print_heading
from dovetail.optimizer.commands.work import optimizer_for, write
from dovetail.optimizer.planning.plan import Plan
from dovetail.planner.errors import plural


def run_job(job: Job, output: OutputPath | None, limit: int, *, json: bool) -> None:
    """Run the statements of a job in order; print up to ``limit`` rows of each.

    The rows of the last one are written to ``output`` instead, if there is one.
    """
    statements, results = job.statements, list[dict[str, Any]]()
    with optimizer_for(job) as opt:
        for number, statement in enumerate(statements, 1):
            is_last = number == len(statements)
            with located_statement(job, number):
                print_heading(job, number)
                result = _run(opt, statement.text, output if is_last else None, limit, json=json)
            results.append(result)
    if json:
        terminal.print_json(results[0] if len(results) == 1 else results)


def _run(opt: Optimizer, text: str, output: OutputPath | None, limit: int, *, json: bool) -> dict[str, Any]:
    """Run a statement, and print its rows unless they go to JSON; return the result as JSON."""
    from dovetail.executor.session.rows import take_rows

    start = perf_counter()
    with terminal.show_status("planning"):
        plan = opt.plan(text)
    terminal.print_warnings(plan.warnings)
    with terminal.show_status("running"):
        frame = plan.dataframe()
        columns = [(f.name, f.dataType.simpleString()) for f in frame.schema.fields]
        if output is None:
            rows = take_rows(frame, limit + 1)
        else:
            size = write(frame, output, ordered=_has_order_by(text))
    took = perf_counter() - start
    summary = {"rewritten": plan.rewritten, "rules": list(plan.rules) if plan.rewritten else []}
    summary["seconds"] = round(took, 3)
    if output is not None:
        if not json:
            _report_written(output, size, plan, took)
        return {"out": output.path, "format": output.format, "bytes": size, **summary}
    if not json:
        if columns:
            terminal.print_rows(columns, rows[:limit])
        more = f"the first {plural(limit, 'row')}; --limit shows more, --out writes all"
        count = more if len(rows) > limit else plural(len(rows), "row")
        terminal.print_note(f"{count}; {terminal.format_seconds(took)}; {_describe_rewriting(plan)}")
    named = [{"name": name, "type": kind} for name, kind in columns]
    return {"columns": named, "rows": rows[:limit], "more": len(rows) > limit, **summary}


def _has_order_by(text: str) -> bool:
    return re.search(r"(?i)\b(order|sort)\s+by\b", text) is not None


def _report_written(output: OutputPath, size: int | None, plan: Plan, took: float) -> None:
    kind = f"a directory of {output.format}" if output.directory else output.format
    bytes_ = "" if size is None else f", {size:,} bytes"
    seconds = terminal.format_seconds(took)
    terminal.print_note(f"wrote {output.path} ({kind}{bytes_}); {seconds}; {_describe_rewriting(plan)}")


def _describe_rewriting(plan: Plan) -> str:
    if plan.rewritten:
        return f"rewritten by {', '.join(plan.rules)}"
    return f"not rewritten: {plan.declined[0].reason}" if plan.declined else "not rewritten: no rule applies"
