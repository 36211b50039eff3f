"""The command ``dovetail``: run, explain, rewrite, verify, stream and keep SQL over files; a look at rules and machine.

Exit codes: 0 done; 1 the query failed, or ``verify`` found a difference; 2 an input or option cannot be used; 3 this
machine lacks something.  Answers go to stdout, everything else to stderr.  Nothing here imports pyspark before a
session is needed.
"""

from __future__ import annotations

import logging
import sys
import warnings
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from optimizer.cli_options import Catalog, Choices, Conf, Force, Json, Keys, Master, Query, Remote, Sql, Tables
from optimizer.cli_streams import keep, state, stream
from optimizer.commands import say
from optimizer.commands.inputs import read_job, read_output, reason_of
from optimizer.plan import MODES, Plan
from planner.errors import DovetailError, EnvironmentProblem, QueryError, RuleError
from planner.sql.lookup_views import lookups_of, needs_sql


class Commands(TyperGroup):
    """Commands that end in one short message instead of a stack trace."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            say.fail("interrupted", 130)
        except DovetailError as error:
            say.fail(
                str(error),
                3 if isinstance(error, EnvironmentProblem) else 1 if isinstance(error, RuleError | QueryError) else 2,
            )
        except BrokenPipeError:  # whoever read our words has gone: typer's to end
            raise
        except OSError as error:
            say.fail(f"{error.filename or 'a file'}: {reason_of(error)}", 2)
        except Exception as error:
            said = _said_by_spark(error)
            if said is None:
                raise
            say.fail(said, 1)


def _said_by_spark(error: Exception) -> str | None:
    if "pyspark" not in sys.modules:
        return None
    from planner.runtime.session import message

    return message(error)


app = typer.Typer(
    cls=Commands,
    help="Find the joins that Spark plans badly, rewrite them as SQL, and let Spark run the result.",
    epilog="Exit codes: 0 done; 1 the query failed, or verify found a difference; 2 an input or option cannot be "
    "used; 3 this machine lacks something.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Mode = Enum("Mode", {mode: mode for mode in MODES}, type=str)  # type: ignore[misc]


@app.command()
def demo(
    data: Annotated[Path, typer.Option(help="Where to keep the data, which is made once.")] = Path(".data/demo"),
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
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what --out names.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many rows to show.")] = 20,
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
            "--mode", "-m", help="The plan; which rules fired and held back; what decided; the SQL; all as JSON."
        ),
    ] = Mode("plan"),  # noqa: B008 - an Enum member, made once
    option: Choices = None,
    force: Force = False,
    master: Master = "local[*]",
    remote: Remote = None,
    conf: Conf = None,
) -> None:
    """Show how a query would run and why, without running it."""
    plan = _planned(query, sql, table, option, force, master, remote, conf, catalog, key)
    typer.echo(plan.explain(mode.value))
    if mode.value in ("cost", "sql"):  # the others say it themselves
        say.warn(plan.warnings)


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
    plan = _planned(query, sql, table, option, force, master, remote, conf, catalog, key, lasting=True)
    typer.echo(plan.sql(), nl=not plan.sql().endswith("\n"))
    say.warn(plan.warnings)
    for join in lookups_of(plan.physical if plan.rewritten else None):
        keys = needs_sql(plan.physical, join) if plan.physical else ""
        say.remark(f"{join.view} is made by the runtime: rows of {join.spec.table} fetched for\n{keys}")


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
    lasting: bool = False,
) -> Plan:
    from optimizer.commands.work import optimizer_for

    job = read_job(query, sql, table, option, force, master, remote, conf, catalog, key)
    if lasting:  # the text is kept, and runs over other rows
        job = replace(job, options=replace(job.options, lasting=True))
    with optimizer_for(job) as opt, say.status("planning"):
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
    with optimizer_for(job) as opt, say.status("running the query both ways"):
        found = opt.verify(job.text)
    if json:
        say.print_json({k: getattr(found, k) for k in ("same", "rewritten", "rows", "missing", "extra", "schema")})
    else:
        typer.echo(str(found))
    if not found.same:
        raise typer.Exit(1)


for command in (stream, keep):
    app.command()(command)


@app.command()
def rules(json: Json = False) -> None:
    """List the rules in the order in which they run, and say what each does."""
    from optimizer.commands.about import show_rules

    show_rules(json=json)


app.command()(state)


@app.command()
def doctor(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only what is wrong.")] = False,
    json: Json = False,
) -> None:
    """Check whether this machine can run Spark; exit code 1 if it cannot."""
    from optimizer.commands.about import show_doctor

    if not show_doctor(quiet=quiet, json=json):
        raise typer.Exit(1)


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from importlib import metadata

        try:
            typer.echo(metadata.version("dovetail"))
        except metadata.PackageNotFoundError:  # run from a checkout or a zip
            typer.echo("not installed as a package")
        raise typer.Exit


def main() -> None:
    """Run the command line."""
    logging.getLogger().addHandler(logging.NullHandler())  # else py4j logs a stack trace for every Ctrl-C
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    app(prog_name="dovetail")
