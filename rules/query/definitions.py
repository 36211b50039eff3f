"""Looks up the query that a relation in FROM refers to."""

from dovetail.planner.logical import Derived, Logical, Opaque, Scan, Verbatim
from dovetail.rules.context import Context


def definition_of(relation: Logical, ctx: Context) -> Logical | None:
    """The query of a subquery in FROM, or of a name that WITH defines; None for anything else, also a sample of it."""
    if isinstance(relation, Derived) and not relation.lateral:
        return relation.query
    if isinstance(relation, Scan) and relation.plain and relation.cte in ctx.definitions:
        query = ctx.definitions[relation.cte].query
        return query if _means_the_same(query, ctx) else None
    return None


def _means_the_same(query: Logical, ctx: Context) -> bool:
    """Whether a definition reads the same tables in any place: no later WITH redefines the name of one of them."""
    for node in query.walk():
        if isinstance(node, Opaque | Verbatim):
            return False
        if isinstance(node, Scan) and not node.cte and ctx.names.defines(node.name[-1:]):
            return False
    names = ctx.names.folded(definition.name for definition in ctx.definitions.values())
    return len(set(names)) == len(names)
