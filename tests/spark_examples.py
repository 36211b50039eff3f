"""Spark's own built-in functions and the examples that it tells of each, with their literals found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What Spark lists without an example.
WITHOUT = {
    "!=": "3 != 5",
    "<>": "3 <> 5",
    "||": "'Spark' || 'SQL'",
    "case": "CASE WHEN true THEN 10 ELSE 20 END",
    "binary": "binary('Spark')",
    "boolean": "boolean('true')",
    "bigint": "bigint('12')",
    "date": "date('2016-07-30')",
    "decimal": "decimal('12')",
    "double": "double('1.5')",
    "float": "float('1.5')",
    "int": "int('12')",
    "smallint": "smallint('12')",
    "string": "string(12)",
    "time": "time('12:30:00')",
    "timestamp": "timestamp('2016-07-30 12:30:00')",
    "tinyint": "tinyint('12')",
}
_STRING = r"""[rR]?'(?:[^'\\]|\\.|'')*'|[rR]?"(?:[^"\\]|\\.|"")*\""""
_UNIT = r"(?:YEAR|QUARTER|MONTH|WEEK|DAY|HOUR|MINUTE|SECOND|MILLISECOND|MICROSECOND)S?"
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:BD|[LSYDFlsydf](?!\w))?"
_AMOUNT = rf"[+-]?\s*(?:{_STRING}|{_NUMBER})"
_INTERVAL = rf"INTERVAL\s+{_AMOUNT}(?:\s+{_UNIT}(?:\s+TO\s+{_UNIT})?(?:\s+{_AMOUNT}\s+{_UNIT})*)?"
_TYPED = rf"(?:DATE|TIMESTAMP_NTZ|TIMESTAMP_LTZ|TIMESTAMP|TIME|X)\s*(?:{_STRING})"
_TOKEN = re.compile(
    rf"(?P<literal>\b{_INTERVAL}|\b{_TYPED}|{_STRING}|\b(?:true|false)\b|(?:(?<=[(,])\s*-)?\b{_NUMBER})"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<quoted>`[^`]*`)|(?P<sign>\s+|->|\S)",
    re.IGNORECASE | re.DOTALL,
)
_FROM_VALUES = re.compile(
    r"^(.*?)\s+FROM\s+VALUES\s*(.*?)\s*(?:AS\s+)?(\w+)\s*\(([\w\s,]+)\)\s*(.*)$", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True)
class Example:
    """A call as Spark's own example shows it.

    ``pieces`` are words, and ``values``: a tuple of literals, of which each may stand there.
    """

    function: str
    group: str
    pieces: tuple[str | tuple[str, ...], ...]


def examples(session: SparkSession) -> dict[str, list[Example]]:
    """The calls in the examples of each function of ``SHOW SYSTEM FUNCTIONS``; none for some."""
    told: Any = session._jvm.org.apache.spark.sql.api.python.PythonSQLUtils  # type: ignore[union-attr]
    about: dict[str, tuple[str, str]] = {}
    for one in told.listBuiltinFunctionInfos():  # a generator is told of twice
        group, text = about.get(one.getName(), ("", ""))
        about[one.getName()] = (max(group, one.getGroup()), text + "\n" + one.getExamples())
    found: dict[str, list[Example]] = {}
    for (name,) in session.sql("SHOW SYSTEM FUNCTIONS").collect():
        group, text = about.get(name, ("", ""))
        calls = [e for statement in _statements(text) for e in _read(name, group, statement)]
        found[name] = calls or [Example(name, group, _pieces(WITHOUT[name], {}))] if name in WITHOUT else calls
    return found


def _statements(text: str) -> Iterator[str]:
    for piece in re.split(r"^\s*> ", text, flags=re.MULTILINE)[1:]:
        yield " ".join(piece.rsplit(";", 1)[0].split("\n")).strip() if ";" in piece else piece.splitlines()[0]


def _read(name: str, group: str, statement: str) -> Iterator[Example]:
    if not re.match(r"SELECT\s", statement, re.IGNORECASE):
        return
    items, columns = statement[6:].strip(), {}
    if values := _FROM_VALUES.match(items):
        items = values[1]
        rows = [_split(row.strip().removeprefix("(").removesuffix(")")) for row in _split(values[2])]
        names = [n.strip().lower() for n in values[4].split(",")]
        if any(len(row) != len(names) for row in rows):
            return
        columns = {n: tuple(row[at] for row in rows) for at, n in enumerate(names)}
    elif re.search(r"\bFROM\s+(?![^()]*\))", items, re.IGNORECASE) and not re.search(
        r"\bFROM\b[^()]*\)", items, re.IGNORECASE
    ):
        return
    for item in _split(items):
        said = re.sub(r"\s+AS\s+\w+$", "", item, flags=re.IGNORECASE)
        if said != "*" and said.lower() not in columns and not said.lower().startswith("select"):
            yield Example(name, group, _pieces(said, columns))


def _pieces(text: str, columns: dict[str, tuple[str, ...]]) -> tuple[str | tuple[str, ...], ...]:
    pieces: list[str | tuple[str, ...]] = []
    for token in _TOKEN.finditer(text):
        word = token[0]
        if token["literal"]:
            pieces.append((word.strip(),))
        elif token["name"] and word.lower() in columns and not text[token.end() :].startswith("("):
            pieces.append(columns[word.lower()])
        else:
            pieces.append(word)
    return tuple(pieces)


def _split(text: str) -> list[str]:
    """The items of a list, at the commas outside brackets and texts."""
    found, depth = [""], 0
    for token in _TOKEN.finditer(text):
        depth += token[0] in ("(", "[", "{")
        depth -= token[0] in (")", "]", "}")
        if token[0] == "," and not depth:
            found.append("")
        else:
            found[-1] += token[0]
    return [item.strip() for item in found]
