"""The operands of comparisons as values that keys are hashed from."""

from __future__ import annotations

from sqlglot import exp

from dovetail.planner.band.linear import ConditionScope, speculative
from dovetail.planner.errors import Refused
from dovetail.planner.expr import sql
from dovetail.planner.expr.calls import unknown


def key_value(tree: exp.Expression, cast: str, scope: ConditionScope) -> str:
    """An operand as SQL that can be computed for any row of its side, cast to a common type if there is one.

    Raises ``Refused`` for an operand that may be volatile, or that calls a user's function.
    """
    if call := unknown(tree):
        raise Refused(f"{sql(call)} is not a function of Spark")
    value = speculative(tree, scope)
    text = f"({sql(value)})" if isinstance(value, exp.Connector | exp.Not | exp.Predicate) else sql(value)
    return cast_to(text, cast)


def cast_to(text: str, cast: str) -> str:
    """A value as the common type of a comparison; NULL where it has no value of that type."""
    return f"TRY_CAST({text} AS {cast})" if cast else text
