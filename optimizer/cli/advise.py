"""The commands ``dovetail advise``, over a workload of SQL files, and ``dovetail shadow-report``, over its runs."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from dovetail.optimizer.cli.options import JobOptions, Json, with_job_options
from dovetail.planner.errors import InputError

FailOn = Enum("FailOn", {"new-nested-loop": "new-nested-loop"}, type=str)


@with_job_options("query", "sql")
def advise(
    job: JobOptions,
    queries: Annotated[
        str | None,
        typer.Argument(metavar="QUERIES", help="A folder of .sql files, a file, or a dbt project with its manifest."),
    ] = None,
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Also write the report as an HTML page, also that of --event-log."),
    ] = None,
    json: Json = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Run each rewritten statement both ways and compare the rows.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="With --verify: then run each way once more, and report the seconds.")
    ] = False,
    fail_on: Annotated[
        FailOn | None,
        typer.Option("--fail-on", help="End with code 1 if a nested loop is not in the baseline."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="FILE", help="The nested loops that are known.")
    ] = None,
    new_baseline: Annotated[
        str | None,
        typer.Option("--write-baseline", metavar="FILE", help="Write the nested loops that remain to a baseline."),
    ] = None,
    event_log: Annotated[
        str | None, typer.Option("--event-log", metavar="FOLDER", help="Read Spark's event logs instead of SQL.")
    ] = None,
) -> None:
    """Plan the statements of a folder without running them; report nested loops, rewritings, and what to mend.

    Without --table, --remote and --verify, the tables are those that the catalog declares, and Spark does not start.
    """
    if event_log is not None:
        from dovetail.optimizer.commands.event_log import run_event_log
        from dovetail.planner.offline_catalog.read_catalog import read_catalog

        declared = read_catalog(Path(job.catalog)) if job.catalog is not None else None
        others = {"QUERIES": queries, "--verify": verify, "--fail-on": fail_on, "--write-baseline": new_baseline}
        if given := next((name for name, value in others.items() if value), None):
            raise InputError(f"{given} does nothing with --event-log; leave it out")
        raise typer.Exit(run_event_log(Path(event_log), json=json, catalog=declared, html=html))
    if queries is None:
        raise InputError("name a folder of .sql files, a file, or a dbt project")
    if baseline is not None and fail_on is None:
        raise InputError("--baseline needs --fail-on; add --fail-on new-nested-loop")
    if measure and not verify:
        raise InputError("--measure needs --verify; add --verify")
    from dovetail.optimizer.commands.advise import run_advise

    run_advise(
        queries,
        job.read("SELECT 1"),
        html=html,
        json=json,
        verify=verify,
        measure=measure,
        fail_on=fail_on is not None,
        baseline=baseline,
        new_baseline=new_baseline,
    )


@with_job_options("query", "sql")
def shadow_report(
    job: JobOptions,
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="The file or folder of the option statement_log.")
    ] = None,
    verify: Annotated[
        int,
        typer.Option("--verify", min=0, metavar="N", help="Run the N best statements both ways and compare the rows."),
    ] = 0,
    sample: Annotated[
        float | None,
        typer.Option("--sample", metavar="PART", help="With --verify: the part of the rows to read, such as 0.1."),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="With --verify: cancel a statement that takes longer, both ways together."
        ),
    ] = 600.0,
    json: Json = False,
) -> None:
    """Rank the statements that ran with --option mode=shadow, or canary, by what their rewritings gain.

    Without --verify, Spark does not start.  With it, the statements run once each way over the tables of --table, or of
    --remote; exit code 1 if rows differ, or if no statement could be compared.
    """
    if path is None:
        raise InputError("name the file or folder that the option statement_log names")
    from dovetail.optimizer.commands.shadow_report import run_shadow_report
    from dovetail.optimizer.verify.batch import Checks

    run_shadow_report(path, job.read("SELECT 1"), Checks(timeout, sample), verify=verify, json=json)
