"""The columns of a FROM tree: the order of ``*``, and the columns that USING and NATURAL merge.

a JOIN b USING (id)         *: id, then a's others, then b's; id is a.id; b.id needs its qualifier
a RIGHT JOIN b USING (id)   id is b.id
a FULL JOIN b USING (id)    id is coalesce(a.id, b.id), a column of neither
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.planner.bind.names import Resolver, Source
from dovetail.planner.errors import UnknownName
from dovetail.planner.logical import Join, LateralView, Nested
from dovetail.planner.logical.nearest_syntax import AsofJoin, NearestSyntax
from dovetail.planner.logical.self_join import HiddenRelation
from dovetail.planner.tree import Node, unwrap
from dovetail.planner.types.schema import Column


@dataclass(frozen=True)
class ShownColumn:
    """A column of ``*``: the number of its relation in the scope, and its name."""

    source: int
    name: str


@dataclass(frozen=True)
class FromColumns:
    """The relations of a FROM tree with their columns, and the columns of ``*`` in order (None: not known).

    ``merged`` are the columns of ``*`` that USING or NATURAL made of several.  One of a FULL JOIN is in a relation of
    its own, without a name.  ``hidden`` are the others that went into them, and need a qualifier; the latest first.
    """

    sources: tuple[Source, ...]
    star: tuple[ShownColumn, ...] | None
    merged: tuple[ShownColumn, ...] = ()
    hidden: tuple[ShownColumn, ...] = ()

    @property
    def known_star(self) -> tuple[ShownColumn, ...]:
        """The columns of ``*`` in order.  Raises ``UnknownName`` where those of a relation are not known."""
        for source in self.sources if self.star is None else ():
            source.known_columns()
        return self.star or ()


def from_columns(names: Resolver, plan: Node) -> FromColumns:
    """The columns of a FROM tree.  Raises ``UnknownName`` where a merged column cannot be found."""
    node = unwrap(plan)
    if isinstance(node, Nested) and not node.alias:
        return from_columns(names, node.child)
    if isinstance(node, LateralView):
        child = from_columns(names, node.child)
        return _beside(child, _leaf(names.sources(plan)[-1:]))
    if isinstance(node, HiddenRelation):
        return FromColumns(names.sources(plan), ())
    if not isinstance(node, Join | NearestSyntax):
        return _leaf(names.sources(plan))
    left, kind = from_columns(names, node.left), node.kind
    using = node.using if isinstance(node, Join | AsofJoin) else ()
    natural = isinstance(node, Join) and node.natural
    if kind in ("semi", "anti") and not using and not natural:
        return left
    right = from_columns(names, node.right)
    if not using and not natural:
        return _beside(left, right)
    merged = _merged(names, left, right, kind, using or _common(names, left, right))
    return merged if kind not in ("semi", "anti") else _left_of(merged, len(left.sources))


def _leaf(sources: tuple[Source, ...]) -> FromColumns:
    if any(source.columns is None for source in sources):
        return FromColumns(sources, None)
    star = tuple(ShownColumn(n, column.name) for n, source in enumerate(sources) for column in source.columns or ())
    return FromColumns(sources, star)


def _beside(left: FromColumns, right: FromColumns) -> FromColumns:
    def moved(columns: tuple[ShownColumn, ...]) -> tuple[ShownColumn, ...]:
        return tuple(replace(column, source=column.source + len(left.sources)) for column in columns)

    star = None if left.star is None or right.star is None else (*left.star, *moved(right.star))
    merged, hidden = (*left.merged, *moved(right.merged)), (*left.hidden, *moved(right.hidden))
    return FromColumns((*left.sources, *right.sources), star, merged, hidden)


def _common(names: Resolver, left: FromColumns, right: FromColumns) -> tuple[str, ...]:
    """The columns that NATURAL compares, in the order of the left side."""
    theirs = names.folded(column.name for column in right.known_star)
    return tuple(column.name for column in left.known_star if names.fold(column.name) in theirs)


def _merged(names: Resolver, left: FromColumns, right: FromColumns, kind: str, using: tuple[str, ...]) -> FromColumns:
    both = _beside(left, right)
    sources = list(both.sources)
    first: list[ShownColumn] = []
    hidden: list[list[ShownColumn]] = [[], []]
    gone: set[ShownColumn] = set()
    width = len(left.sources)
    for text in using:
        name = names.fold(bare(text))
        ends = [shown_column(names, side, text) for side in (left, right)]
        ends[1] = replace(ends[1], source=ends[1].source + width)
        gone |= set(ends)
        kept = {"full": None, "right": ends[1]}.get(kind, ends[0])
        for end, others in zip(ends, hidden, strict=True):
            if end != kept:
                others.append(end)
                source = sources[end.source]
                sources[end.source] = replace(source, qualified_only=source.qualified_only | {name})
        if kept is None:
            types = {_column(sources[end.source], end.name).type for end in ends}
            column = Column(ends[0].name, types.pop() if len(types) == 1 else None)
            sources.append(Source((), (column,), case=names.catalog.settings))
            kept = ShownColumn(len(sources) - 1, ends[0].name)
        first.append(kept)
    star = both.star and (*first, *(column for column in both.star if column not in gone))
    merged = (*first, *(column for column in both.merged if column not in gone))
    return FromColumns(tuple(sources), star, merged, (*hidden[0], *hidden[1], *both.hidden))


def _left_of(both: FromColumns, width: int) -> FromColumns:
    """What a semi or anti join shows of both sides: the left one, its merged columns first."""
    lists = (both.star, both.merged, both.hidden)
    star, merged, hidden = (tuple(c for c in columns or () if c.source < width) for columns in lists)
    return FromColumns(both.sources[:width], None if both.star is None else star, merged, hidden)


def shown_column(names: Resolver, side: FromColumns, using: str) -> ShownColumn:
    """The column of one side that USING means: the first of that name that ``*`` shows.  Raises ``UnknownName``."""
    found = next((column for column in side.known_star if names.is_same(column.name, bare(using))), None)
    if found is None:
        raise UnknownName(f"{using} in USING is not a column of both sides")
    return found


def using_reference(names: Resolver, side: FromColumns, using: str) -> str:
    """SQL for the column of one side that USING means: the name alone, unless another column has it too."""
    column = shown_column(names, side, using)
    same = [c for c in side.star or () if names.is_same(c.name, bare(using))]
    relation = side.sources[column.source]
    return using if len(same) == 1 else relation.reference(column.name)


def _column(source: Source, name: str) -> Column:
    return next(c for c in source.columns or () if c.name == name)


def bare(name: str) -> str:
    """A name without its backquotes."""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
