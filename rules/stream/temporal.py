"""Temporal joins of streams: each row of one stream matches the version of another that is valid at its time.

    FROM payments p JOIN rates FOR SYSTEM_TIME AS OF p.paid AS r ON p.currency = r.currency

A row is *final* when the watermark reaches its time: no version that is valid at this time can arrive any more.  It
waits until then, and is answered once, by a statement over the final rows and all versions.

    SELECT … FROM final AS p
    JOIN (SELECT r.*, lead(since) OVER (PARTITION BY currency ORDER BY since) AS __dt_until
          FROM curr AS r LEFT SEMI JOIN final AS p ON p.currency = r.currency) AS r
    ON p.currency = r.currency AND p.paid >= r.since AND p.paid < r.__dt_until

The semi join selects the versions of the keys of final rows; in an epoch these are few.

All later rows have times above the watermark.  So a version expires when the watermark reaches a newer one of its key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from dovetail.planner.band.axis import Axis
from dovetail.planner.catalog.declared import Versions
from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import Scalar, quote
from dovetail.planner.logical import JOIN_KEYWORDS, Cte, Derived, Join, Logical, Project, Scan
from dovetail.planner.logical.placeholder import alias_of as suffix_of
from dovetail.planner.logical.versions import LAST
from dovetail.planner.sql.to_sql import to_sql
from dovetail.planner.state.bounds import Bound
from dovetail.planner.state.program import EpochProgram, Probe, Read, Step, Version
from dovetail.planner.state.spec import AsOf, StreamJoin
from dovetail.planner.tree import transform_up
from dovetail.planner.types.schema import sql_type
from dovetail.rules.analysis.same_source import base_value
from dovetail.rules.context import Context
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.query.operands import as_operand
from dovetail.rules.query.query_block import where
from dovetail.rules.query.version_keys import missing_keys, why_missing
from dovetail.rules.stream.changelogs import expand_items
from dovetail.rules.stream.expiry import Expiry
from dovetail.rules.stream.reader import Reader
from dovetail.rules.stream.relations import Find, Relation, check_block, relation_of
from dovetail.rules.stream.stream_blocks import Shape, alias_of, scan_of, shape_of, with_names

_UNTIL = "__dt_until"
_AT_ONCE = -(2**63)
_KINDS = ("inner", "cross", "left", "semi", "anti")


@dataclass(frozen=True)
class Versioned:
    """A stream of versions in a query, with FOR SYSTEM_TIME AS OF: its scan, and its declaration."""

    scan: Scan
    versions: Versions
    expired: bool

    @property
    def name(self) -> str:
        """The name of the stream, as written in the query."""
        return self.scan.text


def versioned_stream(query: Logical, ctx: Context, find: Find) -> Versioned | None:
    """Return the first stream that a query joins by version; None if there is none.

    ``find`` returns the stream behind a name.
    """
    for scan in (n for n in query.walk() if isinstance(n, Scan) and n.as_of is not None and not n.cte):
        declared = ctx.catalog.declaration(scan.name)
        if declared.versions and find(scan.name):
            return Versioned(scan, declared.versions, declared.expired)
    return None


def temporal_stream_join(text: str, query: Logical, versioned: Versioned, ctx: Context, find: Find) -> StreamJoin:
    """Read a query that joins a stream with the versions of another.

    Raises ``Refused`` with the reason for any other query.
    """
    ctx.definitions.update({n.key: n for n in query.walk() if isinstance(n, Cte)})
    scan = versioned.scan
    if versioned.expired:
        raise Refused(f"{versioned.name} changed after declare_versions(); call declare_versions() again")
    plain = replace(scan, suffix=suffix_of(scan), plain=True, as_of=None)
    query = with_names(query, ctx)
    shape = _shape(query, scan)
    shape = replace(shape, relations=(shape.relations[0], plain))
    read = [relation_of(n, relation, ctx, find) for n, relation in enumerate(shape.relations)]
    if read[0] is None:
        name = alias_of(shape.relations[0])
        raise Refused(
            f"{name} is no stream; join a table with versions in opt.sql(), where {versioned.name} is a table as well"
        )
    relations = tuple(r for r in read if r)
    check_block(shape, ctx)
    _check_streams(relations, versioned)
    columns = ctx.catalog.columns(scan.name) or ()
    join = Join(shape.relations[0], plain, shape.kind, JOIN_KEYWORDS[shape.kind], shape.on)
    if missing := missing_keys(join, versioned.versions, columns, ctx.names):
        raise Refused(why_missing(missing, versioned.versions, versioned.name, alias_of(scan)))
    without_time = to_sql(transform_up(query, lambda n: plain if n is scan else n))
    reader = _AsOfReader(text, shape, relations, versioned, ctx)
    return replace(reader.read(), as_of=AsOf(reader.time, without_time))


def _shape(query: Logical, scan: Scan) -> Shape:
    """Read the query as a join with the versions on its right.  Raises ``Refused``."""
    for join in (n for n in query.walk() if isinstance(n, Join) and n.right is scan):
        if join.kind not in _KINDS or join.using or join.natural:
            kind = "a join with USING" if join.using else f"a {join.keyword.upper()}"
            raise Refused(f"{kind} cannot join with versions; write JOIN or LEFT JOIN … ON")
    shape = shape_of(query)
    if isinstance(shape, str):
        raise Refused(shape)
    if len(shape.relations) > 2:
        raise Refused("it joins more than two relations; join two, write the result, and join that with the third")
    if shape.relations[1] is not scan:
        raise Refused(f"{scan.text} does not stand to the right of JOIN or LEFT JOIN")
    return shape


def _check_streams(relations: tuple[Relation, ...], versioned: Versioned) -> None:
    """Raise ``Refused`` unless both streams have watermarks that make rows final."""
    since = versioned.versions.valid_from
    for relation, column in zip(relations, (None, since), strict=True):
        stream = relation.stream
        if stream.change:
            raise Refused(
                f"{relation.name} is a changelog, and versions are joined with inserts only; join a stream without "
                "deletes and updates"
            )
        if stream.event_time is None:
            watermark = f"withWatermark({f'{column!r}' if column else 'its time'}, …)"
            raise Refused(f"{relation.name} has no watermark, so no row ever becomes final; read it with {watermark}")
    versions = relations[1].stream
    if versions.event_time != since:
        raise Refused(
            f"the watermark of {versioned.name} is on {versions.event_time}, and its versions begin at {since}; "
            f"read it with withWatermark({since!r}, …)"
        )
    for relation in relations:
        name, type_ = relation.stream.event_time, relation.stream.time
        if sql_type(type_).name != "timestamp":
            raise Refused(f"the watermark of {relation.name} is on {name}, which is {type_} and no TIMESTAMP")


class _AsOfReader(Reader):
    """Builds the specification of a join with versions."""

    def __init__(self, text: str, shape: Shape, relations: tuple[Relation, ...], versioned: Versioned, ctx: Context):
        super().__init__(text, shape, relations, ctx, ())
        self.inputs = (0, 1)  # the sides expire differently, even if they are one stream
        self.versioned = versioned
        declared = (*versioned.versions.key, versioned.versions.valid_from)
        self.base = tuple(base_value(column, ctx.names) for column in declared)
        shown = [relations[1].read.output_name(value) for value in self.base]
        self.version_columns = tuple(name for name in shown if name)
        if len(self.version_columns) != len(declared):
            raise Refused(
                f"{versioned.name} does not return the key and the time of its versions; select them in its view"
            )
        self.time_name = self._time()
        self.time = f"{quote(alias_of(relations[0].node))}.{quote(self.time_name)}"

    def read(self) -> StreamJoin:
        rows = [self._rows(r) for r in self.relations]
        sides = [self._side(r, rows[n]) for n, r in enumerate(self.relations)]
        final = self._final()
        probed, versions = self._inputs(sides, [[], []], [final, Expiry()])
        declared = self.versioned.versions.key
        key = tuple(c.name for c in versions.columns if self.ctx.names.is_among(c.name, declared))
        return StreamJoin(
            self.text,
            self.shape.kind,
            (probed, replace(versions, key=key)),
            tuple(sides),
            (),
            EpochProgram((self._step(),)),
            (final.position, ""),
            tuple(c.shown for c in self.keys),
            self.shape.condition,
            self._meaning(),
        )

    def _bounds(self) -> tuple[Bound, ...]:
        """Return no bounds: versions are found by the statement, and are replaced by newer ones."""
        return ()

    def _time(self) -> str:
        """Return the column of the first side by whose time versions are joined.  Raises ``Refused``."""
        time, relation = self.versioned.scan.as_of, self.relations[0]
        assert time is not None
        event = relation.stream.event_time or ""
        try:
            tree = time.tree.unnest()
            ticks = relation.over_base(time.text) == base_value(event, self.ctx.names)
            if ticks and isinstance(tree, exp.Column):
                return relation.scope.column(tree).column.name
        except Refused as no:
            raise Refused(f"{time.shown}: {no}") from no
        raise Refused(f"{time.shown} is not the time of {relation.name} that its watermark is on; write {event} there")

    def _wanted(self) -> set[tuple[int, str]] | None:
        """Return the columns that the query names, and those by which versions are found."""
        wanted = super()._wanted()
        time, *version = self.ctx.names.folded((self.time_name, *self.version_columns))
        return None if wanted is None else {*wanted, (0, time), *((1, name) for name in version)}

    def _rows(self, relation: Relation) -> list[str]:
        """Return the filters of a side; versions need a key and a time alone, since each ends the one before it."""
        if relation.number == 1:
            return [f"{column} IS NOT NULL" for column in self.base]
        rows = super()._rows(relation)
        if self.shape.preserved:
            return rows
        return list(dict.fromkeys((*rows, f"{as_operand(relation.over_base(self.time))} IS NOT NULL")))

    def _final(self) -> Expiry:
        """Return when a row is final: when the watermark reaches its time, or at once if it can match no version."""
        probed = self.relations[0]
        type_, description = sql_type(probed.stream.time), probed.over_base(self.time)
        position = probed.over_base(Axis(type_.name, exact=True).position(self.time, type_))
        if not self.shape.preserved:
            return Expiry(position, description)
        missing = [f"{position} IS NULL", *(f"NOT coalesce({c}, false)" for c in self._about(0, self.shape.on))]
        at_once = " OR ".join(dict.fromkeys(missing))
        return Expiry(f"CASE WHEN {at_once} THEN CAST({_AT_ONCE} AS BIGINT) ELSE {position} END", description)

    def _step(self) -> Step:
        """Write the query over final rows and the validity of all versions."""
        probes, versions = (alias_of(r.node) for r in self.relations)
        final, every = Read(Version.FINAL, 0), Read(Version.ALL, 1)
        kind, left, right = self.shape.kind, scan_of(final, probes), scan_of(every, versions)
        since, until = f"{quote(versions)}.{quote(self.version_columns[-1])}", f"{quote(versions)}.{_UNTIL}"
        on = (*self.shape.on, Scalar(f"{self.time} >= {since}"), Scalar(f"{self.time} < {until}"))
        tree = Join(left, self._validity(left, right), kind, JOIN_KEYWORDS[kind], on)
        project = self.shape.block.project
        scope = self.relations[0].scope if kind in ("semi", "anti") else self.scope
        items = expand_items(project.items, scope, [None] * len(scope.sources))
        flow = Probe(final, every, kind, self.shape.condition, time=self.time)
        return Step(flow, to_sql(self.shape.block.over(where(tree, self.shape.where), items=items)))

    def _validity(self, probes: Scan, versions: Scan) -> Derived:
        """Return the versions of the keys of final rows, each with the time at which the next one of its key begins."""
        *key, since = map(quote, self.version_columns)
        until = f"lead({since}) OVER (PARTITION BY {', '.join(key)} ORDER BY {since})"
        until = f"CAST(coalesce({until}, {LAST}) AS TIMESTAMP_LTZ)"
        name = alias_of(versions)
        needed: Logical = versions
        if on := tuple(c for c in self.keys if self._of_key(c)):
            needed = Join(needed, probes, "semi", JOIN_KEYWORDS["semi"], on)
        items = Scalar(f"{quote(name)}.*"), Scalar(f"{until} AS {_UNTIL}")
        return Derived(Project(needed, items), name, (), f"AS {quote(name)}")

    def _of_key(self, conjunct: Scalar) -> bool:
        """Whether a condition holds for all versions of a key or for none."""
        try:
            check_deterministic(conjunct)
        except Unsupported:
            return False
        found = (c for c in self.scope.bind(conjunct).columns if self.scope.item(c) == 1)
        return {c.name for c in found} <= set(self.ctx.names.folded(self.version_columns[:-1]))
