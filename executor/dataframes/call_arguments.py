"""The functions whose arguments Catalyst keeps otherwise than SQL writes them: in another order, or as fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from dovetail.executor.dataframes.catalyst_tree import Catalyst
from dovetail.executor.frame_sql.literals import type_sql

Arguments = tuple[str, list[exp.Expression]]


def _reversed(name: str, node: Catalyst, arguments: list[exp.Expression]) -> Arguments:
    """TRIM: the characters come first in SQL."""
    return name, arguments[::-1]


def _date_part(name: str, node: Catalyst, arguments: list[exp.Expression]) -> Arguments:
    return "date_part", arguments


def _ignoring_nulls(name: str, node: Catalyst, arguments: list[exp.Expression]) -> Arguments:
    return name, [*arguments[:1], *([exp.true()] if node.fields.get("ignoreNulls") else [])]


def _by_fields(name: str, node: Catalyst, arguments: list[exp.Expression]) -> Arguments:
    """Functions of several names, which differ in the type of the result, or in what they do with wrong values."""
    name = f"{name}_ntz" if node.fields.get("dataType") == "timestamp_ntz" else name
    return name if node.fields.get("failOnError", True) else f"try_{name}", arguments


def _of_variant(name: str, node: Catalyst, arguments: list[exp.Expression]) -> Arguments:
    return _by_fields(name, node, [*arguments, exp.Literal.string(type_sql(node.fields["targetType"]))])


def _with_options(name: str, node: Catalyst, arguments: list[exp.Expression]) -> Arguments:
    """JSON and CSV: Catalyst keeps the schema and the options as fields."""
    written = list(arguments[:1])
    if schema := node.fields.get("schema"):
        written.append(exp.Literal.string(type_sql(schema)))
    if options := node.fields.get("options"):
        pairs = [exp.Literal.string(str(part)) for pair in _mapping(options).items() for part in pair]
        written.append(exp.Anonymous(this="map", expressions=pairs))
    return name, written


def _mapping(found: Any) -> dict[str, Any]:
    return json.loads(found) if isinstance(found, str) else dict(found)


def _approximate_count(name: str, node: Catalyst, arguments: list[exp.Expression]) -> Arguments:
    return name, [*arguments[:1], exp.Literal.number(repr(float(node.fields["relativeSD"])))]


OTHER_ARGUMENTS: dict[str, Callable[[str, Catalyst, list[exp.Expression]], Arguments]] = {
    "StringTrim": _reversed,
    "StringTrimLeft": _reversed,
    "StringTrimRight": _reversed,
    "Extract": _date_part,
    "First": _ignoring_nulls,
    "Last": _ignoring_nulls,
    "AnyValue": _ignoring_nulls,
    "ParseToDate": _by_fields,
    "ParseToTimestamp": _by_fields,
    "MakeTimestamp": _by_fields,
    "ParseJson": _by_fields,
    "VariantGet": _of_variant,
    "JsonToStructs": _with_options,
    "StructsToJson": _with_options,
    "CsvToStructs": _with_options,
    "StructsToCsv": _with_options,
    "HyperLogLogPlusPlus": _approximate_count,
}
