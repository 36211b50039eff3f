"""Recognizes CTEs whose readers filter by different constants: ``FROM m a JOIN m b … WHERE a.month = 1 AND …``."""

from __future__ import annotations

from dataclasses import replace

from planner.errors import Refused
from planner.logical import Cte, With
from planner.logical.self_join import SharedGroups
from rules.context import Context
from rules.rule import rule
from rules.shared_scan.shared_groups import grouped
from rules.shared_scan.shared_uses import uses_of


@rule(With)
def shared_groups(statement: With, ctx: Context) -> With | None:
    """Aggregate a CTE once for all the relations that read it under different constants.

    Each reader keeps its own constants, as filters above the shared groups.  Spark then sees identical subtrees and
    reuses one exchange for all of them.
    """
    definitions = tuple(_shared(cte, statement, ctx) for cte in statement.definitions)
    return replace(statement, definitions=definitions) if definitions != statement.definitions else None


def _shared(cte: Cte, statement: With, ctx: Context) -> Cte:
    try:
        uses = uses_of(cte, statement, ctx)
        if not uses or not all(use.constants for use in uses):
            return cte
        found = grouped(cte.query, uses, ctx)
        if found is None:
            return cte
    except Refused as no:
        ctx.decline(f"{cte.name} is aggregated once for each of its readers: {no}")
        return cte
    description = f"{cte.name}: one for {len(uses)} relations that read it"
    shared = SharedGroups(cte.query, found.query, description, found.relations, found.keys, found.constants)
    return replace(cte, query=shared)
