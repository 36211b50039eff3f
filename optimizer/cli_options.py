"""Options that several commands of the command line share."""

from __future__ import annotations

from typing import Annotated

import typer

Query = Annotated[str | None, typer.Argument(metavar="QUERY.sql", help="A file with a query, or - for stdin.")]
Sql = Annotated[str | None, typer.Option("--sql", metavar="TEXT", help="The query itself, instead of a file.")]
Tables = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        "-t",
        metavar="NAME=PATH",
        help="What the query calls NAME: a Parquet, CSV (with a header line) or JSON file, a directory of them, "
        "or a pattern. Repeatable.",
    ),
]
Catalog = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        metavar="FILE.toml",
        help="A file that declares lookups (\\[lookup.NAME]), and tables with versions or changelogs.",
    ),
]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        "-k",
        metavar="NAME=COLUMNS",
        help="Columns, separated by commas, that are unique in a table. Repeatable.",
    ),
]
Choices = Annotated[
    list[str] | None,
    typer.Option(
        "--option", "-o", metavar="NAME=VALUE", help="An option of docs/options.md, as generic_plan=true. Repeatable."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Apply every sound rewriting, whatever its cost.")]
Master = Annotated[str, typer.Option("--master", metavar="URL", help="Where Spark runs.")]
Remote = Annotated[
    str | None,
    typer.Option("--remote", metavar="URL", envvar="SPARK_REMOTE", help="A Spark Connect server, sc://host:port."),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", "-c", metavar="NAME=VALUE", help="A setting of Spark's. Repeatable."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
