"""The command ``dovetail``: run, explain, rewrite, verify, advise, stream and materialize SQL; rules, doctor.

Answers go to stdout, everything else to stderr.  ``optimizer/commands/failures.py`` has the exit codes.  Nothing here
imports pyspark before a session is needed.
"""

from __future__ import annotations

import logging
import sys
import traceback
import warnings
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from optimizer.cli_advise import advise
from optimizer.cli_options import Catalog, Choices, Conf, Force, Json, Keys, Master, Query, Remote, Sql, Tables
from optimizer.cli_streams import materialize, state, stream
from optimizer.commands import terminal
from optimizer.commands.failures import describe_failure
from optimizer.commands.inputs import MOST_ROWS, check_text_output, read_job, read_output
from optimizer.plan import MODES, Plan
from planner.errors import InputError
from planner.explain.html.page import check_jinja
from planner.sql.lookup_views import lookups_of, needs_sql
from planner.version import VERSION


class Commands(TyperGroup):
    """Commands in which every exception becomes one short message and an exit code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[_GIVEN] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            _check_text(ctx.meta[_GIVEN])
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, BrokenPipeError, _UsageError):
            raise  # typer's to end; a broken pipe: whoever read our words has gone
        except BaseException as error:
            if not isinstance(error, Exception | KeyboardInterrupt):
                raise
            if ctx.params.get("debug"):
                traceback.print_exception(error)
            terminal.exit_with_error(*describe_failure(error))


_GIVEN = "dovetail: the arguments as given"
# Newer versions of typer have a copy of click, which has no public name.
_UsageError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def _check_text(given: list[str]) -> None:
    """Raise ``InputError`` for an argument that is not text, which neither files nor Spark can take."""
    for word in given:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InputError(f"{word!r} is not text in UTF-8") from None


app = typer.Typer(
    cls=Commands,
    help="Find the joins that Spark plans badly, rewrite them as SQL, and let Spark run the result.",
    epilog="Exit codes: 0 done; 1 the query failed, or verify found a difference; 2 a query, file, option or catalog "
    "cannot be used; 3 something is missing or does not answer: Java, memory, Spark, a server, a lookup source; 4 a "
    "fault in Dovetail; 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Mode = Enum("Mode", {mode: mode for mode in MODES}, type=str)  # type: ignore[misc]


@app.command()
def demo(
    data: Annotated[str, typer.Option(metavar="FOLDER", help="Where to keep the data, made once.")] = ".data/demo",
    quick: Annotated[bool, typer.Option("--quick", help="Use a tenth of the data.")] = False,
    json: Json = False,
) -> None:
    """Make data, run a band join through the optimizer, and run it on plain Spark beside it."""
    from optimizer.commands.demo import show_demo

    show_demo(data, quick=quick, json=json)


@app.command()
def run(
    query: Query = None,
    sql: Sql = None,
    table: Tables = None,
    catalog: Catalog = None,
    key: Keys = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Write all rows to one file, by its ending Parquet, CSV or JSON (an object a line). A PATH that ends "
            "in / becomes a directory of part files, which is faster for many rows.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file or directory of --out.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=MOST_ROWS, metavar="N", help="How many rows to show.")] = 20,
    json: Json = False,
    option: Choices = None,
    force: Force = False,
    master: Master = "local[*]",
    remote: Remote = None,
    conf: Conf = None,
) -> None:
    """Run a query through the optimizer; show its rows, or write them with --out.

    Tables that a statement creates are gone when the command ends.
    """
    from optimizer.commands.run import run_job

    job = read_job(query, sql, table, option, force, master, remote, conf, catalog, key)
    output = read_output(out, overwrite=overwrite, here=job.here)
    run_job(job, output, limit, json=json)


@app.command()
def explain(
    query: Query = None,
    sql: Sql = None,
    table: Tables = None,
    catalog: Catalog = None,
    key: Keys = None,
    mode: Annotated[
        Mode,
        typer.Option(
            "--mode",
            "-m",
            help="What to show. plan: the operators. trace: each rule that fired, with what it changed, or that "
            "declined, with its reason. cost: the plan, and the estimates that decided. sql: the statement that Spark "
            "runs. json: all of it as JSON. html: all of it as a page. mermaid: the plan as a flowchart.",
        ),
    ] = Mode("plan"),  # noqa: B008 - an Enum member, made once
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the explanation to a file, such as plan.html.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of --out.")] = False,
    option: Choices = None,
    force: Force = False,
    master: Master = "local[*]",
    remote: Remote = None,
    conf: Conf = None,
) -> None:
    """Show how a query would run and why, without running it."""
    check_text_output(out, overwrite=overwrite)
    if mode.value == "html":
        check_jinja()
    plan = _planned(query, sql, table, option, force, master, remote, conf, catalog, key)
    explanation = plan.explain(mode.value)
    if out is None:
        typer.echo(explanation)
    else:
        Path(out).write_text(f"{explanation}\n", encoding="utf-8")
    if mode.value in ("sql", "mermaid"):
        _warn_of_rejection(plan)
    if mode.value in ("cost", "sql", "mermaid"):  # the other modes include it
        terminal.print_warnings(plan.warnings)


@app.command()
def rewrite(
    query: Query = None,
    sql: Sql = None,
    table: Tables = None,
    catalog: Catalog = None,
    key: Keys = None,
    option: Choices = None,
    force: Force = False,
    master: Master = "local[*]",
    remote: Remote = None,
    conf: Conf = None,
) -> None:
    """Print the SQL that Spark would get, and nothing else; a query that is not rewritten comes back as it is."""
    plan = _planned(query, sql, table, option, force, master, remote, conf, catalog, key, generic_plan=True)
    typer.echo(plan.sql(), nl=not plan.sql().endswith("\n"))
    _warn_of_rejection(plan)
    terminal.print_warnings(plan.warnings)
    for join in lookups_of(plan.physical if plan.rewritten else None):
        keys = needs_sql(plan.physical, join) if plan.physical else ""
        terminal.print_note(f"{join.view} is made by the runtime: rows of {join.spec.table} fetched for\n{keys}")


def _warn_of_rejection(plan: Plan) -> None:
    if plan.rejection:
        terminal.print_warnings([f"Spark cannot run this statement: {plan.rejection}"])


def _planned(
    query: str | None,
    sql: str | None,
    table: list[str] | None,
    option: list[str] | None,
    force: bool,
    master: str,
    remote: str | None,
    conf: list[str] | None,
    catalog: str | None,
    key: list[str] | None,
    *,
    generic_plan: bool = False,
) -> Plan:
    from optimizer.commands.work import optimizer_for

    job = read_job(query, sql, table, option, force, master, remote, conf, catalog, key)
    if generic_plan:  # the text is kept, and runs over other rows
        job = replace(job, options=replace(job.options, generic_plan=True))
    with optimizer_for(job) as opt, terminal.show_status("planning"):
        return opt.plan(job.text)


@app.command()
def verify(
    query: Query = None,
    sql: Sql = None,
    table: Tables = None,
    catalog: Catalog = None,
    key: Keys = None,
    json: Json = False,
    option: Choices = None,
    force: Force = False,
    master: Master = "local[*]",
    remote: Remote = None,
    conf: Conf = None,
) -> None:
    """Run a query as written and as rewritten, and compare the rows inside Spark; exit code 1 if they differ."""
    from optimizer.commands.work import optimizer_for

    job = read_job(query, sql, table, option, force, master, remote, conf, catalog, key)
    with optimizer_for(job) as opt, terminal.show_status("running the query both ways"):
        found = opt.verify(job.text)
    if json:
        terminal.print_json({k: getattr(found, k) for k in ("same", "rewritten", "rows", "missing", "extra", "schema")})
    else:
        typer.echo(str(found))
    if not found.same:
        raise typer.Exit(1)


for command in (advise, stream, materialize):
    app.command()(command)


@app.command()
def rules(json: Json = False) -> None:
    """List the rules in the order in which they run, and describe each."""
    from optimizer.commands.about import show_rules

    show_rules(json=json)


app.command()(state)


@app.command()
def doctor(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the problems.")] = False,
    json: Json = False,
) -> None:
    """Check whether this machine can run Spark; exit code 1 if it cannot."""
    from optimizer.commands.about import show_doctor

    if not show_doctor(quiet=quiet, json=json):
        raise typer.Exit(1)


@app.callback(invoke_without_command=True)
def _main(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", envvar="DOVETAIL_DEBUG", help="Show where in the code an error comes from."),
    ] = False,
) -> None:
    if version:
        typer.echo(VERSION)
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        raise InputError("Name a command; `dovetail --help` lists them")


def main() -> None:
    """Run the command line."""
    logging.getLogger().addHandler(logging.NullHandler())  # else py4j logs a stack trace for every Ctrl-C
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    app(prog_name="dovetail")
