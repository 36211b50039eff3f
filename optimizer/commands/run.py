"""``dovetail run``: prints the rows of a query as a table or JSON, or writes them to files."""

from __future__ import annotations

import re
from time import perf_counter
from typing import Any

from optimizer.commands import terminal
from optimizer.commands.inputs import Job, OutputPath
from optimizer.commands.work import optimizer_for, write
from optimizer.plan import Plan


def run_job(job: Job, output: OutputPath | None, limit: int, *, json: bool) -> None:
    """Run a query; print up to ``limit`` rows, or write all rows to ``output``."""
    with optimizer_for(job) as opt:
        from planner.runtime.rows import take_rows

        start = perf_counter()
        with terminal.show_status("planning"):
            plan = opt.plan(job.text)
        terminal.print_warnings(plan.warnings)
        with terminal.show_status("running"):
            frame = plan.dataframe()
            columns = [(f.name, f.dataType.simpleString()) for f in frame.schema.fields]
            if output is None:
                rows = take_rows(frame, limit + 1)
            else:
                size = write(frame, output, ordered=_has_order_by(job.text))
        took = perf_counter() - start
    summary = {"rewritten": plan.rewritten, "rules": list(plan.rules) if plan.rewritten else []}
    summary["seconds"] = round(took, 3)
    if output is not None:
        _report_written(output, size, plan, summary, json=json)
    elif json:
        named = [{"name": name, "type": kind} for name, kind in columns]
        terminal.print_json({"columns": named, "rows": rows[:limit], "more": len(rows) > limit, **summary})
    else:
        if columns:
            terminal.print_rows(columns, rows[:limit])
        more = f"the first {limit} rows; --limit shows more, --out writes all"
        count = more if len(rows) > limit else "1 row" if len(rows) == 1 else f"{len(rows)} rows"
        terminal.print_note(f"{count}; {terminal.format_seconds(took)}; {_describe_rewriting(plan)}")


def _has_order_by(text: str) -> bool:
    return re.search(r"(?i)\b(order|sort)\s+by\b", text) is not None


def _report_written(output: OutputPath, size: int | None, plan: Plan, summary: dict[str, Any], *, json: bool) -> None:
    if json:
        terminal.print_json({"out": output.path, "format": output.format, "bytes": size, **summary})
        return
    kind = f"a directory of {output.format}" if output.directory else output.format
    bytes_ = "" if size is None else f", {size:,} bytes"
    took = terminal.format_seconds(summary["seconds"])
    terminal.print_note(f"wrote {output.path} ({kind}{bytes_}); {took}; {_describe_rewriting(plan)}")


def _describe_rewriting(plan: Plan) -> str:
    if plan.rewritten:
        return f"rewritten by {', '.join(plan.rules)}"
    return f"not rewritten: {plan.declined[0].reason}" if plan.declined else "not rewritten: no rule applies"
