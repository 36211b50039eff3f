"""A join of a stream with the versions of another: each row meets the version that is valid at its time.

    FROM payments p JOIN rates FOR SYSTEM_TIME AS OF p.paid AS r ON p.currency = r.currency

A row is *final* once the watermark has reached its time: no version that is valid at it can come any more.  It waits
until then, and is answered once, by the statement over the final rows and all versions; so there are no pairs to find.

    SELECT … FROM final AS p
    JOIN (SELECT r.*, lead(since) OVER (PARTITION BY currency ORDER BY since) AS __dt_until
          FROM curr AS r LEFT SEMI JOIN final AS p ON p.currency = r.currency) AS r
    ON p.currency = r.currency AND p.paid >= r.since AND p.paid < r.__dt_until

The semi join leaves the versions of keys that are asked for; in an epoch that is a small part of them.

All rows that still arrive have times above the watermark.  So a version is needed no more once a newer one of its key
is at or below the watermark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from planner.band.axis import Axis
from planner.catalog.declared import Versions
from planner.errors import Unsupported
from planner.expr import Scalar, column_ref, quote, sql
from planner.logical import JOIN_KEYWORDS, Cte, Derived, Join, Logical, Project, Scan
from planner.logical.stand_in import alias_of as suffix_of
from planner.logical.versions import LAST
from planner.sql.names import Unresolved
from planner.sql.to_sql import to_sql
from planner.state.bounds import Bound
from planner.state.spec import AsOf, Blocks, StreamJoin, view
from planner.tree import transform_up
from planner.types.schema import sql_type
from rules.context import Context
from rules.query.inner_joins import in_block, where
from rules.query.moving import check_deterministic
from rules.query.operands import as_operand
from rules.query.version_keys import missing_keys, why_missing
from rules.stream.changelogs import spelt_out
from rules.stream.expiry import Expiry
from rules.stream.reader import Reader
from rules.stream.relations import Find, Relation, check_block, relation_of
from rules.stream.stream_blocks import NotTaken, Shape, alias_of, shape_of

_UNTIL = "__dt_until"
_AT_ONCE = -(2**63)
_KINDS = ("inner", "cross", "left", "semi", "anti")


@dataclass(frozen=True)
class Versioned:
    """A stream of versions in a query, as of a time: where it stands, and what was declared of it."""

    scan: Scan
    versions: Versions
    lapsed: bool

    @property
    def name(self) -> str:
        """Its name, as it is written."""
        return self.scan.text


def versioned_stream(query: Logical, ctx: Context, find: Find) -> Versioned | None:
    """The first stream whose versions a query asks for; None where it asks for none.

    ``find`` tells of a table by name whether it is a stream.
    """
    for scan in (n for n in query.walk() if isinstance(n, Scan) and n.as_of is not None and not n.cte):
        declared = ctx.catalog.declaration(scan.name)
        if declared.versions and find(scan.name):
            return Versioned(scan, declared.versions, declared.lapsed)
    return None


def temporal_stream_join(text: str, query: Logical, asked: Versioned, ctx: Context, find: Find) -> StreamJoin:
    """Read a query that joins a stream with the versions of another.

    Raises ``NotTaken``, ``Unresolved`` or ``Unsupported`` with the reason where it is anything else.
    """
    ctx.definitions.update({n.key: n for n in query.walk() if isinstance(n, Cte)})
    scan = asked.scan
    if asked.lapsed:
        raise NotTaken(f"{asked.name} is not what it was when its versions were declared; declare them again")
    plain = replace(scan, suffix=suffix_of(scan), plain=True, as_of=None)
    shape = _shape(query, scan, ctx)
    shape = replace(shape, relations=(shape.relations[0], plain), inner=None)
    read = [relation_of(n, relation, ctx, find) for n, relation in enumerate(shape.relations)]
    if read[0] is None:
        name = alias_of(shape.relations[0])
        raise NotTaken(f"{name} is no stream; a table meets versions in a batch, where {asked.name} is a table as well")
    relations = tuple(r for r in read if r)
    check_block(shape)
    _check_streams(relations, asked)
    columns = ctx.catalog.columns(scan.name) or ()
    join = Join(shape.relations[0], plain, shape.kind, JOIN_KEYWORDS[shape.kind], shape.on)
    if missing := missing_keys(join, asked.versions, columns, ctx.names):
        raise NotTaken(why_missing(missing, asked.versions, asked.name, alias_of(scan)))
    said = to_sql(transform_up(query, lambda n: plain if n is scan else n))
    return _AsOfReader(text, said, shape, relations, asked, ctx).read()


def _shape(query: Logical, scan: Scan, ctx: Context) -> Shape:
    """The query as a join with the versions on its right.  Raises ``NotTaken``."""
    for join in (n for n in query.walk() if isinstance(n, Join) and n.right is scan):
        if join.kind not in _KINDS or join.using or join.natural:
            kind = "a join with USING" if join.using else f"a {join.keyword.upper()}"
            raise NotTaken(f"{kind} cannot join with versions; write JOIN or LEFT JOIN … ON")
    shape = shape_of(query, ctx.names)
    if isinstance(shape, str):
        raise NotTaken(shape)
    if len(shape.relations) > 2:
        raise NotTaken("it joins more than two relations; join two, and what that has written with the third")
    if shape.relations[1] is not scan:
        raise NotTaken(f"{scan.text} does not stand to the right of JOIN or LEFT JOIN")
    return shape


def _check_streams(relations: tuple[Relation, ...], asked: Versioned) -> None:
    """Raise ``NotTaken`` unless both streams say by their watermarks when a row is final."""
    since = asked.versions.valid_from
    for relation, column in zip(relations, (None, since), strict=True):
        stream = relation.stream
        if stream.change:
            raise NotTaken(f"{relation.name} is a changelog, and a change of a row has no place among versions")
        if stream.event_time is None:
            watermark = f"withWatermark({f'{column!r}' if column else 'its time'}, …)"
            raise NotTaken(f"{relation.name} has no watermark, and so no row is ever final; read it with {watermark}")
    versions = relations[1].stream
    if versions.event_time != since:
        raise NotTaken(
            f"the watermark of {asked.name} is on {versions.event_time}, and its versions begin at {since}; "
            f"read it with withWatermark({since!r}, …)"
        )
    for relation in relations:
        name, type_ = relation.stream.event_time, relation.stream.time
        if sql_type(type_).name != "timestamp":
            raise NotTaken(f"the watermark of {relation.name} is on {name}, which is {type_} and no TIMESTAMP")


class _AsOfReader(Reader):
    """Puts together what a join with versions needs; ``plain`` is the query without its time."""

    def __init__(
        self, text: str, plain: str, shape: Shape, relations: tuple[Relation, ...], asked: Versioned, ctx: Context
    ):
        super().__init__(text, shape, relations, ctx, ())
        self.inputs = (0, 1)  # what leaves of the one is not what leaves of the other, even of one stream
        self.plain, self.asked = plain, asked
        fold, read = ctx.names.fold, relations[1].read
        own = (*asked.versions.key, asked.versions.valid_from)
        self.base = tuple(sql(exp.column(fold(c), quoted=True)) for c in own)
        shown = [read.named(value) for value in self.base]
        self.own = tuple(name for name in shown if name)
        if len(self.own) != len(own):
            raise NotTaken(f"{asked.name} does not show the key and the time of its versions")
        self.time_name = self._time()
        self.time = f"{quote(alias_of(relations[0].node))}.{quote(self.time_name)}"

    def read(self) -> StreamJoin:
        rows = [self._rows(r) for r in self.relations]
        sides = [self._side(r, rows[n]) for n, r in enumerate(self.relations)]
        final = self._final()
        probed, versions = self._inputs(sides, [[], []], [final, Expiry()])
        fold = self.ctx.names.fold
        own = [fold(column) for column in self.asked.versions.key]
        key = tuple(c.name for c in versions.columns if fold(c.name) in own)
        return StreamJoin(
            self.text,
            self.shape.kind,
            (probed, replace(versions, key=key)),
            tuple(sides),
            (),
            Blocks((), (), ("", ""), (self._statement(), "")),
            (final.position, ""),
            tuple(c.shown for c in self.keys),
            " AND ".join(c.shown for c in (*self.shape.on, *self.shape.where)),
            self._meaning(),
            as_of=AsOf(self.time, self.plain),
        )

    def _bounds(self) -> tuple[Bound, ...]:
        """None: versions are found by the statement, and leave as newer ones come."""
        return ()

    def _time(self) -> str:
        """The column of the first side at whose time versions are asked for.  Raises ``NotTaken``."""
        said, relation = self.asked.scan.as_of, self.relations[0]
        assert said is not None
        event = relation.stream.event_time or ""
        try:
            tree = said.tree.unnest()
            ticks = self._over_base(said.text, 0) == sql(exp.column(self.ctx.names.fold(event), quoted=True))
            if ticks and isinstance(tree, exp.Column):
                return self.ctx.names.resolve(column_ref(tree), self.sources[0])[1].name
        except (Unresolved, Unsupported) as no:
            raise NotTaken(f"{said.shown}: {no}") from no
        raise NotTaken(f"{said.shown} is not the time of {relation.name} that its watermark is on, {event}")

    def _wanted(self) -> set[tuple[int, str]] | None:
        """Also the columns by which versions are found."""
        wanted, fold = super()._wanted(), self.ctx.names.fold
        if wanted is None:
            return None
        return {*wanted, (0, fold(self.time_name)), *((1, fold(name)) for name in self.own)}

    def _rows(self, relation: Relation) -> list[str]:
        """Of versions all that have a key and a time, since each ends another, whatever is asked of it."""
        if relation.number == 1:
            return [f"{column} IS NOT NULL" for column in self.base]
        rows = super()._rows(relation)
        if self.shape.lone:
            return rows
        return list(dict.fromkeys((*rows, f"{as_operand(self._over_base(self.time, 0))} IS NOT NULL")))

    def _final(self) -> Expiry:
        """When a row has its answer: once the watermark has reached its time, or at once if it can match nothing."""
        type_, said = sql_type(self.relations[0].stream.time), self._over_base(self.time, 0)
        position = self._over_base(Axis(type_.name, exact=True).position(self.time, type_), 0)
        if not self.shape.lone:
            return Expiry(position, said)
        missing = [f"{position} IS NULL", *(f"NOT coalesce({c}, false)" for c in self._about(0, self.shape.on))]
        at_once = " OR ".join(dict.fromkeys(missing))
        return Expiry(f"CASE WHEN {at_once} THEN CAST({_AT_ONCE} AS BIGINT) ELSE {position} END", said)

    def _statement(self) -> str:
        """The query over rows that are final and the validity of all versions."""
        probes, versions = (alias_of(r.node) for r in self.relations)
        left = _version("final", 0, probes)
        since, until = f"{quote(versions)}.{quote(self.own[-1])}", f"{quote(versions)}.{_UNTIL}"
        on = (*self.shape.on, Scalar(f"{self.time} >= {since}"), Scalar(f"{self.time} < {until}"))
        tree = Join(left, self._validity(left, versions), self.shape.kind, JOIN_KEYWORDS[self.shape.kind], on)
        project = self.shape.block.project
        sources = self.sources[0] if self.shape.kind in ("semi", "anti") else self.flat
        items = spelt_out(project.items, sources, [None] * len(sources), self.ctx.names)
        return to_sql(in_block(replace(project, items=items), where(tree, self.shape.where)))

    def _validity(self, probes: Scan, name: str) -> Derived:
        """The versions of keys that are asked for, each with the time at which the next one of its key begins."""
        *key, since = map(quote, self.own)
        until = f"lead({since}) OVER (PARTITION BY {', '.join(key)} ORDER BY {since})"
        until = f"CAST(coalesce({until}, {LAST}) AS TIMESTAMP_LTZ)"
        needed: Logical = _version("curr", 1, name)
        if on := tuple(c for c in self.keys if self._of_key(c)):
            needed = Join(needed, probes, "semi", JOIN_KEYWORDS["semi"], on)
        items = Scalar(f"{quote(name)}.*"), Scalar(f"{until} AS {_UNTIL}")
        return Derived(Project(needed, items), name, (), f"AS {quote(name)}")

    def _of_key(self, conjunct: Scalar) -> bool:
        """Whether a condition says of a version no more than of all versions of its key."""
        names, fold = self.ctx.names, self.ctx.names.fold
        try:
            check_deterministic(conjunct)
        except Unsupported:
            return False
        found = [names.resolve(column, self.flat) for column in conjunct.columns]
        return {fold(c.name) for index, c in found if self.owner[index] == 1} <= {fold(name) for name in self.own[:-1]}


def _version(version: str, side: int, name: str) -> Scan:
    """A version of a side as a relation, under the name of that side."""
    return Scan((view(version, side),), view(version, side), name, (), f"AS {quote(name)}")
