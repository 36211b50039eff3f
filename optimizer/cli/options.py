"""Options that several commands of the command line share, and the job that they describe."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Annotated, Any, Concatenate, get_type_hints

import typer

from dovetail.optimizer.cli.completion import complete_option
from dovetail.optimizer.commands.catalog import read_catalog
from dovetail.optimizer.commands.inputs import (
    DEFAULTS,
    ENGINES,
    Job,
    check_master,
    read_keys,
    read_pairs,
    read_query,
    read_tables,
)
from dovetail.optimizer.failures import located
from dovetail.optimizer.options import Options
from dovetail.planner.errors import InputError

Choices = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="NAME=VALUE",
        help="An option of docs/options.md, as generic_plan=true. Repeatable.",
        autocompletion=complete_option,
    ),
]
EngineName = Enum("EngineName", {name: name for name in ENGINES}, type=str)  # type: ignore[misc]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]


@dataclass(frozen=True)
class JobOptions:
    """A query, its tables, and how and where it runs: the options that commands with a query share."""

    query: Annotated[
        str | None,
        typer.Argument(metavar="QUERY.sql", help="A file with a query, or - for stdin."),
    ] = None
    sql: Annotated[
        str | None,
        typer.Option("--sql", metavar="TEXT", help="The query itself, instead of a file."),
    ] = None
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            "-t",
            metavar="NAME=PATH",
            help="What the query calls NAME: a Parquet, CSV (with a header line) or JSON file, a directory of them, "
            "or a pattern. Repeatable.",
        ),
    ] = None
    catalog: Annotated[
        str | None,
        typer.Option(
            "--catalog",
            metavar="FILE.toml",
            help="A file that declares lookups (\\[lookup.NAME]), and which tables have versions or are changelogs "
            "(\\[tables.NAME]). Against the columns that it declares, "
            "advise, explain and rewrite plan without Spark, unless --table or --remote names other tables.",
        ),
    ] = None
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            "-k",
            metavar="NAME=COLUMNS",
            help="Columns, separated by commas, that are unique in a table. Repeatable.",
        ),
    ] = None
    option: Choices = None
    force: Annotated[bool, typer.Option("--force", help="Apply every sound rewriting, whatever its cost.")] = False
    master: Annotated[str, typer.Option("--master", metavar="URL", help="Where Spark runs.")] = "local[*]"
    remote: Annotated[
        str | None,
        typer.Option("--remote", metavar="URL", envvar="SPARK_REMOTE", help="A Spark Connect server, sc://host:port."),
    ] = None
    engine: Annotated[
        EngineName | None,
        typer.Option(
            "--engine",
            help="What runs the query: Spark, or Sail in this process, without a JVM. Sail, too, if it is installed "
            "and there is no Java.",
        ),
    ] = None
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", "-c", metavar="NAME=VALUE", help="A setting of Spark's. Repeatable."),
    ] = None

    def read(self, text: str | None = None, *, several: bool = False) -> Job:
        """Read and check the query and its tables; ``text`` stands for the query of a command without one.

        ``several``: the command takes a file of several statements.  Raises ``InputError`` or ``OptionError``.
        """
        given: dict[str, Any] = dict(read_pairs("--option", self.option or ()))
        if self.force:
            given["force"] = True
        check_master(self.master)
        engine: Any = self.engine.value if self.engine else ""
        if engine == "sail" and self.remote is not None:
            raise InputError("--engine sail starts a server of its own; leave out --remote")
        with located("--option"):
            options = Options.from_mapping(given, DEFAULTS)
        settings, catalog = read_pairs("--conf", self.conf or ()), read_catalog(self.catalog)
        keys = tuple(read_keys(self.key or ()))
        source = "--sql" if self.query is None else "stdin" if self.query == "-" else self.query
        job = Job("", source, (), options, self.master, self.remote, engine, settings, catalog, keys)
        tables = read_tables(self.table or (), here=job.here)
        # stdin last: who types the query hears of other faults first
        job = replace(job, text=read_query(self.query, self.sql if text is None else text), tables=tables)
        if not several and len(job.statements) > 1:
            raise InputError(
                f"{source} has {len(job.statements)} statements, and this command takes one; `dovetail run` and "
                "`dovetail explain` take several"
            )
        return job


_INPUTS = ("query", "sql", "table", "catalog", "key")  # before a command's own options; the others come after them


def with_job_options(
    *without: str,
) -> Callable[[Callable[Concatenate[JobOptions, ...], None]], Callable[..., None]]:
    """Give a command the shared options, except those ``without``; the command gets them as its first argument."""
    hints = get_type_hints(JobOptions, include_extras=True)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    shared = [
        inspect.Parameter(field.name, kind, default=field.default, annotation=hints[field.name])
        for field in fields(JobOptions)
        if field.name not in without
    ]

    def decorate(function: Callable[Concatenate[JobOptions, ...], None]) -> Callable[..., None]:
        _, *own = inspect.signature(function, eval_str=True).parameters.values()
        inputs = [parameter for parameter in shared if parameter.name in _INPUTS]
        rest = [parameter for parameter in shared if parameter.name not in _INPUTS]

        def command(**given: Any) -> None:
            function(JobOptions(**{parameter.name: given.pop(parameter.name) for parameter in shared}), **given)

        parameters = [*inputs, *(parameter.replace(kind=kind) for parameter in own), *rest]
        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # which typer reads
        return command

    return decorate
