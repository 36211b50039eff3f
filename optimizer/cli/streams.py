"""The commands for streams: their options and their implementation."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from dovetail.optimizer.cli.options import EngineName, JobOptions, Json, with_job_options
from dovetail.optimizer.commands.inputs import (
    check_folder,
    check_seconds,
    check_trigger,
    local_folder,
    read_pairs,
    read_query,
)
from dovetail.optimizer.failures import located
from dovetail.planner.errors import InputError, one_of
from dovetail.planner.state.sink import Sink

Streams = Annotated[
    list[str] | None,
    typer.Option(
        "--stream",
        "-s",
        metavar="NAME=FOLDER/",
        help="What the query calls NAME: a folder in which Parquet, CSV (with a header line) or JSON files arrive. "
        "It needs one file to begin with, from which the columns are read. Repeatable.",
    ),
]
Schemas = Annotated[
    list[str] | None,
    typer.Option("--schema", metavar="NAME=COLUMNS", help="The columns, as 'id INT, ts TIMESTAMP'. Repeatable."),
]
Files = Annotated[
    int | None,
    typer.Option(min=1, max=2**31 - 1, metavar="N", help="At most so many files of a stream in an epoch."),
]


@with_job_options("catalog", "key", "remote", "engine")
def stream(
    job: JobOptions,
    stream: Streams = None,
    watermark: Annotated[
        list[str] | None,
        typer.Option(
            "--watermark",
            "-w",
            metavar="NAME.COLUMN=DELAY",
            help="The watermark of stream NAME: its newest COLUMN (a time) minus DELAY, as -w events.ts='10 minutes'. "
            "Rows that arrive behind it are dropped as late. Rows that can no longer match leave the state; without "
            "watermarks it grows. Repeatable, once for a stream.",
        ),
    ] = None,
    schema: Schemas = None,
    checkpoint: Annotated[
        str, typer.Option(metavar="FOLDER", help="Folder for the state and the progress of the query. Required.")
    ] = "",
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Where the rows go, as files. Required.")] = "",
    format: Annotated[str, typer.Option(metavar="FORMAT", help="parquet, orc, json or csv.")] = "parquet",
    trigger: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Time between the starts of epochs, such as '10 seconds', or 'available now' to end when all that is "
            "there has been taken. Without it an epoch begins when the last one has ended.",
        ),
    ] = None,
    files: Files = None,
    state_modules: Annotated[
        bool | None,
        typer.Option(
            "--state-modules/--spark-state",
            help="Keep the state in state modules wherever they can, or in Spark's store. Without either, they take "
            "joins by a band, of a stream with itself, and inner joins of three streams or more by equalities.",
        ),
    ] = None,
    state_ttl: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Rows leave the state after so long, even if they could still match."),
    ] = None,
    bins: Annotated[
        bool | None,
        typer.Option(
            "--bins/--no-bins",
            help="Use bins in Spark's own join of streams wherever there is a band, or nowhere. Without either, only "
            "where Spark could not run the join.",
        ),
    ] = None,
) -> None:
    """Run a query over streams of files until Ctrl-C, with a line of epochs, rows, lag and state.

    The same command goes on where the last one ended, or was killed. `dovetail state` shows what is kept.
    """
    from dovetail.optimizer.commands.streamed import read_streams, run_stream

    check_folder("--checkpoint", checkpoint)
    check_folder("--out", out)
    check_trigger(trigger)
    check_seconds("--state-ttl", state_ttl, least=0.001)
    _check_format(format, "parquet", "orc", "json", "csv")
    read = replace(job, engine=EngineName("spark")).read()
    streams = read_streams(stream or (), schema or (), watermark or (), here=read.here)
    run_stream(
        read,
        streams,
        Sink(format, local_folder(out, here=read.here)),
        checkpoint=local_folder(checkpoint, here=read.here),
        trigger=trigger,
        files=files,
        state_modules=state_modules,
        state_ttl=state_ttl,
        bins=bins,
    )


def _check_format(format: str, *possible: str) -> None:
    if format not in possible:
        raise InputError(f"--format {format} does not exist; {one_of(possible, format)}")


@with_job_options("catalog", "key", "remote", "engine")
def materialize(
    job: JobOptions,
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="The name of the view. Required.")] = "",
    other_views: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="NAME=QUERY.sql",
            help="Another view over the same streams, materialized together with this one: each stream is read and "
            "stored once. Repeatable.",
        ),
    ] = None,
    stream: Streams = None,
    changelog: Annotated[
        list[str] | None,
        typer.Option(
            "--changelog",
            metavar="NAME=COLUMN",
            help="Rows of NAME are changes, and COLUMN is insert, update_preimage, update_postimage or delete. "
            "Repeatable.",
        ),
    ] = None,
    schema: Schemas = None,
    state: Annotated[
        str,
        typer.Option(metavar="FOLDER", help="Folder for the stored rows and the state of the view. Required."),
    ] = "",
    out: Annotated[
        str,
        typer.Option(
            metavar="FOLDER",
            help="Where each refresh adds files with the rows that it changed, if anywhere; with --with, FOLDER/NAME.",
        ),
    ] = "",
    format: Annotated[str, typer.Option(metavar="FORMAT", help="The files' format: parquet, orc or json.")] = "parquet",
    every: Annotated[
        float | None,
        typer.Option(min=0.0, metavar="SECONDS", help="Refresh again and again until Ctrl-C, with so long between."),
    ] = None,
    files: Files = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare with recomputing as well; exit code 1 if the rows differ.")
    ] = False,
    json: Json = False,
) -> None:
    """Keep the result of a query over streams of files fresh, and print it.

    The first call builds the view. The same command refreshes it: it reads and joins only what has arrived since.
    Several views over the same streams share their state: see --with.
    """
    from dovetail.optimizer.commands.materialize import run_materialize
    from dovetail.optimizer.commands.streamed import read_streams

    if not name.strip():
        raise InputError("--as NAME is missing; add the name that queries call the view by")
    check_folder("--state", state)
    if out:
        check_folder("--out", out)
    check_seconds("--every", every)
    read = replace(job, engine=EngineName("spark")).read()
    streams = read_streams(stream or (), schema or (), (), here=read.here)
    _check_format(format, "parquet", "orc", "json")
    changelogs, queries = read_pairs("--changelog", changelog or ()), {name: read.text}
    for other, file in read_pairs("--with", other_views or ()).items():
        if other == name:
            raise InputError(f"--with {name}: --as gives this name to another view; choose another")
        with located(f"--with {other}"):
            queries[other] = read_query(file, None)
    sinks = {}
    if out:
        out = local_folder(out, here=read.here)
        sinks = {view: Sink(format, f"{out}/{view}" if len(queries) > 1 else out) for view in queries}
    if not run_materialize(
        read,
        queries,
        streams,
        changelogs,
        state=local_folder(state, here=read.here),
        sinks=sinks,
        every=every,
        files=files,
        verify=verify,
        json=json,
    ):
        raise typer.Exit(1)


def state(
    checkpoint: Annotated[
        str,
        typer.Argument(metavar="CHECKPOINT", help="The checkpoint of a join of streams, or the folder of a view."),
    ],
    check: Annotated[bool, typer.Option("--check", help="Check that every file is there and has its size.")] = False,
    dump: Annotated[
        str | None,
        typer.Option(metavar="INPUT", help="Print the stored rows of an input instead, one JSON object a line."),
    ] = None,
    changes: Annotated[
        bool,
        typer.Option("--changes", help="Count the rows of changelogs that have been deleted more often than inserted."),
    ] = False,
    json: Json = False,
) -> None:
    """Show what a join of streams holds: rows, bytes, files, oldest and newest time of each input."""
    from dovetail.optimizer.commands.state import dump_state, show_state

    if dump is not None:
        dump_state(checkpoint, dump)
    else:
        show_state(checkpoint, json=json, check=check, changes=changes)
