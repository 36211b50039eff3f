"""Reads a workload: the statements of .sql files (.SQL) below a folder, or the compiled models of a dbt project.

A file may hold several statements, separated by semicolons.  dbt's ``target/manifest.json`` has the compiled code of
each model; models come after those that they read.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from dovetail.planner.errors import InputError, Place, Unsupported, reason_of
from dovetail.planner.expr.tokens import tokenize_unmatched

_FIRST = Place(1, 1)
_NOT_COMPILED = "The manifest has no compiled code of this model. Run `dbt compile` without --select."


@dataclass(frozen=True)
class WorkloadStatement:
    """A statement, its file, and where it begins there; ``creates`` is the table that a dbt model makes of it.

    ``problem``: why there is no SQL to plan.
    """

    file: str
    text: str
    start: Place = _FIRST
    creates: str = ""
    problem: str = ""

    def place(self, inside: Place | None) -> Place:
        """The place in the file of a place in the statement."""
        if inside is None:
            return self.start
        column = inside.column + (self.start.column - 1 if inside.line == 1 else 0)
        return Place(self.start.line + inside.line - 1, column)


def read_workload(path: str) -> tuple[WorkloadStatement, ...]:
    """The statements of a .sql file, a folder of them, a dbt project or its manifest.  Raises ``InputError``."""
    root = Path(path)
    if not root.exists():
        raise InputError(f"there is no file or folder {path!r}; name a folder of .sql files or a dbt project")
    if root.is_file():
        return tuple(_manifest(root) if root.suffix == ".json" else _statements(root, root.name))
    manifest = root / "target" / "manifest.json"
    if (root / "dbt_project.yml").is_file() and not manifest.is_file():
        raise InputError(f"{path} is a dbt project without target/manifest.json; run `dbt compile` first")
    if manifest.is_file():
        return tuple(_manifest(manifest))
    files = sorted(p for p in root.rglob("*.[sS][qQ][lL]") if p.is_file())
    if not files:
        raise InputError(f"there is no .sql file in {path}; name a folder of .sql files or a dbt project")
    return tuple(s for file in files for s in _statements_or_problem(file, file.relative_to(root).as_posix()))


def read_text(path: str) -> str:
    """The text of a file, or of stdin (``-``).  Raises ``InputError``."""
    try:
        return (sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()).decode("utf-8-sig")
    except FileNotFoundError as error:
        hint = "; to give the query itself, use --sql" if re.search(r"\s", path) else ""
        raise InputError(f"there is no file {path}{hint}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason_of(error)}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{'stdin' if path == '-' else path} is not text in UTF-8; save it as UTF-8") from error


def _statements(file: Path, name: str) -> Iterator[WorkloadStatement]:
    yield from split_statements(read_text(str(file)).replace("\r\n", "\n"), name)


def _statements_or_problem(file: Path, name: str) -> Iterator[WorkloadStatement]:
    """The statements of one file of many: one that cannot be read does not end the others."""
    try:
        yield from _statements(file, name)
    except InputError as error:
        yield WorkloadStatement(name, "", problem=f"{error}.")


def split_statements(text: str, name: str) -> Iterator[WorkloadStatement]:
    """Cut a text at its semicolons, without those in strings and comments; a text without tokens has no statement.

    A bracket that is not closed ends with its statement, and leaves the others readable.  A script (``BEGIN … END``) is
    one statement, up to the end of the text.
    """
    try:
        t = tokenize_unmatched(text)
    except Unsupported:  # the planner reports it, with the reason
        yield WorkloadStatement(name, text)
        return
    first = 0
    for i in range(len(t) + 1):
        if i == len(t) or (t[i].word == ";" and t[first].word != "BEGIN"):
            if i > first:
                yield WorkloadStatement(name, t.slice(first, i), t.place(t[first].start))
            first = i + 1


def _manifest(file: Path) -> Iterator[WorkloadStatement]:
    """The models of a dbt manifest, in an order in which each comes after those that it reads."""
    try:
        nodes: dict[str, dict[str, Any]] = json.loads(read_text(str(file)))["nodes"]
        models = {key: node for key, node in nodes.items() if node.get("resource_type") in ("model", "snapshot")}
        reads = {
            key: [k for k in node.get("depends_on", {}).get("nodes", ()) if k in models] for key, node in models.items()
        }
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise InputError(f"{file} is not a manifest of dbt; run `dbt compile` to write it again") from error
    try:
        order = list(TopologicalSorter(reads).static_order())
    except CycleError:
        order = list(models)
    compiled = False
    for key in order:
        node = models[key]
        text = node.get("compiled_code") or node.get("compiled_sql") or ""
        name = node.get("compiled_path") or node.get("original_file_path") or key
        compiled = compiled or bool(text.strip())
        if node.get("language") == "python":
            yield WorkloadStatement(name, "", problem="This model is a Python program, which has no SQL to plan.")
        elif not text.strip():
            yield WorkloadStatement(name, "", problem=_NOT_COMPILED)
        else:
            for statement in split_statements(text, name):
                yield WorkloadStatement(name, statement.text, statement.start, node.get("relation_name") or "")
    if not compiled:
        raise InputError(f"{file} has no compiled code; run `dbt compile`, not `dbt parse`")
