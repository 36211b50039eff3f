"""The relations that a statement carries over from a plan of Spark Connect: a view of each, and its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dovetail.executor.connect.names import Attribute, Scope, name_parts
from dovetail.executor.connect.plan import RelationNode
from dovetail.executor.frame_sql.query_blocks import Aliases, Rows, different, new_view_name, scan_view

_PASS_ROWS = (  # relations that return columns of what is below them, with its alias
    *("filter", "sort", "limit", "offset", "tail", "sample", "deduplicate", "repartition", "hint", "project"),
    *("repartition_by_expression", "with_columns", "drop", "drop_na"),
)


@dataclass(frozen=True)
class Carried:
    """A relation that is a view of the statement; ``names``: other names of its columns, where two have the same."""

    node: RelationNode
    names: tuple[str, ...] | None


@dataclass
class CarriedRelations:
    """Scans of relations; ``views``: the relation of each view.

    ``names``: the names of the columns of each relation, by its identity.  ``new_id``: returns the number of a column.
    """

    names: Mapping[bytes, Sequence[str]]
    aliases: Aliases
    fold: Callable[[str], str]
    new_id: Callable[[], int]
    views: dict[str, Carried] = field(default_factory=dict)

    def scan(self, node: RelationNode, alias: str) -> tuple[Rows, Scope]:
        """Carry a relation: a view of its rows, with columns of different names."""
        own = list(self.names[node.identity])
        qualifier = _qualifier(node)
        alias = self.aliases.new(alias or (qualifier[-1] if qualifier else ""))
        names = different(own)
        view = self._view(node, tuple(names) if names != own else None, alias)
        plans: dict[int, int] = {}
        for part, depth in node.walk():
            if part.plan_id is not None:
                plans[part.plan_id] = min(depth, plans.get(part.plan_id, depth))
        attributes = [Attribute(self.new_id(), name, qualifier, plans) for name in own]
        rows = scan_view(view, alias, {a.id: name for a, name in zip(attributes, names, strict=True)})
        return rows, Scope(tuple(attributes), self.fold)

    def _view(self, node: RelationNode, names: tuple[str, ...] | None, alias: str) -> str:
        """Return the name of the view of a relation: one for all that return the same rows."""
        for view, carried in self.views.items():
            if carried.node.identity == node.identity:
                return view
        view = new_view_name(alias)
        self.views[view] = Carried(node, names)
        return view


def _qualifier(node: RelationNode) -> tuple[str, ...]:
    """Return the alias of the columns of a relation, or the name of its table; empty if there is none."""
    while node.name in _PASS_ROWS and len(node.children) == 1:
        node = node.child
    if node.name == "subquery_alias":
        return (str(node.operator.alias),)
    if node.name == "read" and node.operator.WhichOneof("read_type") == "named_table":
        return name_parts(node.operator.named_table.unparsed_identifier)
    return ()
