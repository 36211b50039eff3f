"""The SQL of a point, of an interval's ends, and of the bins they fall into."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.planner.band.axis import real
from dovetail.planner.band.bins import EVERYTHING, Levels
from dovetail.planner.band.condition import End, IntervalBand

_NO_LEVELS = Levels((), 0)
_FARTHEST = "1e15D"  # bins beyond are one bin: DOUBLE counts exactly up to 9e15
_NEAR = "1e14D"  # the same where a seventh of a bin must be exact
_ENDLESS = {-1: "-1e300D", 1: "1e300D"}  # where an end is that is none, as DOUBLE: EVERYTHING is as long as this
_ENDLESS_EXACT = {-1: "-9223372036854775807", 1: "9223372036854775807"}
_MOST_TOUCHED = 10_000_000  # bins of an interval: measured plans copy none to a hundredth of it
_FILL = 0.875  # how much of a bin an interval fills at most that stands in one: the rest is for rounding


@dataclass(frozen=True)
class IntervalSql:
    """A band's point and interval, binned on some levels."""

    band: IntervalBand
    levels: Levels = _NO_LEVELS

    @property
    def point(self) -> str:
        """The position of the point."""
        axis, point = self.band.axis, self.band.point
        lowest = _ENDLESS_EXACT if axis.exact else _ENDLESS
        return _coalesce(axis.position(point.text, point.type), lowest[-1] if self.band.null_points else "")

    def ends(self) -> tuple[str, str]:
        """The positions of both ends as DOUBLE."""
        return self._real(self.band.low, -1), self._real(self.band.high, 1)

    def bin(self, position: str, width: str) -> str:
        """The number of the bin that a position lies in."""
        if self.band.axis.exact and self._plain and (whole := _whole(width)):
            return f"{grouped(position)} DIV {whole}"
        if self.band.axis.exact and (self._plain or self.band.axis.small):
            return f"floor({grouped(position)} / {width})"
        if EVERYTHING in self.levels.widths:
            position = f"least(greatest({position}, -1e300D), 1e300D)"
        return _floor(position, width, _FARTHEST)

    def bins(self, width: str) -> str:
        """The bins that an interval touches; a single one if its ends are in the wrong order."""
        low, high = self._end(self.band.low, -1), self._end(self.band.high, 1)
        first, last = self.bin(low, width), self.bin(high, width)
        exact = self.band.axis.exact and (self._plain or self.band.axis.small)
        found = _sequence(first, last) if EVERYTHING in self.levels.widths else self._measured_sequence(first, last)
        return found if exact else _where_known(low, found)

    def touched(self, width: float, *, whole: bool) -> tuple[str, str]:
        """The first bin that an interval touches, and all of them, by a rule that is the same for all ends and sides.

        ``whole``: all ends are whole numbers as they are, and none of them is computed.
        """
        if whole:
            positions = (
                self.band.axis.position(leaf.text, leaf.type)
                for leaf in (self.band.low.bare, self.band.high.bare)
                if leaf
            )
            first, last = (f"{grouped(position)} DIV {int(width)}" for position in positions)
            return first, self._measured_sequence(first, last)
        low, high = self.ends()
        first, last = (_floor(end, double(width), _FARTHEST) for end in (low, high))
        return first, _where_known(low, self._measured_sequence(first, last))

    def _measured_sequence(self, first: str, last: str) -> str:
        """The bins of an interval whose length was measured when the statement was planned.

        A DataFrame may run when its tables have changed, and lengths of computed intervals are measured on a sample.
        An array of billions of bins would end the JVM.
        """
        low, high = (self.band.show(end) for end in (self.band.low, self.band.high))
        message = (
            f"An interval from {low} to {high} touches more than {_MOST_TOUCHED} bins: it is far longer than those "
            "that planning measured. Make the DataFrame again, or write the hint NO_DOVETAIL."
        )
        message = message.replace("\\", "\\\\").replace("'", "\\'")
        far = f"{grouped(last)} - {double(_MOST_TOUCHED)} > {grouped(first)}"
        return f"sequence({first}, if({far}, raise_error('{message}'), greatest({first}, {last})))"

    def level(self) -> str:
        """The width of the bins that suit an interval's length."""
        low, high = self.ends()
        *narrow, widest = self.levels.widths
        if not narrow:
            return double(widest)
        max_bins = self.levels.max_bins
        cases = " ".join(f"WHEN {high} - {low} <= {double(w * max_bins)} THEN {double(w)}" for w in narrow)
        return f"CASE {cases} ELSE {double(widest)} END"

    def single_bin(self) -> tuple[str, str]:
        """The level and the single bin of an interval; NULL for one without ends.

        An interval is no longer than its level's bins, so it ends in its own bin or the next.  An interval that is too
        long for all levels is in bin 0 of the level ``EVERYTHING``.
        """
        low, high = self.ends()
        levels = " ".join(f"WHEN {short} THEN {width}" for short, width, _ in self._narrow())
        bins = " ".join(f"WHEN {short} THEN {bin_}" for short, _, bin_ in self._narrow())
        known = f"WHEN {high} - {low} IS NULL THEN NULL"
        return f"CASE {known} {levels} ELSE {double(EVERYTHING)} END", f"CASE {known} {bins} ELSE 0 END"

    def hashed_bin(self) -> str:
        """The hash of both, for an interval with ends."""
        hashes = " ".join(f"WHEN {short} THEN xxhash64({width}, {bin_})" for short, width, bin_ in self._narrow())
        return f"CASE {hashes} ELSE xxhash64({double(EVERYTHING)}, 0L) END"

    def _narrow(self) -> Iterator[tuple[str, str, str]]:
        """The condition under which an interval is short enough for a level, its width, and the interval's bin."""
        low, high = self.ends()
        for width in self.levels.widths:
            if width < EVERYTHING:
                yield f"{high} - {low} <= {double(width * _FILL)}", double(width), _near(low, double(width))

    def visited(self, width: str) -> str:
        """The bins of a level that a point visits to find all intervals that stand there and may hold it."""
        here = _near(self._real_point(), width)
        return f"CASE WHEN {width} = {double(EVERYTHING)} THEN array(0L) ELSE array({here}, {here} - 1) END"

    @property
    def _plain(self) -> bool:
        return self.band.low.bare is not None and self.band.high.bare is not None

    def _real_point(self) -> str:
        return self.band.axis.real_position(self.band.point.text, self.band.point.type)

    def _end(self, end: End, outward: int) -> str:
        leaf = end.bare
        if leaf is None or not self._plain:
            return self._real(end, outward)
        farthest = _ENDLESS_EXACT if self.band.axis.exact else _ENDLESS
        return _coalesce(self.band.axis.position(leaf.text, leaf.type), farthest[outward] if end.endless else "")

    def _real(self, end: End, outward: int) -> str:
        """An end as a sum of DOUBLEs that cannot raise, moved outward by more than the sum can be off.

        A sum of infinities may be NaN where Spark subtracts another pair of them: ``a.x - b.y <= a.w`` is true for
        infinite ``x`` and ``w``.  NaN is above all numbers, so a low end that is NaN becomes the lowest one.
        """
        return _coalesce(self._sum(end, outward), _ENDLESS[outward] if end.endless else "")

    def _sum(self, end: End, outward: int) -> str:
        axis = self.band.axis
        position = axis.position_of_date if end.as_date else axis.real_position
        positions = [(sign, position(leaf.text, leaf.type)) for sign, leaf in end.terms]
        total = " ".join(f"{'+' if sign > 0 else '-'} {p}" for sign, p in positions).removeprefix("+ ")
        constant = end.constant + end.room
        if constant:
            total += f" {'+' if constant > 0 else '-'} {double(real(abs(constant)))}"
        if end.bare or axis.small:
            return total if end.bare else f"({total})"
        slack = "1e-6D" if axis.float32 else "1e-15D"
        size = " + ".join(f"abs({p})" for _, p in positions)
        size += f" + {double(real(abs(constant)))}" if constant else ""
        widened = f"{total} {'+' if outward > 0 else '-'} ({size}) * {slack}"
        may_be_nan = len(end.terms) > 1 and any(leaf.type.approximate for _, leaf in end.terms)
        return f"nanvl({widened}, {_ENDLESS[-1]})" if may_be_nan and outward < 0 else f"({widened})"


