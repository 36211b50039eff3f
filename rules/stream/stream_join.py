"""Reads a query as a join of streams on state modules: its statements in each epoch, and its stored rows.

A symmetric join of A and B returns, in each epoch, what is new of A with all of B, and what is new of B with what A
had before (Hydroflow's half-joins; each pair once, by happens-before).  A join of a stream with itself does the same
over one state (KIP-862), whatever filters, columns and band either side has.

An inner join of more streams is a delta join: what is new of each looks up the others (``delta_blocks.py``).  There a
row is stored until no later row of the others can match it.

An outer or anti join returns a row without a match when the watermark excludes later matches.  Only then is the row
compared with the other side, which therefore stores its rows until all rows that they match are final.

    FROM a LEFT JOIN b ON a.b_id = b.id JOIN c ON b.k = c.k       without a match b.k is NULL, and equals nothing
    FROM a JOIN b ON a.b_id = b.id JOIN c ON b.k = c.k

Optimizers call it outer join elimination (Galindo-Legaria and Rosenthal, 1997).  Spark does it, too, but not before
state modules have read the query.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import JOIN_KEYWORDS, Cte, Join, Logical, Scan
from dovetail.planner.sql.to_sql import to_sql
from dovetail.planner.state.bounds import equalities
from dovetail.planner.state.spec import StreamJoin
from dovetail.planner.tree import transform_up
from dovetail.rules.context import Context
from dovetail.rules.query.from_items import INNER, read_from_items
from dovetail.rules.query.hinted import hintable_names
from dovetail.rules.query.query_block import read_block
from dovetail.rules.stream.changelogs import changes_refusal, check_alone, find_change_column, without_changes
from dovetail.rules.stream.left_joins import left_shape
from dovetail.rules.stream.reader import Reader
from dovetail.rules.stream.relations import Find, Relation, check_block, relation_of
from dovetail.rules.stream.stream_blocks import Shape, shape_of, with_names


def stream_join(
    text: str, query: Logical, ctx: Context, find: Find, stored_row_counts: tuple[int, ...] = ()
) -> StreamJoin | None:
    """Read a query as a join of streams; None where it joins none.

    ``find`` returns the stream behind a name.  ``stored_row_counts``: the rows of each input in the state, if there is
    one; they decide the order of the lookups of a delta join.  Raises ``Refused`` with the reason if state modules do
    not run the query.
    """
    nodes = list(query.walk())
    ctx.definitions.update({n.key: n for n in nodes if isinstance(n, Cte)})
    streams = [s for n in nodes if isinstance(n, Scan) and not n.cte and (s := find(n.name))]
    changes = [s.change for s in streams]
    if Join not in map(type, nodes) or len(streams) < (1 if ctx.definitions else 2):
        check_alone(query, changes, ctx.names)
        return None
    query = with_names(query, ctx)
    if any(changes):
        query = outer_to_inner(query, ctx)
        shape = left_shape(query, ctx) or shape_of(query)
    else:
        shape = shape_of(query)
    if isinstance(shape, str):
        raise Refused(shape)
    read = [relation_of(n, relation, ctx, find) for n, relation in enumerate(shape.relations)]
    relations = tuple(filter(None, read))
    changes = [r.stream.change for r in relations]
    if len(relations) < 2:  # a stream with tables: no state
        check_alone(query, changes, ctx.names)
        return None
    if len(relations) < len(read):
        raise _no_stream(shape.relations[read.index(None)])
    check_block(shape, ctx)
    if any(changes):
        project, shape = shape.block.project, _over_changes(shape, relations, ctx)
        text = to_sql(transform_up(query, lambda n: shape.block.project if n is project else n))
    return Reader(text, shape, relations, ctx, stored_row_counts).read()


def _no_stream(relation: Logical) -> Refused:
    table = ".".join(next(hintable_names(relation), ())) or "one of its relations"
    return Refused(
        f"{table} is no stream, and state modules join streams only; join it to the result, or use opt.sql()"
    )


def _over_changes(shape: Shape, relations: tuple[Relation, ...], ctx: Context) -> Shape:
    """Remove the columns of the kind of change from the query.  Raises ``Refused``, ``Unsupported``."""
    if no := changes_refusal(shape, ((r.name, r.stream) for r in relations)):
        raise Refused(no)
    found = ((r.number, find_change_column(r.read, r.stream.change, ctx.names)) for r in relations if r.stream.change)
    hidden = {number: name for number, name in found if name}
    return without_changes(shape, ctx.scope(*(r.node for r in relations)), hidden)


def outer_to_inner(query: Logical, ctx: Context) -> Logical:
    """Return a query of one SELECT with inner joins for the outer ones whose unmatched rows are dropped."""
    while join := _without_unmatched_rows(query, ctx):
        inner = replace(join, kind="inner", keyword=JOIN_KEYWORDS["inner"])
        query = _replaced(query, join, inner)
    return query


def _replaced(query: Logical, old: Join, new: Join) -> Logical:
    return transform_up(query, lambda node: new if node is old else node)  # type: ignore[return-value]


def _without_unmatched_rows(query: Logical, ctx: Context) -> Join | None:
    """Find an outer join of whose rows without a match none is left."""
    block = read_block(query)
    if block is None:
        return None
    from_items = read_from_items(block.tree, INNER | {"left", "right"})
    if not from_items.outer:
        return None
    scope = ctx.scope(*from_items.relations)
    dropped = {
        scope.item(found)
        for conjunct in (*from_items.conjuncts, *block.condition)
        for column in _compared_columns(conjunct)
        if (found := scope.find(column))
    }
    optional = [item.relation for item in from_items.outer if item.number in dropped]
    for node in block.tree.walk():
        if isinstance(node, Join) and any(
            relation is (node.left if node.kind == "right" else node.right) for relation in optional
        ):
            return node
    return None


def _compared_columns(conjunct: Scalar) -> list[exp.Column]:
    """Return the columns that an equality compares as they are: with NULL in one of them it does not hold."""
    operands = [operand.unnest() for operand in equalities(conjunct) or ()]
    return [operand for operand in operands if isinstance(operand, exp.Column)]
