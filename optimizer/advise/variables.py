"""Variables and templates in the text of a workload: what Spark or dbt replaces before a statement is parsed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dovetail.planner.errors import QueryError

_VARIABLE = re.compile(r"\$\{(?:(?:hiveconf|hivevar|sparkconf|spark):)?([^{}]+)\}")
_SET = re.compile(r"(?is)\s*SET\s+(?:(?:hiveconf|hivevar):)?([\w.]+)\s*=\s*(.*?)\s*;?\s*")
_JINJA = re.compile(r"\{\{|\{%|\{#")
_STRINGS = re.compile(r"""(?s)'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/""")


def assignment(text: str) -> tuple[str, str] | None:
    """The name and value of a ``SET name = value``; None for any other statement."""
    found = _SET.fullmatch(text)
    return (found[1], found[2]) if found else None


def substitute_variables(text: str, values: Mapping[str, str]) -> str:
    """A statement with values in the place of ``${name}``, as Spark replaces them.  Raises ``QueryError``."""

    def value(found: re.Match[str]) -> str:
        if found[1] in values:
            return values[found[1]]
        raise QueryError(
            f"{found[0]} has no value. Spark replaces it before it parses the statement; give a value with "
            f"--conf {found[1]}=VALUE, or with SET {found[1]} = VALUE in a statement before this one."
        )

    return _VARIABLE.sub(value, text)


def check_template(text: str) -> None:
    """Raise ``QueryError`` for a text with Jinja outside its strings and comments."""
    if found := _JINJA.search(_STRINGS.sub("", text)):
        raise QueryError(
            f"The statement is a Jinja template: it has {found[0]}. Run `dbt compile` and name the dbt project, or the "
            "folder target/compiled."
        )
