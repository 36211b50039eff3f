"""The query that a relation in FROM stands for."""

from planner.logical import Derived, Logical, Scan
from rules.rule import Context


def query_of(relation: Logical, ctx: Context) -> Logical | None:
    """The query of a subquery in FROM, or of a name that WITH defines; None for anything else, also a sample of it."""
    if isinstance(relation, Derived) and not relation.lateral:
        return relation.query
    if isinstance(relation, Scan) and relation.plain and relation.cte in ctx.definitions:
        return ctx.definitions[relation.cte].query
    return None
