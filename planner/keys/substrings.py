"""Keys of texts that contain other texts: substrings of lengths that are the same on both sides.

contains(a.body, b.word)     instr(a.body, b.word) > 0     a.body LIKE concat('%', b.word, '%')

A word has one key: its first bytes, as many as the largest of some lengths that is no longer.  A text has a key for
each of its substrings of each of these lengths.  Search engines keep such an index over texts (n-grams: Zobel and
Moffat, Inverted files for text search engines, 2006).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import fmean

from dovetail.planner.band.linear import Side
from dovetail.planner.catalog import Numbers
from dovetail.planner.errors import Refused
from dovetail.planner.keys.elements import on_sides
from dovetail.planner.keys.key_set import ELEMENT, KeySet, Leveled, Sides

_LONGEST = 8  # bytes, of which few texts have the same by chance
_SHORT = 0.1  # of the words are shorter than the longest substrings, at most
_USUAL = 64  # bytes of a text
_SEARCHED = 5  # bytes of a text, in the time in which two numbers are compared
PATTERN_TIME = 100.0  # of a pattern of a column, in the same time: Spark reads it anew for each pair
_MOST = 2_000  # bytes of a text, each of which copies a row
_TEXT, _LENGTH, _AT = "__dt_t", "__dt_l", "__dt_i"  # variables in lambdas, like ELEMENT


@dataclass(frozen=True)
class Substrings(Leveled):
    """A test whether a text contains a word: bytes as SQL, the text on ``side``.

    ``required``: the word as written, which may be NULL.  ``lengths``: of the substrings that are compared, in
    ascending order; that of 0 is one that all texts contain.  ``mean``: bytes of a text.
    """

    side: Side
    text: str
    word: str
    required: str
    may_raise: bool = False
    lengths: tuple[int, ...] = (0, 1, 3)
    mean: float = _USUAL

    @property
    def sides(self) -> Sides:
        lengths = f"array({', '.join(map(str, self.lengths))})"
        longest = f"array_max(filter({lengths}, {ELEMENT} -> {ELEMENT} <= octet_length({self.word})))"
        several = f"filter({lengths}, {_LENGTH} -> {_LENGTH} <= octet_length({_TEXT}))"
        places = f"sequence(1, if({_LENGTH} = 0, 1, octet_length({_TEXT}) - {_LENGTH} + 1))"
        of_a_length = f"transform({places}, {_AT} -> substring({_TEXT}, {_AT}, {_LENGTH}))"
        of_all = f"flatten(transform({several}, {_LENGTH} -> {of_a_length}))"
        texts = KeySet(
            elements=f"flatten(transform(array({self.text}), {_TEXT} -> {of_all}))",  # so it is cast to bytes once
            nulls=True,
            copies=ceil(self.mean) * (len(self.lengths) - 1),
            may_raise=self.may_raise,
        )
        return on_sides(self.side, texts, KeySet((f"left({self.word}, {longest})",), (self.required,)))

    @property
    def sampled(self) -> tuple[Side, str]:
        return "right" if self.side == "left" else "left", f"octet_length({self.word})"

    def fitted(self, sample: Sequence[Numbers], rows: int | None) -> Substrings:
        """The length that most words have at least, and that of the shortest; and 0, for those that are shorter."""
        found = sorted(int(row[0]) for row in sample if row[0])
        if not found:
            return self
        lengths = {0, min(found[0], _LONGEST), min(found[int(_SHORT * len(found))], _LONGEST)}
        return replace(self, lengths=tuple(sorted(lengths)))

    def why_useless(self, sample: Sequence[Numbers]) -> str:
        lengths = [row[0] for row in sample if row[0] is not None]
        return "most words are empty" if 2 * lengths.count(0) > len(lengths) else ""

    @property
    def pair_time(self) -> float:
        return max(PATTERN_TIME if self.may_raise else 1.0, self.mean / _SEARCHED)

    @property
    def copied(self) -> tuple[Side, str]:
        return self.side, f"octet_length({self.text})"

    def with_copies(self, sample: Sequence[Numbers]) -> Substrings:
        mean = fmean(row[0] or 0 for row in sample)
        if mean > _MOST:
            raise Refused(f"its texts have {mean:,.0f} bytes on average, and each byte would copy a row")
        return replace(self, mean=mean)
