"""The command ``dovetail``: run, explain, rewrite, verify, estimate, advise, stream and materialize SQL; rules, doctor.

Answers go to stdout, everything else to stderr.  ``optimizer/failures.py`` has the exit codes.  Nothing here
imports pyspark before a session is needed.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
import warnings
from enum import Enum
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dovetail.optimizer import terminal
from dovetail.optimizer.cli.advise import advise, shadow_report
from dovetail.optimizer.cli.completion import Shell, completion_script, prepare_completion
from dovetail.optimizer.cli.options import Choices, JobOptions, Json, with_job_options
from dovetail.optimizer.cli.streams import materialize, state, stream
from dovetail.optimizer.commands.inputs import MOST_ROWS, check_text_output, read_output, read_pairs
from dovetail.optimizer.failures import describe_failure
from dovetail.optimizer.planning.plan import MODES
from dovetail.planner.errors import InputError
from dovetail.planner.version import VERSION


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


@app.command(epilog="Example: dovetail demo --quick")
def demo(
    data: Annotated[str, typer.Option(metavar="FOLDER", help="Where to keep the data, made once.")] = ".data/demo",
    quick: Annotated[bool, typer.Option("--quick", help="Use a tenth of the data.")] = False,
    json: Json = False,
) -> None:
    """Make data, run a band join through the optimizer, and run it on plain Spark beside it."""
    from dovetail.optimizer.commands.demo import show_demo

    show_demo(data, quick=quick, json=json)


@app.command(epilog="Example: dovetail run query.sql --table events=events.parquet --table sessions=sessions.csv")
@with_job_options()
def run(
    job: JobOptions,
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
) -> None:
    """Run a query through the optimizer; show its rows, or write them with --out.

    The statements of a file run in their order; --out takes the rows of the last one. Tables that a statement creates
    are gone when the command ends.
    """
    from dovetail.optimizer.commands.run import run_job

    read = job.read(several=True)
    output = read_output(out, overwrite=overwrite, here=read.here)
    run_job(read, output, limit, json=json)


@app.command(
    epilog="Example: dovetail explain query.sql -t events=events.parquet -t sessions=sessions.csv --mode trace"
)
@with_job_options()
def explain(
    job: JobOptions,
    mode: Annotated[
        Mode,
        typer.Option(
            "--mode",
            "-m",
            help="What to show. plan: the operators. trace: each rule that fired, with what it changed, or that "
            "declined, with its reason. cost: the plan, and the estimates that decided. sql: the statement that Spark "
            "runs. json: all of it as JSON. html: all of it as a page.",
        ),
    ] = Mode("plan"),  # noqa: B008 - an Enum member, made once
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the explanation to a file, such as plan.html.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of --out.")] = False,
) -> None:
    """Show how each statement of a file would run and why, without running it.

    One that cannot be planned is an error on stderr; the others are shown, and the exit code is not 0.
    Without --table and --remote, a --catalog that declares columns is planned against without Spark.
    """
    from dovetail.optimizer.commands.explain import show_explanations

    check_text_output(out, overwrite=overwrite)
    show_explanations(job.read(several=True), mode.value, out)


@app.command(
    epilog="Example: dovetail rewrite query.sql -t events=events.parquet -t sessions=sessions.csv > rewritten.sql"
)
@with_job_options()
def rewrite(
    job: JobOptions,
) -> None:
    """Print SQL that is right for any data, and nothing else; a query that is not rewritten comes back as it is.

    Of several statements, each ends with a semicolon.
    """
    from dovetail.optimizer.commands.explain import show_rewritings

    show_rewritings(job.read(several=True))


@app.command(epilog="Example: dovetail verify query.sql --table events=events.parquet --table sessions=sessions.csv")
@with_job_options()
def verify(
    job: JobOptions,
    measure: Annotated[
        bool, typer.Option("--measure", help="Then run each way once more, for the seconds and the rows of operators.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Cancel Spark's jobs after so many seconds.")
    ] = None,
    sample: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Read a part of the rows, such as 0.01, of the table whose rows are kept."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="ROWS", help="Read about so many rows of that table instead.")
    ] = None,
    html: Annotated[
        str | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Write a page with the plan and the result; with --measure also the rows of each operator.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Run a query as written and as rewritten, and compare the rows inside Spark; exit code 1 if they differ."""
    from dovetail.optimizer.commands.verify import run_verify
    from dovetail.optimizer.verify.batch import Checks

    run_verify(job.read(), Checks(timeout, sample, limit, measure), html=html, json=json)