def _coalesce(position: str, other: str) -> str:
    """A position, or where it is NULL, the other one, if there is one."""
    return f"coalesce({position}, {other})" if other else position


def _near(position: str, width: str) -> str:
    return _floor(position, width, _NEAR)


def _sequence(first: str, last: str) -> str:
    """All bins from one to another; one of them where they are the wrong way round, or there is no other."""
    return f"sequence({first}, greatest({first}, {last}))"


def _where_known(low: str, bins: str) -> str:
    """No bins for an interval without a low end: ``greatest`` passes over NULL, and its first would be the farthest."""
    return f"CASE WHEN {low} IS NOT NULL THEN {bins} END"


def _floor(position: str, width: str, farthest: str) -> str:
    return f"floor(least(greatest({grouped(position)} / {width}, -{farthest}), {farthest}))"


def grouped(text: str) -> str:
    """An expression as an operand: in parentheses unless it is a name, a literal or one call."""
    depth = 0
    for n, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if (character == " " and not depth) or (depth == 0 and character == ")" and n < len(text) - 1):
            return f"({text})"
    return f"({text})" if text.startswith("(") else text


def _whole(width: str) -> str:
    """Convert a DOUBLE literal to an integer literal, or return an empty string; integer division costs half."""
    number = width.removesuffix("D")
    return number if number.isdecimal() else ""


def double(value: float) -> str:
    """A DOUBLE literal."""
    return f"{repr(value).removesuffix('.0')}D"
