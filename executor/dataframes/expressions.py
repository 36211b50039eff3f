"""Writes a Catalyst expression as a tree of sqlglot, which prints its own parentheses.

A class of Catalyst that is no operator is written as the function that Spark has registered for it.  What is written
wrong does no harm: Spark reads the statement, and the plan must be the one that it was written from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from dovetail.executor.dataframes.call_arguments import OTHER_ARGUMENTS
from dovetail.executor.dataframes.catalyst_tree import Catalyst
from dovetail.executor.dataframes.function_names import FunctionNames
from dovetail.executor.dataframes.window_expressions import write_window
from dovetail.executor.frame_sql.literals import literal_sql, type_sql
from dovetail.executor.frame_sql.query_blocks import case_when
from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import parse
from dovetail.planner.expr.dialect import data_type
from dovetail.planner.expr.functions import VOLATILE

_COMPARISONS: dict[str, type[exp.Binary]] = {
    "EqualTo": exp.EQ,
    "EqualNullSafe": exp.NullSafeEQ,
    "LessThan": exp.LT,
    "LessThanOrEqual": exp.LTE,
    "GreaterThan": exp.GT,
    "GreaterThanOrEqual": exp.GTE,
}
_ARITHMETIC: dict[str, type[exp.Binary]] = {
    "Add": exp.Add,
    "Subtract": exp.Sub,
    "Multiply": exp.Mul,
    "Divide": exp.Div,
    "Remainder": exp.Mod,
    "TimestampAddInterval": exp.Add,
    "TimeAdd": exp.Add,
    "DateAddInterval": exp.Add,
    "DateAddYMInterval": exp.Add,
    "TimestampAddYMInterval": exp.Add,
    "DatetimeSub": exp.Sub,
    "SubtractTimestamps": exp.Sub,
    "SubtractDates": exp.Sub,
}
_OPERATORS: dict[str, type[exp.Binary]] = {
    **_COMPARISONS,
    **_ARITHMETIC,
    "And": exp.And,
    "Or": exp.Or,
    "BitwiseAnd": exp.BitwiseAnd,
    "BitwiseOr": exp.BitwiseOr,
    "BitwiseXor": exp.BitwiseXor,
    "Like": exp.Like,  # the JSON has no escape character; with another one than the default, the proof fails
}
_UNARY: dict[str, type[exp.Unary]] = {"Not": exp.Not, "UnaryMinus": exp.Neg, "BitwiseNot": exp.BitwiseNot}
_COERCED = frozenset((*_COMPARISONS, *_ARITHMETIC, "In", "Between", "Coalesce", "Greatest", "Least"))
"""Spark casts the operands of these to one type, if they have several."""

_FUNCTION, _SUBQUERY = "a function of yours is not written as SQL", "a subquery is not written as SQL"
_SEEDED = "a random function above a join has other values in another plan, even with a seed"
_NO_SQL = {
    **dict.fromkeys(("Rand", "Randn", "RandStr", "Shuffle", "Uniform", "Uuid"), _SEEDED),
    **dict.fromkeys(("PythonUDF", "PythonUDAF", "ScalaUDF", "ScalaAggregator"), _FUNCTION),
    **dict.fromkeys(("InSubquery", "ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"), _SUBQUERY),
}


@dataclass(frozen=True)
class ExpressionWriter:
    """Writes expressions; ``columns``: the column of a FROM by the ID of an attribute.

    ``coerced``: leave out casts that Spark adds itself.  ``jvm_zone``: the zone in which the JVM writes timestamps.
    ``names``: the functions of classes.  ``left_out``: the casts that were left out, as they are.
    """

    columns: Mapping[int, exp.Expression]
    coerced: bool
    jvm_zone: str
    names: FunctionNames
    left_out: list[Catalyst] = field(default_factory=list)

    def tree(self, node: Catalyst) -> exp.Expression:
        """Write an expression.  Raises ``Refused``."""
        if reason := _NO_SQL.get(node.name):
            raise Refused(reason)
        if special := _SPECIAL.get(node.name):
            return special(self, node)
        if unary := _UNARY.get(node.name):
            return unary(this=self.tree(node.child))
        children = node.parameters() or node.children
        if kind := _OPERATORS.get(node.name):
            left, right = self._operands(node, children)
            return kind(this=left, expression=right)  # type: ignore[return-value]
        name, arguments = self.names.find(node.name), self._operands(node, children)
        if name.upper() in VOLATILE:
            raise Refused(f"{name}() could have another value in another plan")
        if otherwise := OTHER_ARGUMENTS.get(node.name):
            name, arguments = otherwise(name, node, arguments)
        return self._call(name, arguments)

    def _operands(self, node: Catalyst, children: tuple[Catalyst, ...]) -> list[exp.Expression]:
        casts = [child for child in children if child.name == "Cast"] if self.coerced and node.name in _COERCED else []
        self.left_out.extend(casts)
        return [self.tree(child.child if child in casts else child) for child in children]

    @staticmethod
    def _call(name: str, arguments: list[exp.Expression]) -> exp.Expression:
        return exp.Anonymous(this=name, expressions=arguments)

    def _attribute(self, node: Catalyst) -> exp.Expression:
        if node.id not in self.columns:
            raise Refused(f"the column {node.fields['name']} is of no relation of the join")
        return self.columns[node.id].copy()

    def _literal(self, node: Catalyst) -> exp.Expression:
        text = literal_sql(node.fields["value"], node.fields["dataType"], self.jvm_zone)
        try:
            return parse(text).copy()
        except Unsupported as error:
            raise Refused(f"the literal {text} is not written as SQL") from error

    def _cast(self, node: Catalyst) -> exp.Expression:
        return exp.Cast(this=self.tree(node.child), to=data_type(type_sql(node.fields["dataType"])))

    def _is_null(self, node: Catalyst) -> exp.Expression:
        null = exp.Is(this=self.tree(node.child), expression=exp.Null())
        return null if node.name == "IsNull" else exp.Not(this=null)

    def _in(self, node: Catalyst) -> exp.Expression:
        value, *found = self._operands(node, node.children)
        return exp.In(this=value, expressions=found)

    def _between(self, node: Catalyst) -> exp.Expression:
        # In a self-join Spark gives new IDs to what Between is replaced by, and not to its own operands.
        both, definition = node.child.children
        operands = (definition.child, *(comparison.children[1] for comparison in both.children))
        value, low, high = self._operands(node, operands)
        return exp.Between(this=value, low=low, high=high)

    def _case(self, node: Catalyst) -> exp.Expression:
        return case_when([self.tree(child) for child in node.children])

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
        """Write a date with days added; Spark takes the days of an interval out of it."""
        date, days = node.children
        if days.name != "ExtractANSIIntervalDays":
            return self._call("date_add" if node.name == "DateAdd" else "date_sub", self._operands(node, node.children))
        kind = exp.Add if node.name == "DateAdd" else exp.Sub
        return kind(this=self.tree(date), expression=self.tree(days.child))

    def _with_unit(self, node: Catalyst) -> exp.Expression:
        unit = exp.var(str(node.fields["unit"]))
        name = "timestampdiff" if node.name == "TimestampDiff" else "timestampadd"
        return self._call(name, [unit, *map(self.tree, node.children)])

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


_SPECIAL: dict[str, Callable[[ExpressionWriter, Catalyst], exp.Expression]] = {
    "AttributeReference": ExpressionWriter._attribute,
    "Literal": ExpressionWriter._literal,
    "Cast": ExpressionWriter._cast,
    "Alias": lambda writer, node: writer.tree(node.child),
    "IsNull": ExpressionWriter._is_null,
    "IsNotNull": ExpressionWriter._is_null,
    "In": ExpressionWriter._in,
    "Between": ExpressionWriter._between,
    "CaseWhen": ExpressionWriter._case,
    "AggregateExpression": ExpressionWriter._aggregate,
    "GetStructField": ExpressionWriter._field,
    "GetArrayItem": ExpressionWriter._item,
    "GetMapValue": ExpressionWriter._item,
    "DateAdd": ExpressionWriter._days,
    "DateSub": ExpressionWriter._days,
    "TimestampDiff": ExpressionWriter._with_unit,
    "TimestampAdd": ExpressionWriter._with_unit,
    "LambdaFunction": ExpressionWriter._lambda,
    "NamedLambdaVariable": ExpressionWriter._variable,
    "WindowExpression": write_window,
}