@app.command(epilog="Example: dovetail estimate query.sql --table events=events.parquet --error 1% --seconds 20")
@with_job_options()
def estimate(
    job: JobOptions,
    error: Annotated[
        str, typer.Option(metavar="SHARE", help="End when no interval is wider, relative to its value: 1% or 0.01.")
    ] = "1%",
    confidence: Annotated[
        str, typer.Option(metavar="SHARE", help="The probability with which an interval holds the exact value.")
    ] = "95%",
    seconds: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="End after so many seconds, with the answer so far.")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Read the same sample as before.")] = None,
    json: Json = False,
) -> None:
    """Estimate counts, sums and averages from a sample that grows, with intervals that become narrower."""
    from dovetail.optimizer.commands.estimate import read_share, run_estimate
    from dovetail.optimizer.estimate.run import Goal

    goal = Goal(read_share("--error", error), read_share("--confidence", confidence), seconds, seed)
    run_estimate(job.read(), goal, json=json)


@app.command(epilog="Example: dovetail report query.sql --table events=events.parquet --out report.md")
@with_job_options()
def report(
    job: JobOptions,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the report to a file, such as report.md.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of --out.")] = False,
    anonymize: Annotated[
        bool, typer.Option("--anonymize", help="Replace names and texts of the statement by hashes.")
    ] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Also run the statement both ways, and report the rows and seconds of each."),
    ] = False,
) -> None:
    """Write what an issue on a statement needs: versions, settings, columns, plans and reasons; no rows, no secrets."""
    from dovetail.optimizer.commands.report import write_report

    check_text_output(out, overwrite=overwrite)
    write_report(job.read(), out, anonymize=anonymize, verify=verify)


app.command(epilog="Example: dovetail advise queries/ --catalog catalog.toml")(advise)
app.command("shadow-report", epilog="Example: dovetail shadow-report statements.jsonl")(shadow_report)
app.command(
    epilog="Example: dovetail stream query.sql --stream clicks=in/ --watermark clicks.ts='1 minute' "
    "--checkpoint joined/ --out matched/"
)(stream)
app.command(epilog="Example: dovetail materialize query.sql --as paid --stream orders=in/ --state kept/")(materialize)


@app.command(
    "exec",
    epilog="Example: dovetail exec job.py --day 2026-11-26",
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
)
def exec_(
    program: Annotated[
        list[str] | None, typer.Argument(metavar="PROGRAM.py ARGUMENTS", help="A Python program with its arguments.")
    ] = None,
    module: Annotated[
        str | None, typer.Option("--module", "-m", metavar="NAME", help="A module to run, instead of a file.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Write a line to stderr for each statement: its rules or reasons.")
    ] = False,
    frames: Annotated[
        bool, typer.Option("--frames", help="Plan DataFrames, too, when an action such as count or write runs them.")
    ] = False,
    option: Choices = None,
) -> None:
    """Run a Python program without changing it: Dovetail plans each spark.sql of the sessions that it makes."""
    from dovetail.optimizer.commands.program import exec_program

    options = read_pairs("--option", option or ())
    exec_program(program or [], module, options=options, verbose=verbose, frames=frames)


@app.command(epilog="Example: dovetail rules --json")
def rules(json: Json = False) -> None:
    """List the rules in the order in which they run, and describe each."""
    from dovetail.optimizer.commands.about import show_rules

    show_rules(json=json)


app.command(epilog="Example: dovetail state joined/ --check")(state)


@app.command(epilog="Example: dovetail doctor --quiet")
def doctor(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the problems.")] = False,
    json: Json = False,
) -> None:
    """Check whether this machine can run Spark; exit code 1 if it cannot."""
    from dovetail.optimizer.commands.about import show_doctor

    if not show_doctor(quiet=quiet, json=json):
        raise typer.Exit(1)


@app.command(epilog="Example: dovetail completion bash >> ~/.bashrc")
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="The shell: bash, zsh or fish.")],
) -> None:
    """Print the script that completes commands and options in a shell."""
    typer.echo(completion_script(shell.value))


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
    prepare_completion()
    if not sys.stdout.isatty():  # typer writes escapes into the pipes of some CI services
        os.environ.setdefault("_TYPER_FORCE_DISABLE_TERMINAL", "1")
    logging.getLogger().addHandler(logging.NullHandler())  # else py4j logs a stack trace for every Ctrl-C
    logging.getLogger("dovetail.plan").addHandler(terminal.WarningHandler(logging.WARNING))
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    app(prog_name="dovetail")
