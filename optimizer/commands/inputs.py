"""Parses and validates the user's input before any work starts: query, tables, output and options."""

from __future__ import annotations

import glob
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from dovetail.optimizer.advise.workload import WorkloadStatement, read_text, split_statements
from dovetail.optimizer.commands.catalog import CatalogFile
from dovetail.optimizer.failures import located
from dovetail.optimizer.options import Options
from dovetail.planner.errors import InputError, reason_of

FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_COMPRESSED = (".gz", ".bz2", ".zst", ".zstd", ".lz4", ".snappy", ".deflate")
MOST_ROWS = 2**31 - 2  # of a result that are shown: Spark counts them, and one more, in 32 bits
_POSSIBLE = ".parquet, .csv, .json, .jsonl or .ndjson"


@dataclass(frozen=True)
class Table:
    """A file or directory that the query calls by a name."""

    name: str
    path: str
    format: str
    lines: bool = True  # JSON: an object a line, not one array over all lines


@dataclass(frozen=True)
class OutputPath:
    """Where rows go: one file, or (``directory``) a directory of part files as Spark writes it."""

    path: str
    format: str
    directory: bool
    overwrite: bool


DEFAULTS = Options(planning_seconds=600.0)
"""The options of commands: no job waits for a command, and a slow plan is better than none."""

EngineName = Literal["spark", "sail", ""]
ENGINES = tuple(filter(None, get_args(EngineName)))


@dataclass(frozen=True)
class Job:
    """A query, its tables, and how and where it runs."""

    text: str
    source: str = ""  # where the text comes from
    tables: tuple[Table, ...] = ()
    options: Options = DEFAULTS
    master: str = "local[*]"
    remote: str | None = None
    engine: EngineName = ""
    settings: dict[str, str] = field(default_factory=dict)
    catalog: CatalogFile | None = None
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()  # a table and columns that no two of its rows agree in

    @property
    def statements(self) -> tuple[WorkloadStatement, ...]:
        """The statements of the text; one alone is the text unchanged."""
        found = tuple(split_statements(self.text, self.source))
        return found if len(found) > 1 else (WorkloadStatement(self.source, self.text),)

    @property
    def here(self) -> bool:
        """Whether Spark sees this machine's files."""
        return self.engine == "sail" or (self.remote or self.master).startswith("local")


def read_query(path: str | None, text: str | None) -> str:
    """The SQL of a file, of stdin (``-``), or of ``--sql``.  Raises ``InputError``."""
    if (path is None) == (text is None):
        raise InputError("name a file with a query, or `-` for stdin, or give the query with --sql")
    if text is None:
        text = read_text(path or "")
    if not text.strip():
        raise InputError(f"there is no query in {'--sql' if path is None else 'stdin' if path == '-' else path}")
    return text


def read_pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """The ``name=value`` of a repeatable option.  Raises ``InputError`` for one of another form, or given twice."""
    pairs: dict[str, str] = {}
    for pair in given:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not (name and equals and value):
            raise InputError(f"{option} wants name=value, not {pair!r}")
        if name in pairs:
            raise InputError(f"{option} {name} is given twice")
        pairs[name] = value
    return pairs


