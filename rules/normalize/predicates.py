"""One form for conditions: ``ON (a.k = b.k AND NOT (b.x < a.lo OR b.x > a.hi))`` is three conjuncts."""

from dataclasses import replace

from planner.conditions.normal_form import normal_form
from planner.errors import NotCarried
from planner.logical import Filter, Join, Logical
from rules.query.counted import as_exists
from rules.rule import Context, rule


@rule(Join, Filter, streams="one")
def predicates(node: Join | Filter, ctx: Context) -> Logical | None:
    """Bring a condition into one form: conjuncts without parentheses, NOT pushed in, common parts of an OR taken out.

    Later rules meet one spelling of what can be said in many.  What is printed is still the condition as written, where
    no rule has taken it apart.
    """
    if not node.condition or (isinstance(node, Filter) and node.clause == "QUALIFY"):
        return None
    try:
        condition = normal_form(node.condition)
        if isinstance(node, Filter) and node.clause == "WHERE" and any(c.plans for c in condition):
            condition = tuple(as_exists(c, node.child, ctx.definitions) for c in condition)
    except NotCarried:
        return None
    if condition == node.condition:
        return None
    if condition:
        return replace(node, condition=condition)
    if isinstance(node, Filter) and node.clause == "WHERE":  # HAVING TRUE makes one group of all rows
        return node.child
    return None
