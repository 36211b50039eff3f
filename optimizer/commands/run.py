"""``dovetail run``: rows on the screen, as JSON, or in a file."""

from __future__ import annotations

import re
from time import perf_counter
from typing import Any

from optimizer.commands import say
from optimizer.commands.inputs import Job, OutputPath
from optimizer.commands.work import optimizer_for, write
from optimizer.plan import Plan


def run_job(job: Job, output: OutputPath | None, limit: int, *, json: bool) -> None:
    """Run a query; show ``limit`` rows of it, or write all of them to ``output``."""
    with optimizer_for(job) as opt:
        start = perf_counter()
        with say.status("planning"):
            plan = opt.plan(job.text)
        say.warn(plan.warnings)
        with say.status("running"):
            frame = plan.dataframe()
            columns = [(f.name, f.dataType.simpleString()) for f in frame.schema.fields]
            if output is None:
                rows = frame.take(limit + 1) if columns else []
            else:
                size = write(frame, output, ordered=_ordered(job.text))
        took = perf_counter() - start
    story = {"rewritten": plan.rewritten, "rules": list(plan.rules) if plan.rewritten else []}
    story["seconds"] = round(took, 3)
    if output is not None:
        _say_written(output, size, plan, story, json=json)
    elif json:
        shown = [[say.plain_value(value) for value in row] for row in rows[:limit]]
        named = [{"name": name, "type": kind} for name, kind in columns]
        say.print_json({"columns": named, "rows": shown, "more": len(rows) > limit, **story})
    else:
        if columns:
            say.out().print(say.rows_table(columns, rows[:limit]))
        more = f"the first {limit} rows of more; --limit shows others, --out writes all"
        count = more if len(rows) > limit else "1 row" if len(rows) == 1 else f"{len(rows)} rows"
        say.remark(f"{count}; {say.seconds(took)}; {_what_happened(plan)}")


def _ordered(text: str) -> bool:
    return re.search(r"(?i)\b(order|sort)\s+by\b", text) is not None


def _say_written(output: OutputPath, size: int | None, plan: Plan, story: dict[str, Any], *, json: bool) -> None:
    if json:
        say.print_json({"out": output.path, "format": output.format, "bytes": size, **story})
        return
    kind = f"a directory of {output.format}" if output.directory else output.format
    large = "" if size is None else f", {size:,} bytes"
    say.remark(f"wrote {output.path} ({kind}{large}); {say.seconds(story['seconds'])}; {_what_happened(plan)}")


def _what_happened(plan: Plan) -> str:
    if plan.rewritten:
        return f"rewritten by {', '.join(plan.rules)}"
    return f"not rewritten: {plan.declined[0].reason}" if plan.declined else "not rewritten: no rule had a reason to"
