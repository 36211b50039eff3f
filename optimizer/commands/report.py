"""``dovetail report``: writes all that an issue on a statement needs to one file."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import typer

from dovetail.optimizer.commands.inputs import DEFAULTS, Job
from dovetail.optimizer.commands.offline import is_offline, offline_planner
from dovetail.optimizer.commands.terminal import print_note, show_status
from dovetail.optimizer.report import build_report, issue_tracker


def write_report(job: Job, catalog: str | None, out: str | None, *, anonymize: bool, verify: bool) -> None:
    """Plan the statement, run it both ways if requested, and print the report or write it to a file."""
    write = partial(build_report, anonymize=anonymize, defaults=DEFAULTS)
    if is_offline(job) and not verify:
        planner = offline_planner(job, catalog or "")
        text = write(planner.explained(job.text), catalog=planner.catalog)
    else:
        from dovetail.optimizer.commands.work import optimizer_for

        with optimizer_for(job) as opt:
            with show_status("planning"):
                plan = opt.plan(job.text)
            with show_status("running the query both ways" if verify else "writing the report"):
                verified = opt.verify(job.text, measure=True) if verify else None
                text = write(plan, verified=verified)
    if out is None:
        typer.echo(text)
        return
    Path(out).write_text(text, encoding="utf-8")
    home = issue_tracker() or "the issue tracker that pyproject.toml names under [project.urls]"
    print_note(f"wrote {out}; read it, then attach it to an issue in {home}")
