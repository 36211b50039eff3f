"""A join that needs only the nearest rows of its right side: the last before a time, the first after it, or both.

    trades t JOIN quotes q ON q.sym = t.sym AND q.ts <= t.ts        every earlier quote of each trade
    of which the query uses the last:  row_number() … ORDER BY q.ts DESC = 1,  max_by(q.price, q.ts)

(DuckDB, Snowflake and kdb+ call it an as-of join.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dovetail.planner.expr import Scalar, quote
from dovetail.planner.expr.substitution import operand
from dovetail.planner.logical.alternatives import Alternatives
from dovetail.planner.logical.base import Logical
from dovetail.planner.logical.joins import EqualKey, Join, JoinKind, RecognizedJoin
from dovetail.planner.logical.nearest_syntax import AsofJoin, NearestByJoin, NearestSyntax
from dovetail.planner.tree import plan_node
from dovetail.planner.types.schema import Column, SqlType

Direction = Literal["backward", "forward", "both"]
Difference = Literal["number", "date", "timestamp", ""]
NEAREST_TIME = "__dt_nearest_time"  # the time of the match, in an expression over the left side
NEAREST_OTHER = "__dt_nearest_other"  # what the time is compared with, in a form of a tolerance


@dataclass(frozen=True)
class Tolerance:
    """How far the nearest row may be: ``time sign bound``, with an expression over the left row.

    ``other``: an expression over the left row whose difference from the time is compared instead: ``other - time``, or
    ``time - other`` where the time is ``later``.
    ``value``: an expression over the right row that is compared instead of its time; ``endless``: NULL passes.
    ``form``: what is computed of both and compared, an expression over ``NEAREST_TIME`` and ``NEAREST_OTHER``.
    """

    other: str
    later: bool
    sign: str
    bound: str
    value: str = ""
    endless: bool = False
    form: str = ""

    def show(self, time: str) -> str:
        """The condition with a time, or the value, in its place."""
        if self.form:
            text = self.form.replace(NEAREST_TIME, time).replace(NEAREST_OTHER, operand(self.other))
            return f"{text} {self.sign} {operand(self.bound)}"
        if not self.other:
            text = f"{time} {self.sign} {operand(self.bound)}"
            return f"({text} OR {time} IS NULL)" if self.endless else text
        first, second = (time, operand(self.other)) if self.later else (operand(self.other), time)
        return f"{first} - {second} {self.sign} {operand(self.bound)}"


@dataclass(frozen=True)
class TieBreak:
    """A sort key over the right side, and how it is sorted, so that the last of tied rows is the nearest."""

    text: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class ShownRelation:
    """A relation of the join: its name, and those of its columns that the query uses.

    ``values``: the expressions that are its columns, where it is a subquery; otherwise they are columns of that name.
    Over the right side, or over the left side and ``NEAREST_TIME``.
    ``hidden``: whether no ``*`` shows it.
    ``match``: a relation of the right side.  Its columns travel instead of ``values``, which are computed above the
    join, over both rows.
    """

    name: str
    columns: tuple[Column, ...]
    values: tuple[str, ...] = ()
    hidden: bool = False
    match: ShownRelation | None = None

    @property
    def carried(self) -> ShownRelation:
        """The relation whose columns travel with the rows."""
        return self.match or self

    @property
    def expressions(self) -> tuple[str, ...]:
        """The expression of each column over the side that the relation is of."""
        return self.values or tuple(f"{quote(self.name)}.{quote(column.name)}" for column in self.columns)


@dataclass(frozen=True)
class Nearest:
    """Which right rows are the nearest to a left row.

    ``times``: the left and the right expression that are compared.  ``direction``: backward is the last right row that
    is not after the left time, forward the first that is not before it; with ``strict``, an equal time does not count.
    ``count``: so many rows, one behind the other.  Where the direction is both, so many before and after the left time;
    then a right row without a time may be one of them, and with ``nulls_first`` comes before all others.
    ``complete``: no ranking above the join chooses among these, so it returns ``count`` rows of them itself.
    ``nullable``: to Spark, all columns may be NULL above the join.
    ``time_type``: the type of both times, if it is known.
    ``ties``: how right rows of one time are sorted, the nearest last.
    ``filters``: conditions on the left and on the right side alone.  ``left`` and ``right`` are their relations.
    ``kept``: conditions that WHERE tests above the join: other left rows are in no result.
    """

    times: tuple[str, str]
    direction: Direction
    strict: bool
    keys: tuple[EqualKey, ...]
    ties: tuple[TieBreak, ...]
    tolerances: tuple[Tolerance, ...]
    filters: tuple[tuple[Scalar, ...], tuple[Scalar, ...]]
    left: tuple[ShownRelation, ...]
    right: tuple[ShownRelation, ...]
    kept: tuple[Scalar, ...] = ()
    count: int = 1
    nulls_first: bool = False
    complete: bool = False
    nullable: bool = False
    time_type: SqlType | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """The SQL of all that decides which rows are the nearest."""
        keys = (text for key in self.keys for text in (key.left, key.right))
        tolerances = (text for one in self.tolerances for text in (one.other, one.bound, one.value, one.form))
        filters = (scalar.text for side in (*self.filters, self.kept) for scalar in side)
        return (*self.times, *keys, *(tie.text for tie in self.ties), *tolerances, *filters)

    @property
    def sorts(self) -> int:
        """How often both sides are sorted: once for the rows on either side, and for those that only ties sort."""
        return 3 if self.direction == "both" and self.ties else 1

    @property
    def difference(self) -> Difference:
        """What is subtracted to find the nearer of two right rows; empty where that could raise an error."""
        if self.time_type is None:
            return ""
        if self.time_type.numeric:
            return "number"
        return {"date": "date", "timestamp": "timestamp"}.get(self.time_type.name, "")  # type: ignore[return-value]

    def __str__(self) -> str:
        left, right = self.times
        many = f" {self.count}" if self.count > 1 else ""
        equal = [f"{k.left} {'<=>' if k.null_safe else '='} {k.right}" for k in self.keys]
        own = [c.shown for side in self.filters for c in side]
        near = [one.show(operand(one.value) if one.value else right) for one in self.tolerances]
        if self.direction == "both":
            match = f"the nearest{many} by {right} and {left}"
        else:
            which, sign = ("the last", "<") if self.direction == "backward" else ("the first", ">")
            match = f"{which}{many} with {right} {sign if self.strict else sign + '='} {left}"
        kept = [f"where {c.shown}" for c in self.kept]
        return ", ".join([match, *equal, *own, *near, *kept])


@plan_node
class NearestJoin(RecognizedJoin):
    """An inner or left join of which only the pairs of each left row with its nearest right rows count.

    ``match`` is the MATCH_CONDITION of an as-of join, and ``using`` its USING; behind the words ``by`` of NEAREST BY it
    is the ranking expression; without it this is a plain join.
    ``foreign``: whether Spark cannot run it as written.  ``certain``: another node has chosen it already.
    ``turned``: written as a right join, with the right side first; ``*`` shows its columns first.
    """

    left: Logical
    right: Logical
    kind: JoinKind
    keyword: str
    condition: tuple[Scalar, ...]
    nearest: Nearest
    comma: Literal["", "left", "last"] = ""
    match: Scalar | None = None
    using: tuple[str, ...] = ()
    by: str = ""
    foreign: bool = False
    certain: bool = False
    turned: bool = False

    @property
    def plain(self) -> Join | NearestSyntax:
        if self.turned:
            return Join(self.right, self.left, "right", self.keyword, self.condition)
        if self.match is None:
            return Join(self.left, self.right, self.kind, self.keyword, self.condition, comma=self.comma)
        kind: Literal["inner", "left"] = "left" if self.kind == "left" else "inner"
        if self.by:
            return NearestByJoin(self.left, self.right, kind, self.keyword, self.match, self.by, self.nearest.count)
        return AsofJoin(self.left, self.right, kind, self.keyword, self.match, self.condition, self.using)

    @property
    def detail(self) -> str:
        return f"{self.kind}, {self.nearest}"


@dataclass(frozen=True)
class Joins:
    """The joins that a block could have instead of subqueries; no part of the plan."""

    found: tuple[NearestJoin, ...]


@plan_node
class NearestSubquery(Alternatives):
    """``other`` joins the nearest rows that subqueries of ``written`` pick with ORDER BY and LIMIT, or aggregate."""

    joins: Joins


@plan_node
class NearestVersions(Alternatives):
    """``other`` joins the last version that is not after a time; ``written`` compares all versions of a key."""

    joins: Joins


@plan_node
class NearestTies(Alternatives):
    """``other`` joins the right rows of the nearest time, of which a ranking of ``written`` keeps those that tie."""

    joins: Joins
