"""Aggregates over window frames: counts and sums of the rows within a band of each row, as columns of its relation.

Spark scans a frame with two moving ends again for every row.  A count or an exact sum is instead the difference of two
frames that only grow, so that its cost does not depend on the number of rows in the band:

    count(*) OVER (… UNBOUNDED PRECEDING AND CURRENT ROW) - count(*) OVER (… UNBOUNDED PRECEDING AND 601 PRECEDING)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dovetail.planner.band.offsets import Offsets
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, quote
from dovetail.planner.expr.aggregate_calls import Call
from dovetail.planner.logical import Derived, Filter, Logical, Project, Windows
from dovetail.planner.types.schema import SqlType
from dovetail.planner.types.typed import known_type
from dovetail.rules.window.self_band import Pair, SelfBand

_MOST_DIGITS = 28  # of a decimal that is added up: Spark's sum has ten more


@dataclass
class FrameAggregates:
    """The columns that the row's relation gets.

    ``nulls``: rows to which nothing belongs stay, so that their totals have to be NULL.  ``rescans_frame``: one of the
    columns reads all rows of a frame again for each row.
    """

    pair: Pair
    band: SelfBand
    nulls: bool
    windows: dict[str, str] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    rescans_frame: bool = False

    def argument(self, call: Call) -> str:
        """What a call aggregates of the rows in the band, over the row; empty for ``count(*)``.  Raises ``Refused``."""
        if call.argument is None:
            return ""
        if self.pair.side(call.argument.tree) != "right":
            raise Refused(f"{call.text} uses more than the rows in the band")
        if call.distinct and call.function not in ("min", "max"):
            raise Refused(f"{call.text}: DISTINCT needs the rows themselves")
        return self.pair.over_row(call.argument)

    def type_of(self, argument: str) -> SqlType:
        """The type of such an argument.  Raises ``Refused`` where it is not known."""
        return known_type(self.pair.type_of(argument), argument)

    def count(self, argument: str = "") -> str:
        """How many rows belong, or how many with a value; NULL where none can."""
        return self._column("n", self._count(argument))

    def sum(self, argument: str, type_: SqlType) -> tuple[str, str]:
        """The sum of a value and its type as Spark adds it up; of a BIGINT's, the difference of two is a DECIMAL."""
        if type_.integral:
            wide = f"CAST({argument} AS DECIMAL(38,0))" if type_.name == "bigint" and self._differs else argument
            return self._column("s", self._sum(wide, argument)), "BIGINT"
        if type_.name == "decimal" and type_.precision <= _MOST_DIGITS:
            sum_ = f"DECIMAL({type_.precision + 10},{type_.scale})"
            text = self._sum(argument, argument)
            return self._column("s", f"CAST({text} AS {sum_})" if self._differs else text), sum_
        if type_.approximate:
            return self._column("s", self._whole("sum", argument)), "DOUBLE"
        raise Refused(f"sum({argument}): sums of {type_} may overflow")

    def mean(self, argument: str, type_: SqlType) -> str:
        """The average of a value."""
        if not type_.numeric or (type_.name == "decimal" and type_.precision > _MOST_DIGITS):
            raise Refused(f"avg({argument}): sums of {type_} may overflow, or raise another error")
        return self._column("a", self._whole("avg", argument))

    def real_sum(self, argument: str) -> str:
        """The sum of a value as Spark adds it up for an average."""
        return self._column("s", self._whole("sum", f"CAST({argument} AS DOUBLE)"))

    def extreme(self, function: str, argument: str) -> str:
        """The least or greatest value."""
        return self._column("m", self._whole(function, argument))

    def relation(self, tree: Logical, below: tuple[str, ...] = ()) -> Derived:
        """The row's relation, written as ``tree``, with these columns, of the rows that fulfill ``below``."""
        name = quote(self.pair.name)
        items = [Scalar(f"{name}.*"), *(Scalar(f"{text} AS {column}") for text, column in self.columns.items())]
        if below:
            tree = Filter(tree, tuple(Scalar(text) for text in below))
        definitions = ", ".join(f"{window} AS ({text})" for text, window in self.windows.items())
        return Derived(Project(Windows(tree, Scalar(definitions)), tuple(items)), self.pair.name, (), f"AS {name}")

    @property
    def _differs(self) -> bool:
        return bool(self.band.inequality_column) or not self.band.offsets.open

    def _count(self, argument: str) -> str:
        call = f"count({self._kept(argument or '1')})" if argument or self.band.match_filters else "count(*)"
        text = ""
        for sign, window in self._growing():
            text += f" {sign} {call} OVER {window}" if text else f"{call} OVER {window}"
        return text

    def _sum(self, argument: str, counted: str) -> str:
        """An exact sum; NULL where there is no value."""
        text, call = "", f"sum({self._kept(argument)})"
        for sign, window in self._growing():
            text += f" {sign} coalesce({call} OVER {window}, 0)" if text else f"{call} OVER {window}"
        return f"CASE WHEN {self._count(counted)} > 0 THEN {text} END" if self._differs else text

    def _whole(self, function: str, argument: str) -> str:
        """An aggregate that nothing can be subtracted from."""
        if self.band.inequality_column:
            raise Refused(f"{function}({argument}): a window cannot exclude the row itself")
        self.rescans_frame = self.rescans_frame or not self.band.offsets.open
        return f"{function}({self._kept(argument)}) OVER {self._window(self.band.keys, self.band.offsets)}"

    def _growing(self) -> list[tuple[str, str]]:
        """Frames that begin with the first row, and whether they are added or taken away."""
        band = self.band
        steps = [("+", band.offsets if band.offsets.open else band.offsets.until)]
        steps += [] if band.offsets.open else [("-", band.offsets.before)]
        found = [(sign, self._window(band.keys, offsets)) for sign, offsets in steps]
        if band.inequality_column:
            other = {"+": "-", "-": "+"}
            found += [
                (other[sign], self._window((*band.keys, band.inequality_column), offsets)) for sign, offsets in steps
            ]
        return found

    def _kept(self, argument: str) -> str:
        if not self.band.match_filters:
            return argument
        return f"CASE WHEN {' AND '.join(_closed(k) for k in self.band.match_filters)} THEN {argument} END"

    def _window(self, keys: tuple[str, ...], offsets: Offsets) -> str:
        parts = f"PARTITION BY {', '.join((*keys, *self._spread))} " if keys else ""
        text = f"{parts}ORDER BY {self.band.offsets.order(self.band.column, self.nulls)} {offsets.frame}"
        if text not in self.windows:
            self.windows[text] = self.pair.ctx.fresh("w")
        return self.windows[text]

    @property
    def _spread(self) -> tuple[str, ...]:
        """Rows with a NULL among their keys have no totals, and must not come together in one task."""
        missing = [f"{key} IS NULL" for key in self.band.keys if key in self.band.needed] if self.nulls else []
        return (f"CASE WHEN {' OR '.join(missing)} THEN {self.band.column} END",) if missing else ()

    def _column(self, letter: str, text: str) -> str:
        if self.nulls and self._present:
            text = f"CASE WHEN {self._present} THEN {text} END"
        if text not in self.columns:
            self.columns[text] = self.pair.ctx.fresh(letter)
        return f"{quote(self.pair.name)}.{self.columns[text]}"

    @property
    def _present(self) -> str:
        own = [_closed(self.pair.over_row(c)) for c in self.band.row_filters]
        return " AND ".join([*(f"{column} IS NOT NULL" for column in self.band.needed), *own])


def _closed(condition: str) -> str:
    """Return a condition in parentheses, as an operand of AND."""
    return f"({condition})"
