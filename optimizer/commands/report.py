"""``dovetail report``: writes all that an issue on a statement needs to one file."""

from __future__ import annotations

from pathlib import Path

import typer

from dovetail.optimizer.commands.inputs import DEFAULTS, Job
from dovetail.optimizer.commands.offline import planner_for
from dovetail.optimizer.report import build_report, issue_tracker
from dovetail.optimizer.terminal import print_note, show_status


def write_report(job: Job, out: str | None, *, anonymize: bool, verify: bool) -> None:
    """Plan the statement, run it both ways if requested, and print the report or write it to a file."""
    with planner_for(job, measure=True, needs_spark=verify) as planner:
        with show_status("planning"):
            plan = planner.explained(job.text)
        with show_status("running the query both ways" if verify else "writing the report"):
            verified = planner.verify(job.text) if verify else None
            text = build_report(
                plan, anonymize=anonymize, verified=verified, defaults=DEFAULTS, catalog=planner.catalog
            )
    if out is None:
        typer.echo(text)
        return
    Path(out).write_text(text, encoding="utf-8")
    home = issue_tracker() or "the issue tracker that pyproject.toml names under [project.urls]"
    print_note(f"wrote {out}; read it, then attach it to an issue in {home}")
