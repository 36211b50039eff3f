"""Whether the values of an expression fit a type: after a cast, and after arithmetic."""

from __future__ import annotations

from sqlglot import exp

from dovetail.planner.expr import without_parentheses
from dovetail.planner.types.literals import literal_number
from dovetail.planner.types.schema import INTEGRAL, SqlType

_LARGEST = {"tinyint": 2**7 - 1, "smallint": 2**15 - 1, "int": 2**31 - 1, "bigint": 2**63 - 1}
_MOST_DIGITS = 38  # of a decimal
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}  # of the largest number, or of the smallest


def holds(wide: SqlType | None, type_: SqlType) -> bool:
    """Whether a cast from one type to another never raises."""
    if wide is None or type_.name == "void":
        return wide is not None
    if wide.name == "decimal" and type_.name in (*_DIGITS, "decimal"):
        whole, scale = (_DIGITS.get(type_.name, type_.precision - type_.scale), type_.scale)
        return wide.scale >= scale and wide.precision - wide.scale >= whole
    if type_.integral and wide.integral:
        return INTEGRAL.index(wide.name) >= INTEGRAL.index(type_.name)
    if wide.name in ("float", "double"):
        return type_.numeric
    return type_ == wide or (wide.text == "string" and (type_.numeric or type_.temporal))


def fits(tree: exp.Expression, left: SqlType | None, right: SqlType | None) -> bool:
    """Whether a sum or a product never overflows: it is a DOUBLE or FLOAT, or a DECIMAL whose type has all digits."""
    if left and right and (left.approximate or right.approximate) and not isinstance(tree, exp.Div):
        return True
    operands = [t for t in (left, right) if t is not None and t.exact_numeric]
    if len(operands) < 2 or isinstance(tree, exp.Div) or all(t.integral for t in operands):
        return False
    (whole, scale), (other, other_scale) = (t.digits for t in operands)
    if isinstance(tree, exp.Mul):
        return whole + other + scale + other_scale + 1 <= _MOST_DIGITS
    return max(whole, other) + max(scale, other_scale) + 1 <= _MOST_DIGITS


def remains(tree: exp.Expression, wide: SqlType | None) -> bool:
    """Whether a number is what remains of a division by a literal, and of this type in any case: ``x % 50``."""
    tree = without_parentheses(tree)
    if not isinstance(tree, exp.Mod) or wide is None or not wide.integral:
        return False
    number = literal_number(tree.expression)
    return number is not None and -_LARGEST[wide.name] <= number <= _LARGEST[wide.name] and number != 0