def read_keys(given: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The ``table=column,column`` of ``--key``.  Raises ``InputError`` for one of another form."""
    for pair in given:
        name, _, columns = (part.strip() for part in pair.partition("="))
        names = tuple(column.strip() for column in columns.split(","))
        if not name or not all(names):
            raise InputError(f"--key wants table=column,column, not {pair!r}")
        yield name, names


def read_tables(given: Sequence[str], *, here: bool, option: str = "--table") -> tuple[Table, ...]:
    """The tables of ``--table name=path``, or of another ``option``.

    Files are looked for where Spark is to read them ``here``.  Raises ``InputError``.
    """
    tables: list[Table] = []
    for name, path in read_pairs(option, given).items():
        if not re.fullmatch(r"[^\W\d]\w*", name):
            raise InputError(f"{option} {name}={path}: a table's name has letters, digits and _, and no digit first")
        if any(t.name.lower() == name.lower() for t in tables):
            raise InputError(
                f"{option} {name} is given twice, since Spark ignores capitals in names; rename one of them"
            )
        tables.append(_table(name, path, f"{option} {name}={path}", look=here and "://" not in path))
    return tuple(tables)


def _table(name: str, path: str, where: str, *, look: bool) -> Table:
    if not look:
        return Table(name, path, format_of(path) or "parquet")
    with located(where):
        files = list(_files(path))
    if not files:
        kind = "no data file in" if Path(path).is_dir() else "no file or directory"
        raise InputError(f"{where}: there is {kind} {path}")
    if unreadable := next((f for f in files if not os.access(f, os.R_OK)), None):
        raise InputError(f"{where}: {unreadable} cannot be read; give yourself the permission to read it")
    formats = {format_of(str(f)): f for f in files}
    if odd := formats.get(None):
        raise InputError(f"{where}: {odd} is of no known format; possible: {_POSSIBLE}")
    if len(formats) > 1:
        raise InputError(
            f"{where}: files of several formats ({', '.join(sorted(filter(None, formats)))}); name the files of one "
            "format by a pattern in quotes, or give each format a table"
        )
    found = next(iter(formats)) or ""
    return Table(name, path, found, lines=found != "json" or not _is_array(files[0]))


def _files(path: str) -> Iterator[Path]:
    """The data files of a path: of a directory those below it that Spark would read."""
    matches = [path] if Path(path).exists() else sorted(glob.glob(path))  # noqa: PTH207 - absolute patterns too
    for match in map(Path, matches):
        if not match.is_dir():
            yield match
            continue
        for below in sorted(match.rglob("*")):
            hidden = any(p.startswith(("_", ".")) and "=" not in p for p in below.relative_to(match).parts)
            if below.is_file() and not hidden:
                yield below


def format_of(path: str) -> str | None:
    """Return the format of a path by its ending, compressed or not.

    >>> format_of("a/b.csv.gz"), format_of("e.snappy.parquet"), format_of("notes.txt")
    ('csv', 'parquet', None)
    """
    plain = path.rstrip("/").lower()
    for ending in _COMPRESSED:
        plain = plain.removesuffix(ending)
    return FORMATS.get(Path(plain).suffix)


def _is_array(path: Path) -> bool:
    if path.suffix.lower() in _COMPRESSED:
        return False
    with path.open("rb") as file:
        return file.read(1024).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")


def local_folder(path: str, *, here: bool) -> str:
    """A folder from the root of this machine's files if it is ``here``."""
    return str(Path(path).absolute()) if here and "://" not in path and not path.startswith("file:") else path


def check_folder(option: str, path: str) -> None:
    """Raise ``InputError`` for an option without its folder."""
    if not path.strip():
        raise InputError(f"{option} FOLDER is missing; add it")


def check_seconds(option: str, seconds: float | None, *, least: float = 0.0) -> None:
    """Raise ``InputError`` for a time that is no number of seconds, from ``least`` to ten years."""
    if seconds is not None and not least <= seconds <= _TEN_YEARS:
        raise InputError(f"{option} {seconds}: give a number of seconds from {least:g} to {_TEN_YEARS:,}")


_TEN_YEARS = 315_360_000


def check_trigger(text: str | None) -> None:
    """Raise ``InputError`` for a ``--trigger`` that is not ``available now`` and no time."""
    if text is None or text.lower().split() == ["available", "now"]:
        return
    if not re.fullmatch(rf"(\s*\d{{1,9}}(\.\d{{1,9}})?\s+({_UNITS})s?)+\s*", text, re.IGNORECASE | re.ASCII):
        raise InputError(f"--trigger {text!r}: write 'available now', or a time such as '10 seconds'")


_UNITS = "millisecond|second|minute|hour|day|week"


def read_output(path: str | None, *, overwrite: bool, here: bool) -> OutputPath | None:
    """Where ``--out`` points.  Raises ``InputError`` for one that exists, unless ``overwrite``."""
    if path is None:
        if overwrite:
            raise InputError("--overwrite needs --out; add --out PATH")
        return None
    written = format_of(path)
    directory = path.endswith(("/", os.sep)) or not here or "://" in path
    if written is None and not directory:
        raise InputError(f"--out {path}: end it in {_POSSIBLE}, or in / for a directory of Parquet files")
    if path.lower().endswith(_COMPRESSED):
        raise InputError(f"--out {path}: compressed files cannot be written; leave out the last extension")
    output = OutputPath(path, written or "parquet", directory, overwrite)
    if here and "://" not in path:
        _check_place(output)
    return output


def check_text_output(path: str | None, *, overwrite: bool) -> None:
    """Check that a text can be written to a file.  Raises ``InputError`` for one that exists, unless ``overwrite``."""
    if path is not None:
        _check_place(OutputPath(path, "text", False, overwrite))
    elif overwrite:
        raise InputError("--overwrite needs --out; add --out PATH")


def check_page(path: str) -> None:
    """Check that the page of --html can be written; it replaces a file.  Raises ``InputError``."""
    _check_place(OutputPath(path, "text", False, True), "--html")


def write_text(option: str, path: str, text: str) -> None:
    """Write the file of an option.  Raises ``InputError``."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise InputError(f"{option} {path} cannot be written: {reason}") from error


def _check_place(output: OutputPath, option: str = "--out") -> None:
    path = Path(output.path)
    where = f"{option} {output.path}"
    if not path.absolute().parent.is_dir():
        raise InputError(f"{where}: there is no directory {path.parent}")
    try:  # permissions are not enough: /proc grants them to root and accepts no file
        with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.absolute().parent) as made:
            Path(made, "rows").write_bytes(b"\0")
    except OSError as error:
        raise InputError(f"{where}: {path.parent} cannot be written: {reason_of(error)}") from error
    if not os.path.lexists(path):
        return
    if path.is_dir() and not output.directory:
        raise InputError(f"{where}: this is a directory; end the path in / to write a directory")
    if not path.is_dir() and output.directory:
        raise InputError(f"{where}: this is a file; leave out the / to write a file")
    if output.directory and not any(path.iterdir()):
        return
    if not output.overwrite:
        raise InputError(f"{where} exists; --overwrite replaces it")
    if output.directory and (other := next(_not_spark(path), None)):
        raise InputError(f"{where}: {other.name} was not written by Spark; name another directory")


def _not_spark(directory: Path) -> Iterator[Path]:
    """What a directory holds that Spark does not write."""
    return (p for p in directory.iterdir() if p.is_dir() or not re.match(r"part-|_SUCCESS$|\.", p.name))


_LOCAL = r"local(\[(\*|[1-9]\d{0,3})(,\d{1,4})?\]|-cluster\[\d{1,4},\d{1,4},\d{1,9}\])?"


def check_master(master: str) -> None:
    """Raise ``InputError`` for a ``--master`` on this machine that is none of Spark's; others are Spark's to check."""
    local = re.fullmatch(_LOCAL, master.replace(" ", ""))
    if not master.strip() or (master.startswith("local") and not local):
        raise InputError(f"--master {master!r}: write local[*], local[4], or the address of a cluster")
