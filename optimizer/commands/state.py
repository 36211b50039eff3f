"""Look at the state of a join of streams; no Spark needed where it lies on this machine."""

from __future__ import annotations

import json as json_format
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from optimizer.commands import say
from planner.errors import InputError, StateError, one_of
from planner.expr import quote
from planner.state.folder import LocalFolder
from planner.state.manifest import InputState, Manifest
from planner.state.pinned import read_pinned
from planner.state.store import Store


def show_state(checkpoint: str, *, json: bool, check: bool, changes: bool) -> None:
    """Print what is kept of each input.  Raises ``InputError`` where there is no state, ``StateError`` for a bad one.

    ``check``: also that every file is there, and has the size it was written with.  ``changes``: also how many rows of
    changelogs have been taken away more often than added.
    """
    store, join, state = _read(checkpoint)
    names, query = [i["name"] for i in join["inputs"]], _query(join, state)
    if check:
        store.check(state)
    inputs = [_told(name, found) for name, found in zip(names, state.inputs, strict=True)]
    if changes:
        for told, gone in zip(inputs, _gone_too_often(store, join, state), strict=True):
            told["gone"] = gone
    watermark = None if state.watermark is None else _moment(state.watermark * 1000)
    if json:
        say.print_json({"query": query, "epoch": state.epoch, "watermark": watermark, "inputs": inputs})
        return
    console = say.out()
    console.print(f"{query}\nepoch {state.epoch}, watermark {watermark or 'none'}\n", markup=False)
    kinds = [(name, "string" if name in ("input", "oldest", "newest") else "bigint") for name in inputs[0]]
    console.print(say.rows_table(kinds, [tuple(i.values()) for i in inputs]))
    if check:
        console.print("\nevery file is there, and has the size it was written with", markup=False)


def _query(join: dict[str, Any], state: Manifest) -> str:
    """What a state is of: a query, or several views."""
    return " ".join(join["text"].split()) if "text" in join else f"{len(state.answered)} views that are kept together"


def _gone_too_often(store: Store, join: dict[str, Any], state: Manifest) -> Iterator[int | None]:
    """How many rows of each input have been taken away more often than added; None where it is no changelog."""
    from planner.runtime.session import local_session
    from planner.runtime.state.changes import gone_too_often

    if not any(i.get("change") for i in join["inputs"]):
        raise InputError("none of its inputs is a changelog")
    with local_session("dovetail-state") as spark:
        for input_, found in zip(join["inputs"], state.inputs, strict=True):
            paths, change = store.paths(found.segments), input_.get("change")
            if change and paths:
                columns = [f"{c['stored']} AS {quote(c['name'])}" for c in input_["columns"]]
                yield gone_too_often(spark.read.parquet(*paths).selectExpr(*columns), change).count()
            else:
                yield 0 if change else None


def dump_state(checkpoint: str, name: str) -> None:
    """Print the rows that are kept of an input.  Raises ``InputError``, ``StateError``."""
    from planner.runtime.session import local_session

    store, join, state = _read(checkpoint)
    names = [i["name"] for i in join["inputs"]]
    if name not in names:
        raise InputError(f"{checkpoint} has no input {name}; {one_of(names, name)}")
    number = names.index(name)
    paths = [store.folder.below(s.folder) for s in state.inputs[number].segments]
    columns = [(c["stored"], c["name"]) for c in join["inputs"][number]["columns"]]
    if not paths:
        return
    with local_session("dovetail-state") as spark:
        rows = spark.read.parquet(*paths)
        shown = rows.select(*(rows[stored].alias(name) for stored, name in columns))
        for row in shown.selectExpr("to_json(struct(*))").toLocalIterator():
            typer.echo(row[0])


def _read(checkpoint: str) -> tuple[Store, dict[str, Any], Manifest]:
    """The state in a checkpoint, or in the folder of a view; the join that it is of, and its newest manifest."""
    if "://" in checkpoint:
        raise InputError(f"{checkpoint}: only a folder of this machine can be looked at")
    store = Store(LocalFolder(Path(checkpoint)))
    if store.query() is None and (of_view := Store(LocalFolder(Path(checkpoint) / "checkpoint"))).query() is not None:
        store = of_view
    text, epochs = store.query(), store.epochs()
    if text is None and read_pinned(LocalFolder(Path(checkpoint))):
        raise InputError(f"{checkpoint} is of Spark's own join over bins, whose state is in Spark's store")
    if text is None:
        raise InputError(f"{checkpoint} holds no state of a join of streams")
    try:
        join: dict[str, Any] = json_format.loads(text)
        _ = [(i["name"], i["columns"]) for i in join["inputs"]], join.get("text", "").split()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(f"{checkpoint}: query.json is damaged: {error}") from error
    if not epochs:
        raise InputError(f"{checkpoint}: no epoch has come to its end yet")
    return store, join, store.manifest(epochs[-1])


def _told(name: str, state: InputState) -> dict[str, Any]:
    times = state.times
    return {
        "input": name,
        "rows": state.rows,
        "bytes": state.bytes,
        "files": state.files,
        "segments": len(state.segments),
        "oldest": _moment(times[0]) if times else None,
        "newest": _moment(times[1]) if times else None,
        "read": state.read,
        "late": state.late,
    }


def _moment(micros: int) -> str:
    """A time in microseconds since 1970, in UTC; only so many of them where Python has no such year."""
    try:
        return datetime.fromtimestamp(micros / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0").rstrip(".")
    except (ValueError, OverflowError, OSError):
        return f"{micros} µs"
