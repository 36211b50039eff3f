"""Reads an expression of Spark Connect's protocol as a tree of sqlglot, which prints its own parentheses.

A function that is no operator is written as a call of its name.  A name that is bound to the wrong column does no harm:
Spark reads what was written, and the plan must be the one that it was written from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from dovetail.executor.connect.literals import check_text, proto_literal_sql, proto_type_sql
from dovetail.executor.connect.names import Attribute, Attributes, name_parts
from dovetail.executor.connect.plan import check_fields, enum_name
from dovetail.executor.connect.windows import read_lambda, read_variable, read_window
from dovetail.executor.frame_sql.calls import FUNCTION, SUBQUERY, call, other_value
from dovetail.executor.frame_sql.literals import literal_tree
from dovetail.executor.frame_sql.query_blocks import Trees
from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import column_ref, columns_in, is_star, parse
from dovetail.planner.expr.calls import repeated_otherwise
from dovetail.planner.expr.dialect import data_type

_NAME = re.compile(r"[A-Za-z_]\w*|==|=|<=>|<=|>=|[<>+*/%&|^!~-]")
_NO_SQL = {
    "common_inline_user_defined_function": FUNCTION,
    "typed_aggregate_expression": FUNCTION,
    "call_function": FUNCTION,
    "subquery_expression": SUBQUERY,
}
_NOT_READ: dict[type[exp.Expr], str] = {
    exp.Query: SUBQUERY,
    exp.Exists: SUBQUERY,
    exp.Lambda: "a lambda function is not written as SQL",
    exp.Parameter: "a parameter is not written as SQL",
    exp.Placeholder: "a parameter is not written as SQL",
    exp.Alias: "an alias inside of an expression is not written as SQL",
    exp.Aliases: "an expression of several columns is not written as SQL",
}


@dataclass(frozen=True)
class SelectItem:
    """An item of a select list; ``name``: None if Spark makes one; ``attribute``: the column that it is, or None."""

    tree: exp.Expression
    name: str | None
    attribute: Attribute | None = None


@dataclass(frozen=True)
class ProtoExpressionReader:
    """Reads expressions over the columns of an operator; ``trees``: what each is in FROM, by its ID."""

    columns: Attributes
    trees: Trees

    def tree(self, message: Any) -> exp.Expression:
        """Read an expression.  Raises ``Refused``."""
        kind = str(message.WhichOneof("expr_type"))
        if reason := _NO_SQL.get(kind):
            raise Refused(reason)
        if kind not in _KINDS:
            raise Refused(f"an expression of the kind {kind.replace('_', ' ')} is not written as SQL")
        return _KINDS[kind](self, getattr(message, kind))

    def items(self, message: Any) -> list[SelectItem]:
        """Read an item of a select list; a star is several.  Raises ``Refused``."""
        kind = str(message.WhichOneof("expr_type"))
        found: Any = getattr(message, kind, None)
        if kind == "unresolved_star":
            check_fields(found, "a star", "unparsed_target", "plan_id")
            target = found.unparsed_target.removesuffix(".*") if found.HasField("unparsed_target") else ""
            return self._star(name_parts(target) if target else (), plan_id_of(found))
        if kind == "alias":
            check_fields(found, "an alias", "expr", "name")
            if len(found.name) != 1:
                raise Refused("an expression of several columns is not written as SQL")
            return [SelectItem(self.tree(found.expr), str(found.name[0]))]
        if kind == "unresolved_attribute":
            self._check_attribute(found)
            parts = name_parts(found.unparsed_identifier)
            return [self._column_item(parts, plan_id_of(found))]
        if kind == "expression_string":
            return self._string_items(found.expression)
        return [SelectItem(self.tree(message), None)]

    def _string_items(self, text: str) -> list[SelectItem]:
        tree = _parsed(text)
        if is_star(tree):
            if not isinstance(tree, exp.Column) and tree.args:
                raise Refused("a star with EXCEPT or REPLACE is not written as SQL")
            return self._star(tuple(p.name for p in tree.parts[:-1]) if isinstance(tree, exp.Column) else (), None)
        if isinstance(tree, exp.Alias):
            return [SelectItem(self._bound(tree.this), tree.alias)]
        if isinstance(tree, exp.Column | exp.Dot) and list(columns_in(tree)) == [tree]:
            return [self._column_item(column_parts(tree), None)]
        return [SelectItem(self._bound(tree), None)]

    def _star(self, qualifier: tuple[str, ...], plan_id: int | None) -> list[SelectItem]:
        return [SelectItem(self.trees[a.id].copy(), a.name, a) for a in self.columns.star(qualifier, plan_id)]

    def _column_item(self, parts: tuple[str, ...], plan_id: int | None) -> SelectItem:
        """Read a column, which is called as the item has it."""
        attribute, fields = self.columns.find_parts(parts, plan_id)
        return SelectItem(self._of(attribute, fields), parts[-1], None if fields else attribute)

    def _of(self, attribute: Attribute, fields: Sequence[str]) -> exp.Expression:
        tree = self.trees[attribute.id].copy()
        for name in fields:
            tree = exp.Dot(this=tree, expression=exp.to_identifier(name, quoted=True))
        return tree

    def _check_attribute(self, message: Any) -> None:
        check_fields(message, "a column", "unparsed_identifier", "plan_id", "is_metadata_column")
        if message.is_metadata_column:
            raise Refused("a metadata column is not written as SQL")

    def _attribute(self, message: Any) -> exp.Expression:
        self._check_attribute(message)
        return self._of(*self.columns.find(message.unparsed_identifier, plan_id_of(message)))

    def _literal(self, message: Any) -> exp.Expression:
        return literal_tree(proto_literal_sql(message))

    def _string(self, message: Any) -> exp.Expression:
        return self._bound(_parsed(message.expression))

    def _bound(self, tree: exp.Expression) -> exp.Expression:
        """Bind the columns of an expression that was parsed."""
        for node in tree.walk():
            for kind, reason in _NOT_READ.items():
                if isinstance(node, kind):
                    raise Refused(reason)
            if isinstance(node, exp.Literal) and node.is_string:
                check_text(node.this)
        if volatile := repeated_otherwise(tree):
            raise other_value(str(volatile.this))
        if is_star(tree):
            raise Refused("a star in an expression is not written as SQL")
        root = tree.copy()
        for column in list(columns_in(root)):
            if is_star(column):
                continue  # count(*)
            bound = self._of(*self.columns.find_parts(column_parts(column)))
            if column is root:
                return bound
            column.replace(bound)
        return root

    def _alias(self, message: Any) -> exp.Expression:
        check_fields(message, "an alias", "expr", "name", "metadata")
        return self.tree(message.expr)

    def _cast(self, message: Any) -> exp.Expression:
        check_fields(message, "a cast", "expr", "type", "type_str", "eval_mode")
        mode = enum_name(message, "eval_mode") if message.eval_mode else ""
        if mode not in ("", "EVAL_MODE_TRY"):
            raise Refused(f"a cast with {mode} is not written as SQL")
        text = message.type_str or proto_type_sql(message.type)
        try:
            type_ = data_type(text)
        except Exception as error:  # what sqlglot raises for a type that it does not read
            raise Refused(f"the type {text} is not written as SQL") from error
        return (exp.TryCast if mode else exp.Cast)(this=self.tree(message.expr), to=type_)

    def _field(self, message: Any) -> exp.Expression:
        """Read a field, an element or a value of a map; which of them, Spark decides by the type."""
        check_fields(message, "a field", "child", "extraction")
        container, extraction = self.tree(message.child), message.extraction
        literal = extraction.literal if extraction.WhichOneof("expr_type") == "literal" else None
        if literal is not None and literal.WhichOneof("literal_type") == "string" and isinstance(container, exp.Column):
            return exp.Dot(this=container, expression=exp.to_identifier(literal.string, quoted=True))
        return exp.Bracket(this=container, expressions=[self.tree(extraction)])

    def _function(self, message: Any) -> exp.Expression:
        check_fields(message, "a function", "function_name", "arguments", "is_distinct", "is_internal")
        name = str(message.function_name)
        if getattr(message, "is_internal", False) or not _NAME.fullmatch(name):
            raise Refused(f"the function {name} is not written as SQL")
        star = [a.WhichOneof("expr_type") == "unresolved_star" for a in message.arguments]
        if name == "count" and star == [True]:
            return exp.Anonymous(this=name, expressions=[exp.Star()])
        arguments = [self.tree(argument) for argument in message.arguments]
        return call(name, [exp.Distinct(expressions=arguments)] if message.is_distinct else arguments)


_KINDS: dict[str, Callable[[ProtoExpressionReader, Any], exp.Expression]] = {
    "literal": ProtoExpressionReader._literal,
    "unresolved_attribute": ProtoExpressionReader._attribute,
    "unresolved_function": ProtoExpressionReader._function,
    "unresolved_extract_value": ProtoExpressionReader._field,
    "expression_string": ProtoExpressionReader._string,
    "alias": ProtoExpressionReader._alias,
    "cast": ProtoExpressionReader._cast,
    "window": lambda reader, message: read_window(reader.tree, message),
    "lambda_function": lambda reader, message: read_lambda(reader.tree, message),
    "unresolved_named_lambda_variable": lambda _, message: read_variable(message),
}


def plan_id_of(message: Any) -> int | None:
    """Return the number of the operator whose column or columns these are, if they are of one."""
    return int(message.plan_id) if message.HasField("plan_id") else None


def column_parts(tree: exp.Expression) -> tuple[str, ...]:
    """Return the names in a column that was parsed, from the outermost in.  Raises ``Refused``."""
    try:
        return column_ref(tree).parts
    except Unsupported as error:
        raise Refused(str(error)) from error


def _parsed(text: str) -> exp.Expression:
    try:
        return parse(text)
    except Unsupported as error:
        raise Refused(f"the expression {text} is not read: {error}") from error
