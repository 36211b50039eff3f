"""``dovetail state``: shows the state of a join of streams; a local state needs no Spark."""

from __future__ import annotations

import json as json_format
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import typer

from dovetail.executor.state.folder import LocalFolder
from dovetail.executor.state.parts import check_parts, read_parts
from dovetail.executor.state.pinned import read_pinned
from dovetail.executor.state.spark_logs import Progress, check_sources, read_progress
from dovetail.executor.state.store import Store
from dovetail.optimizer import terminal
from dovetail.optimizer.commands.inputs import check_folder
from dovetail.planner.errors import InputError, StateError, one_of
from dovetail.planner.expr import quote
from dovetail.planner.state.manifest import InputState, Manifest
from dovetail.planner.state.refusals import RESTORE, damaged, rebuild_remedy


def show_state(checkpoint: str, *, json: bool, check: bool, changes: bool) -> None:
    """Print the state of each input.  Raises ``InputError`` if there is no state, ``StateError`` for a damaged one.

    ``check``: also check that every file exists and has its size.  ``changes``: also count the rows of changelogs that
    were deleted more often than inserted.
    """
    store, join, state = _read(checkpoint)
    folder = _local(checkpoint)
    names, query = [i["name"] for i in join["inputs"]], _query(join, state)
    if check:
        store.check_newest()
        check_sources(store.checkpoint)
        store.check_name()
        _check_views(LocalFolder(folder), state, read_progress(store.checkpoint))
    inputs = [_describe_input(name, found) for name, found in zip(names, state.inputs, strict=True)]
    if changes:
        for described, deletes in zip(inputs, _count_excess_deletes(store, join, state), strict=True):
            described["gone"] = deletes
    watermark = None if state.watermark is None else _moment(state.watermark * 1000)
    if json:
        terminal.print_json({"query": query, "epoch": state.epoch, "watermark": watermark, "inputs": inputs})
        return
    console = terminal.stdout_console()
    console.print(f"{query}\nepoch {state.epoch}, watermark {watermark or 'none'}\n", markup=False)
    kinds = [(name, "string" if name in ("input", "oldest", "newest") else "bigint") for name in inputs[0]]
    console.print(terminal.build_rows_table(kinds, [tuple(i.values()) for i in inputs]))
    if check:
        console.print("\nevery file is there, and has the size it was written with", markup=False)


def _query(join: dict[str, Any], state: Manifest) -> str:
    """Describe the owner of a state: a query, or several views."""
    return " ".join(join["text"].split()) if "text" in join else f"{len(state.answered)} views on one state"


def _count_excess_deletes(store: Store, join: dict[str, Any], state: Manifest) -> Iterator[int | None]:
    """Count the rows of each input that were deleted more often than inserted; None if it is no changelog."""
    from dovetail.executor.session.session import local_session
    from dovetail.executor.state.changes import excess_deletes
    from dovetail.executor.state.paths import read_paths

    if not any(i.get("change") for i in join["inputs"]):
        raise InputError("none of its inputs is a changelog")
    with local_session("dovetail-state") as spark:
        for input_, found in zip(join["inputs"], state.inputs, strict=True):
            paths, change = store.paths(found.segments), input_.get("change")
            if change and paths:
                columns = [f"{c['stored']} AS {quote(c['name'])}" for c in input_["columns"]]
                rows = read_paths(lambda: spark.read, paths)
                yield excess_deletes(rows.selectExpr(*columns), change).count()
            else:
                yield 0 if change else None


def dump_state(checkpoint: str, name: str) -> None:
    """Print the stored rows of an input.  Raises ``InputError``, ``StateError``."""
    from dovetail.executor.session.rows import each_row
    from dovetail.executor.session.session import local_session
    from dovetail.executor.state.paths import read_paths

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
        rows = read_paths(lambda: spark.read, paths)
        shown = rows.select(*(rows[stored].alias(name) for stored, name in columns))
        for values in each_row(shown):
            row = {name: value for name, value in zip(shown.columns, values, strict=True) if value is not None}
            typer.echo(json_format.dumps(row, ensure_ascii=False))


def _check_views(state: LocalFolder, manifest: Manifest, progress: Progress) -> None:
    """Raise ``StateError`` if a stored file of a view here, or below ``views``, is missing or damaged.

    So is a view that took part in the last refresh, with rows up to another epoch than ``progress``.
    """
    shared = [state.sub(f"views/{found.name}") for found in state.inside("views")]
    for folder in (state, *shared):
        remedy, path = rebuild_remedy(str(folder)) if folder in shared else RESTORE, folder.below("view.json")
        text, parts = folder.read("view.json"), read_parts(folder, remedy)
        if text is None and not parts.number:
            continue
        if text is None:
            raise damaged(f"{path} is missing", remedy)
        try:
            name = json_format.loads(text)["name"]
        except (ValueError, KeyError, TypeError) as error:
            raise damaged(f"{path} cannot be read: {error}", remedy) from error
        check_parts(folder, parts, remedy)
        took_part = folder not in shared or name in manifest.answered
        if took_part and not parts.is_at(progress):
            raise damaged(
                f"{folder} has the rows up to epoch {parts.epoch}, which is not that of its checkpoint", remedy
            )


def _local(checkpoint: str) -> Path:
    """Return a local folder, also if it is written as in Spark's messages: ``file:/x``.  Raises ``InputError``."""
    check_folder("CHECKPOINT", checkpoint)
    path = re.sub(r"^file:(//(localhost)?(?=/))?", "", checkpoint)
    if "://" in path:
        raise InputError(
            f"{checkpoint} is not on this machine, and dovetail state reads local folders only; copy it here"
        )
    if not Path(path).is_dir():
        raise InputError(f"{checkpoint}: there is no such folder")
    return Path(path)


def _read(checkpoint: str) -> tuple[Store, dict[str, Any], Manifest]:
    """Read the state in a checkpoint, or in the folder of a view: its store, its join, and its newest manifest."""
    folder = _local(checkpoint)
    store = Store(LocalFolder(folder))
    if store.query() is None and (of_view := Store(LocalFolder(folder / "checkpoint"))).query() is not None:
        store = of_view
    text, epochs = store.query(), store.epochs()
    if text is None and read_pinned(LocalFolder(folder)):
        raise InputError(f"{checkpoint} is of Spark's own join over bins, whose state is in Spark's store")
    if text is None:
        raise InputError(f"{checkpoint} holds no state of a join of streams")
    try:
        join: dict[str, Any] = json_format.loads(text)
        _ = [(i["name"], i["columns"]) for i in join["inputs"]], join.get("text", "").split()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(f"{checkpoint}: query.json is damaged: {error}") from error
    if not epochs:
        raise InputError(f"{checkpoint}: no epoch has ended yet; run the query first")
    return store, join, store.manifest(epochs[-1])


def _describe_input(name: str, state: InputState) -> dict[str, Any]:
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
        return (
            datetime.fromtimestamp(micros / 1e6, timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0").rstrip(".")
        )
    except (ValueError, OverflowError, OSError):
        return f"{micros} µs"
