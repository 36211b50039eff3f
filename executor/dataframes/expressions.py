"""Reads a Catalyst expression as a tree of sqlglot, which prints its own parentheses.

A class of Catalyst that is no operator is written as the function that Spark has registered for it.  What is written
wrong does no harm: Spark reads the statement, and the plan must be the one that it was written from.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from dovetail.executor.dataframes.catalyst_tree import Catalyst
from dovetail.executor.dataframes.function_registry import FunctionRegistry
from dovetail.executor.dataframes.window_expressions import read_window
from dovetail.executor.frame_sql.calls import FUNCTION, SUBQUERY, call
from dovetail.executor.frame_sql.literals import literal_sql, literal_tree, type_sql
from dovetail.executor.frame_sql.query_blocks import Trees
from dovetail.planner.errors import Refused
from dovetail.planner.expr.dialect import data_type

_COMPARISONS = {
    "EqualTo": "==",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_ARITHMETIC = {
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "Divide": "/",
    "Remainder": "%",
    "TimestampAddInterval": "+",
    "TimeAdd": "+",
    "DateAddInterval": "+",
    "DateAddYMInterval": "+",
    "TimestampAddYMInterval": "+",
    "DatetimeSub": "-",
    "SubtractTimestamps": "-",
    "SubtractDates": "-",
}
_OPERATORS = {
    **_COMPARISONS,
    **_ARITHMETIC,
    "And": "and",
    "Or": "or",
    "BitwiseAnd": "&",
    "BitwiseOr": "|",
    "BitwiseXor": "^",
    "Like": "like",  # the JSON has no escape character; with another one than the default, the proof fails
    "Not": "not",
    "UnaryMinus": "negative",
    "BitwiseNot": "~",
    "IsNull": "isnull",
    "IsNotNull": "isnotnull",
    "In": "in",
}
_COERCED = frozenset((*_COMPARISONS, *_ARITHMETIC, "In", "Between", "Coalesce", "Greatest", "Least"))
"""Spark casts the operands of these to one type, if they have several."""

_SEEDED = "a random function above a join has other values in another plan, even with a seed"
_NO_SQL = {
    **dict.fromkeys(("Rand", "Randn", "RandStr", "Shuffle", "Uniform", "Uuid"), _SEEDED),
    **dict.fromkeys(("PythonUDF", "PythonUDAF", "ScalaUDF", "ScalaAggregator"), FUNCTION),
    **dict.fromkeys(("InSubquery", "ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"), SUBQUERY),
}


@dataclass(frozen=True)
class ExpressionReader:
    """Reads expressions; ``trees``: the columns below, by ID.

    ``coerced``: leave out casts that Spark adds itself.  ``jvm_zone``: the zone in which the JVM writes timestamps.
    ``left_out``: the casts that were left out, as they are.
    """

    trees: Trees
    coerced: bool
    jvm_zone: str
    registry: FunctionRegistry
    left_out: list[Catalyst] = field(default_factory=list)

    def tree(self, node: Catalyst) -> exp.Expression:
        """Read an expression.  Raises ``Refused``."""
        if reason := _NO_SQL.get(node.name):
            raise Refused(reason)
        if special := _SPECIAL.get(node.name):
            return special(self, node)
        arguments = self._operands(node, node.parameters() or node.children)
        name = _OPERATORS.get(node.name) or self.registry.find(node.name)
        if otherwise := OTHER_ARGUMENTS.get(node.name):
            name, arguments = otherwise(name, node, arguments)
        return call(name, arguments)

    def _operands(self, node: Catalyst, children: tuple[Catalyst, ...]) -> list[exp.Expression]:
        casts = [child for child in children if child.name == "Cast"] if self.coerced and node.name in _COERCED else []
        self.left_out.extend(casts)
        return [self.tree(child.child if child in casts else child) for child in children]

    def _attribute(self, node: Catalyst) -> exp.Expression:
        if node.id not in self.trees:
            raise Refused(f"the column {node.fields['name']} is of no relation of the join")
        return self.trees[node.id].copy()

    def _literal(self, node: Catalyst) -> exp.Expression:
        return literal_tree(literal_sql(node.fields["value"], node.fields["dataType"], self.jvm_zone))

    def _cast(self, node: Catalyst) -> exp.Expression:
        return exp.Cast(this=self.tree(node.child), to=data_type(type_sql(node.fields["dataType"])))

    def _between(self, node: Catalyst) -> exp.Expression:
        # In a self-join Spark gives new IDs to what Between is replaced by, and not to its own operands.
        both, definition = node.child.children
        operands = (definition.child, *(comparison.children[1] for comparison in both.children))
        value, low, high = self._operands(node, operands)
        return exp.Between(this=value, low=low, high=high)

    def _aggregate(self, node: Catalyst) -> exp.Expression:
        function, *condition = node.children
        written = self.tree(function)
        if node.fields["isDistinct"]:
            if not isinstance(written, exp.Anonymous):
                raise Refused(f"{function.name}(DISTINCT …) is not written as SQL")
            written.set("expressions", [exp.Distinct(expressions=written.expressions)])
        if condition:
            return exp.Filter(this=written, expression=exp.Where(this=self.tree(condition[0])))
        return written

    def _item(self, node: Catalyst) -> exp.Expression:
        container, key = map(self.tree, node.children)
        return exp.Bracket(this=container, expressions=[key])

    def _days(self, node: Catalyst) -> exp.Expression:
        """Read a date with days added; Spark takes the days of an interval out of it."""
        date, days = node.children
        if days.name != "ExtractANSIIntervalDays":
            return call("date_add" if node.name == "DateAdd" else "date_sub", self._operands(node, node.children))
        kind = exp.Add if node.name == "DateAdd" else exp.Sub
        return kind(this=self.tree(date), expression=self.tree(days.child))

    def _with_unit(self, node: Catalyst) -> exp.Expression:
        unit = exp.var(str(node.fields["unit"]))
        name = "timestampdiff" if node.name == "TimestampDiff" else "timestampadd"
        return call(name, [unit, *map(self.tree, node.children)])

    def _lambda(self, node: Catalyst) -> exp.Expression:
        body, *variables = map(self.tree, node.children)
        return exp.Lambda(this=body, expressions=variables)

    def _variable(self, node: Catalyst) -> exp.Expression:
        return exp.to_identifier(f"{node.fields['name']}_{node.id}", quoted=True)

    def _field(self, node: Catalyst) -> exp.Expression:
        name = node.fields.get("name")
        if not name:
            raise Refused("a field of a struct without a name is not written as SQL")
        return exp.Dot(this=self.tree(node.child), expression=exp.to_identifier(name, quoted=True))


_SPECIAL: dict[str, Callable[[ExpressionReader, Catalyst], exp.Expression]] = {
    "AttributeReference": ExpressionReader._attribute,
    "Literal": ExpressionReader._literal,
    "Cast": ExpressionReader._cast,
    "Alias": lambda reader, node: reader.tree(node.child),
    "Between": ExpressionReader._between,
    "CaseWhen": lambda reader, node: call("when", [reader.tree(child) for child in node.children]),
    "AggregateExpression": ExpressionReader._aggregate,
    "GetStructField": ExpressionReader._field,
    "GetArrayItem": ExpressionReader._item,
    "GetMapValue": ExpressionReader._item,
    "DateAdd": ExpressionReader._days,
    "DateSub": ExpressionReader._days,
    "TimestampDiff": ExpressionReader._with_unit,
    "TimestampAdd": ExpressionReader._with_unit,
    "LambdaFunction": ExpressionReader._lambda,
    "NamedLambdaVariable": ExpressionReader._variable,
    "WindowExpression": lambda reader, node: read_window(reader.tree, node),
}


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
