"""Joins of two streams that state modules take: what each epoch asks, and what has to be kept for it.

A symmetric join of A and B returns, in each epoch, what is new of A with all of B, and what is new of B with what A
had before (Hydroflow's half-joins; each pair once, by happens-before).  A join of a stream with itself does the same
over one state (KIP-862), whatever filters, columns and band either side has.

An inner join of more streams is a delta join: what is new of each looks up the others (``delta_blocks.py``).  There a
row is kept until nothing that still arrives on any of the others can match it.

A row that an outer or anti join returns by itself is returned once the watermark says that nothing can match it any
more.  Whether something did is asked then; so the other side keeps its rows until all that they match are final.
"""

from __future__ import annotations

from planner.logical import Cte, Join, Logical, Scan
from planner.sql.to_sql import to_sql
from planner.state.spec import StreamJoin
from planner.tree import transform_up
from rules.context import Context
from rules.query.hinted import hintable_names
from rules.stream.changelogs import check_alone, hidden_in, why_not, without_changes
from rules.stream.left_joins import left_shape
from rules.stream.reader import Reader
from rules.stream.relations import Find, Relation, check_block, relation_of
from rules.stream.stream_blocks import NotTaken, Shape, shape_of


def stream_join(text: str, query: Logical, ctx: Context, find: Find, kept: tuple[int, ...] = ()) -> StreamJoin | None:
    """Read a query as a join of streams; None where it joins none.

    ``find`` tells of a table by name whether it is a stream; ``kept``, if anything is, how many rows of each input the
    state has, by which the lookups of a delta join are ordered.  Raises ``NotTaken``, ``Unresolved`` or ``Unsupported``
    with the reason where state modules do not take it.
    """
    ctx.definitions.update({n.key: n for n in query.walk() if isinstance(n, Cte)})
    named = [n for n in query.walk() if isinstance(n, Scan) and not n.cte and find(n.name)]
    if not any(isinstance(n, Join) for n in query.walk()) or len(named) < (1 if ctx.definitions else 2):
        check_alone(query, [s.change for n in named if (s := find(n.name))], ctx.names)
        return None
    changes = any(s.change for n in named if (s := find(n.name)))
    shape = (left_shape(query, ctx) if changes else None) or shape_of(query, ctx.names)
    if isinstance(shape, str):
        raise NotTaken(shape)
    read = [relation_of(n, relation, ctx, find) for n, relation in enumerate(shape.relations)]
    relations = tuple(r for r in read if r)
    if len(relations) < 2:  # a stream with tables: nothing is kept
        check_alone(query, [r.stream.change for r in relations], ctx.names)
        return None
    if len(relations) < len(read):
        table = ".".join(next(hintable_names(shape.relations[read.index(None)]), ())) or "one of its relations"
        raise NotTaken(f"{table} is no stream, and beside two streams or more state modules take no tables")
    check_block(shape)
    if any(r.stream.change for r in relations):
        project, shape = shape.block.project, _over_changes(shape, relations, ctx)
        text = to_sql(transform_up(query, lambda n: shape.block.project if n is project else n))
    return Reader(text, shape, relations, ctx, kept).read()


def _over_changes(shape: Shape, relations: tuple[Relation, ...], ctx: Context) -> Shape:
    """The query without the columns that say how rows change.  Raises ``NotTaken``, ``Unsupported``."""
    if no := why_not(shape, ((r.name, r.stream) for r in relations)):
        raise NotTaken(no)
    found = ((r.number, hidden_in(r.read, r.stream.change, ctx.names)) for r in relations if r.stream.change)
    hidden = {number: name for number, name in found if name}
    sources = [(n, source) for n, r in enumerate(relations) for source in ctx.names.sources(r.node)]
    return without_changes(shape, [s for _, s in sources], [n for n, _ in sources], hidden, ctx.names)
