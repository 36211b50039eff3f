"""Normal form of conditions: conjuncts, in the user's SQL where possible.

``normal_form`` takes a condition of WHERE, HAVING or ON, where FALSE and NULL are the same: the row is not there.
It cuts through parentheses, pushes NOT in, takes out what all branches of an OR have in common, and looks through
what only repeats that a condition holds (``c = TRUE``, ``coalesce(c, FALSE)``).  Each step keeps the value of the
condition for every row, in three-valued logic below a NOT, and the order in which its parts are evaluated; so none of
them is evaluated on a row where it was not before, but for common factors, which Spark takes out itself.

``NOT (x < y)`` is ``x >= y`` since Spark has one order for all values of a type: NaN equals NaN and is greatest.
sqlglot's ``simplify`` and ``normalize`` do much of this on trees.  They do not keep the words, and are not Spark's in
each case: ``simplify`` takes ``x = x`` for TRUE, where x may be NULL, and evaluates arithmetic in Python's types;
``normalize`` distributes OR over AND, which copies conditions.
"""

from __future__ import annotations

import re
from itertools import pairwise

from dovetail.planner.conditions.canonical_form import (
    COMPARISONS,
    PREDICATES,
    Piece,
    bounds,
    comparison,
    deterministic,
    is_null,
    key,
    loose,
    merge_branches,
    not_null,
    operators,
    words,
)
from dovetail.planner.conditions.connectives import Part, bare, connectives, inside
from dovetail.planner.errors import Place
from dovetail.planner.expr import HOLE, Scalar, Whole
from dovetail.planner.expr.tokens import Tokens, tokenize

_WORTH = re.compile(r"(?i)\(|!|\b(?:NOT|OR|TRUE|FALSE|CASE)\b|(?<![\w.])(\d+)\s*=+\s*\1(?![\w.])")
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "==": "<>", "<>": "=", "!=": "="}
_NO_COLUMNS = frozenset("TRUE FALSE IS IF COALESCE NVL IFNULL".split())
_TRUTHS = {"TRUE": True, "FALSE": False}
_TOGGLED = frozenset(("IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN"))


def normal_form(condition: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """Normalize a condition into conjuncts; the same object if nothing changes.

    Empty where the condition always holds.
    """
    found = [_conjuncts(conjunct) for conjunct in condition]
    if all(len(f) == 1 and f[0] is c for f, c in zip(found, condition, strict=True)):
        return _strict(condition)
    return _strict(tuple(piece for pieces in found for piece in pieces))


def _strict(condition: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """Replace ``<=>`` by ``=`` if another conjunct excludes NULL in an operand."""
    if not any("<=>" in c.text for c in condition):
        return condition
    known = {found for c in condition if not c.plans and (found := not_null(c.text))}
    strict = tuple(_equal(c, known) for c in condition)
    return condition if all(s is c for s, c in zip(strict, condition, strict=True)) else strict


def _equal(conjunct: Scalar, known: set[str]) -> Scalar:
    found = comparison(conjunct.text) if "<=>" in conjunct.text and not conjunct.plans else None
    if found is None or found[1] != "<=>" or not {found[0], found[2]} & known:
        return conjunct
    left, _, right = found[3]
    return Scalar(f"{left} = {right}", (), conjunct.place, conjunct.whole or Whole(conjunct, 1))


def _conjuncts(conjunct: Scalar) -> tuple[Scalar, ...]:
    if not _WORTH.search(conjunct.text):
        return (conjunct,)
    t = tokenize(conjunct.text)
    piece = _Reader(t).form(connectives(t, 0, len(t)), holds=True)
    pieces = _flat("AND", piece)
    if len(pieces) == 1 and pieces[0].kind != "TRUE":
        either = pieces[0].kind == "OR" and loose(pieces[0].text) == loose(conjunct.text)
        if either or pieces[0].text == conjunct.text:
            return (conjunct,)
    made = tuple(_scalar(piece, conjunct, t) for piece in pieces if piece.kind != "TRUE")
    if any(p.plans for p in made) or conjunct.whole:
        return made
    if not _names(t) <= {name for p in made for name in _names(tokenize(p.text))}:
        return made  # as written it names a column that need not be there where its parts are put
    whole = Whole(conjunct, len(made))
    return tuple(Scalar(p.text, (), p.place, whole) for p in made)


def _scalar(piece: Piece, conjunct: Scalar, t: Tokens) -> Scalar:
    """A piece with the subqueries in it."""
    plans = []

    def renumbered(placeholder: re.Match[str]) -> str:
        plans.append(conjunct.plans[int(placeholder.group(1))])
        return f"{HOLE}{len(plans) - 1}"

    text = _enclose(piece)
    if conjunct.plans:
        text = re.sub(HOLE + r"(\d+)", renumbered, text)
    return Scalar(text, tuple(plans), _place(conjunct, t, piece.at))


def _names(t: Tokens) -> set[str]:
    return {x.text for x in t.items if x.is_name and x.word not in _NO_COLUMNS}


def _place(conjunct: Scalar, t: Tokens, at: int) -> Place | None:
    if conjunct.place is None or HOLE in t.text[:at]:  # a subquery placeholder is not as long as its subquery
        return conjunct.place
    inner, outer = t.place(at), conjunct.place
    return Place(outer.line + inner.line - 1, inner.column + (outer.column - 1 if inner.line == 1 else 0))


def _flat(kind: str, piece: Piece) -> list[Piece]:
    return [p for part in piece.parts for p in _flat(kind, part)] if piece.kind == kind else [piece]


def _shared(branches: list[dict[str, Piece]]) -> set[str]:
    """The keys of the pieces that stand in each of several branches, and that may be evaluated once."""
    return set(filter(deterministic, set.intersection(*map(set, branches)))) if len(branches) > 1 else set()


def _without_repeated_tests(branches: list[Piece]) -> list[Piece]:
    """``x IS NULL OR x IS NOT NULL AND a`` as ``x IS NULL OR a``."""
    tested = set(filter(deterministic, filter(None, (is_null(b.text) for b in branches if not b.kind))))
    return [_without_tests(branch, tested) if branch.kind == "AND" else branch for branch in branches]


def _without_tests(branch: Piece, tested: set[str]) -> Piece:
    parts = [p for p in branch.parts if p.kind or not_null(p.text) not in tested]
    if not parts or len(parts) == len(branch.parts):
        return branch
    return _conjunction(parts) if len(parts) > 1 else parts[0]


def _conjunction(parts: list[Piece]) -> Piece:
    return Piece("AND", " AND ".join(map(_enclose, parts)), parts[0].at, tuple(parts))


class _Reader:
    def __init__(self, t: Tokens):
        self.t = t

    def form(self, part: Part, *, negated: bool = False, holds: bool = False) -> Piece:
        """Normalize a part, or NOT part; ``holds``: FALSE and NULL are equivalent."""
        match part.kind:
            case "NOT":
                piece = self.form(part.parts[0], negated=not negated, holds=holds)
                if piece.text.startswith("NOT (") and not negated and not piece.kind:  # it cannot be pushed further
                    return Piece("", self.t.slice(part.lo, part.hi), self.t[part.lo].start)
                return piece
            case "AND" | "OR":
                parts = [self.form(p, negated=negated, holds=holds) for p in part.parts]
                kind = part.kind if not negated else "OR" if part.kind == "AND" else "AND"
                return self._and(part, parts) if kind == "AND" else self._or(part, parts)
        return self._leaf(part.lo, part.hi, negated, holds)

    def _again(self, lo: int, hi: int, negated: bool, holds: bool) -> Piece:
        return self.form(connectives(self.t, lo, hi), negated=negated, holds=holds)

    def _and(self, part: Part, parts: list[Piece]) -> Piece:
        pieces = [p for piece in parts for p in _flat("AND", piece) if p.kind != "TRUE"]
        if len(pieces) < 2:
            return pieces[0] if pieces else Piece("TRUE", "TRUE", self.t[part.lo].start)
        return _conjunction(pieces)

    def _or(self, part: Part, parts: list[Piece]) -> Piece:
        pieces = [p for piece in parts for p in _flat("OR", piece) if p.kind != "FALSE"]
        if not pieces or any(p.kind == "TRUE" for p in pieces):
            return _truth(bool(pieces), self.t[part.lo].start)
        pieces = merge_branches(pieces)
        branches = [{key(p): p for p in _flat("AND", branch)} for branch in pieces]
        if not (common := _shared(branches)):
            branches = [{key(p): p for whole in branch.values() for p in bounds(whole)} for branch in branches]
            common = _shared(branches)
        factors = [p for key, p in branches[0].items() if key in common]
        if not factors:
            return self._either(pieces, part)
        rests = [[p for key, p in b.items() if key not in common] for b in branches]
        if all(rests):  # A OR (A AND b) is A
            factors.append(self._either([self._and(part, rest) for rest in rests], part))
        return self._and(part, factors)

    def _either(self, branches: list[Piece], part: Part) -> Piece:
        branches = _without_repeated_tests(branches)
        if len(branches) == 1:
            return branches[0]
        text = " OR ".join(p.text for p in branches)
        slice_ = self.t.slice(part.lo, part.hi)
        if part.kind == "OR" and words(text) == words(slice_):
            text = slice_
        return Piece("OR", text, self.t[part.lo].start, tuple(branches))

    def _leaf(self, lo: int, hi: int, negated: bool, holds: bool) -> Piece:
        t = self.t
        if found := self._looked_through(lo, hi, negated, holds):
            return found
        at = t[lo].start
        constant = self._constant(lo, hi)
        if constant is not None:
            return _truth(constant is not negated, at)
        return Piece("", self._opposite(lo, hi) if negated else self._compared(lo, hi), at)

    def _compared(self, lo: int, hi: int) -> str:
        """Strip parentheses around columns and literals that a leaf compares."""
        t = self.t
        marks = operators(t, lo, hi)
        if len(marks) != 1 or t[marks[0]].word not in COMPARISONS or not lo < marks[0] < hi - 1:
            return t.slice(lo, hi)
        (a, b), (c, d) = self._operand(lo, marks[0]), self._operand(marks[0] + 1, hi)
        if (a, d) == (lo, hi) and (b, c) == (marks[0], marks[0] + 1):
            return t.slice(lo, hi)
        return f"{t.slice(a, b)} {t.slice(marks[0], marks[0] + 1)} {t.slice(c, d)}"

    def _operand(self, lo: int, hi: int) -> tuple[int, int]:
        a, b = inside(self.t, lo, hi)
        # IS NULL and NOT are read as names, too
        column = all(self.t[i].is_name if (i - a) % 2 == 0 else self.t[i].word == "." for i in range(a, b))
        return (a, b) if column or b - a == 1 else (lo, hi)

    def _constant(self, lo: int, hi: int) -> bool | None:
        """Evaluate a constant leaf: ``TRUE``, ``1 = 1``; None if it is not constant."""
        t = self.t
        if hi - lo == 1 and t[lo].word in ("TRUE", "FALSE"):
            return t[lo].word == "TRUE"
        if hi - lo == 3 and t[lo + 1].word in ("=", "==") and t[lo].word == t[lo + 2].word and t[lo].word.isdigit():
            return True
        return None

    def _looked_through(self, lo: int, hi: int, negated: bool, holds: bool) -> Piece | None:
        """Unwrap a redundant leaf: ``(c) = TRUE``, ``c IS TRUE``, ``coalesce(c, FALSE)``, CASE WHEN c THEN TRUE END."""
        t = self.t
        if hi - lo < 3:
            return None
        marks = operators(t, lo, hi)
        words = [t[i].word for i in marks]
        if words and words[-1] in ("=", "==", "<=>"):
            if len(marks) == 1 and (rows := self._rows(lo, marks[0], hi)):
                return self._of_rows(rows, negated)
            return self._equal_to_truth(lo, hi, marks, negated, holds)
        if words[-1:] == ["IS"] or words[-2:] == ["IS", "NOT"]:
            return self._is_truth(lo, hi, marks, negated) if holds else None
        if not holds or marks:
            return None
        if t[lo].word == "CASE" and t[lo + 1].word == "WHEN" and t[hi - 1].word == "END":
            return None if negated else self._choice(lo, hi, "TRUE")
        return self._call(lo, hi, negated)

    def _equal_to_truth(self, lo: int, hi: int, marks: list[int], negated: bool, holds: bool) -> Piece | None:
        """``c = TRUE``, ``TRUE = c``, ``c <=> TRUE``; ``a = b = TRUE``, which is ``(a = b) = TRUE``; ``flag = 1``."""
        t, sign = self.t, self.t[marks[-1]].word
        if len(marks) > 1:
            chained = sign != "<=>" and marks[-1] == hi - 2 and all(t[i].word in COMPARISONS for i in marks)
            truth = _TRUTHS.get(t[hi - 1].word) if chained else None
            return None if truth is None else self._again(lo, hi - 2, negated is truth, holds)
        if sign == "<=>" and (negated or not holds):
            return None
        for at, a, b in ((hi - 1, lo, hi - 2), (lo, lo + 2, hi)):
            truth = _TRUTHS.get(t[at].word) if abs(at - marks[0]) == 1 else None
            if abs(at - marks[0]) == 1 and t[at].word.isdigit() and not negated and holds:
                return self._choice(*inside(t, a, b), t[at].word)
            if truth is not None and self._is_condition(a, b):
                return self._again(a, b, negated is truth, holds)
        return None

    def _is_truth(self, lo: int, hi: int, marks: list[int], negated: bool) -> Piece | None:
        """``c IS TRUE``, and NOT ``c IS NOT TRUE``, where NULL is FALSE."""
        not_ = self.t[marks[-1]].word == "NOT"
        end, truth = marks[-2] if not_ else marks[-1], _TRUTHS.get(self.t[hi - 1].word)
        if truth is None or end != hi - 2 - not_ or negated is not not_ or not self._is_condition(lo, end):
            return None
        return self._again(lo, end, not truth, holds=True)

    def _call(self, lo: int, hi: int, negated: bool) -> Piece | None:
        """``coalesce(c, FALSE)``, ``if(c, TRUE, FALSE)``, where NULL is FALSE."""
        t = self.t
        if t[lo + 1].word != "(" or t.match[lo + 1] != hi - 1:
            return None
        if t[lo].word == "IF":
            return None if negated else self._choice(lo, hi, "TRUE")
        condition, *others = t.split(lo + 2, hi - 1)
        words = [t.slice(*other).upper() for other in others]
        is_same = t[lo].word in ("COALESCE", "NVL", "IFNULL") and words == [str(negated).upper()]
        return self._again(*condition, negated, holds=True) if is_same and self._is_condition(*condition) else None

    def _choice(self, lo: int, hi: int, value: str) -> Piece | None:
        """The condition that ``CASE WHEN c THEN a [ELSE b] END`` or ``if(c, a, b)`` returns a value: TRUE or a number.

        That is c where a is the value and b is another one.  Otherwise a and b may be conditions, which return TRUE.
        """
        if (ranges := self._branches(lo, hi)) is None:
            return None
        condition, then, *other = ranges
        first, *second = (self.t.slice(*part).upper() for part in (then, *other))
        falses = ("FALSE", "NULL") if value == "TRUE" else ("NULL",)
        if first == value and all(s in falses or _is_other_number(s, value) for s in second):
            return self._again(*condition, negated=False, holds=True)
        return self._with_common_part(condition, then, *other) if value == "TRUE" and other else None

    def _branches(self, lo: int, hi: int) -> list[tuple[int, int]] | None:
        """The condition, the value and the other value of CASE with one WHEN, or of ``if``; None for anything else."""
        t = self.t
        if hi - lo > 3 and t[lo].word == "IF" and t[lo + 1].word == "(" and t.match[lo + 1] == hi - 1:
            return t.split(lo + 2, hi - 1) if len(t.split(lo + 2, hi - 1)) == 3 else None
        if t[lo].word != "CASE" or t[lo + 1].word != "WHEN" or t[hi - 1].word != "END":
            return None
        marks = [i for i in t.top(lo + 1, hi - 1) if t[i].word in ("CASE", "WHEN", "THEN", "ELSE")]
        if [t[i].word for i in marks] not in (["WHEN", "THEN"], ["WHEN", "THEN", "ELSE"]):
            return None
        return [(a + 1, b) for a, b in pairwise((*marks, hi - 1))]

    def _with_common_part(
        self, condition: tuple[int, int], then: tuple[int, int], other: tuple[int, int]
    ) -> Piece | None:
        """``CASE WHEN c THEN a ELSE a AND b END`` as ``a AND (c OR b)``; ``b`` in the other branch needs NOT c."""
        one, two = (
            {key(p): p for part in _flat("AND", self._again(*r, negated=False, holds=True)) for p in bounds(part)}
            for r in (then, other)
        )
        negated = not one.keys() < two.keys()
        if negated:
            one, two = two, one
        text = self.t.slice(*condition)
        is_two_valued = bool(is_null(text) or not_null(text))
        if not one.keys() < two.keys() or not all(map(deterministic, one)) or (negated and not is_two_valued):
            return None
        part = Part("", *condition)
        test = self._again(*condition, negated, holds=True)
        rest = self._and(part, [p for k, p in two.items() if k not in one])
        return self._and(part, [*one.values(), self._either([test, rest], part)])

    def _rows(self, lo: int, sign: int, hi: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """The fields of ``(a, b) = (c, d)`` in pairs; none for anything else."""
        t, found = self.t, []
        for a, b in ((lo, sign), (sign + 1, hi)):
            if b - a < 5 or t[a].word != "(" or t.match[a] != b - 1:
                return []
            found.append(t.split(a + 1, b - 1))
        signs = COMPARISONS | PREDICATES | {"AND", "OR", "AS"}
        if any(t[i].word in signs for fields in found for a, b in fields for i in bare(t, a, b)):
            return []
        return list(zip(*found, strict=True)) if len(found[0]) == len(found[1]) > 1 else []

    def _of_rows(self, rows: list[tuple[tuple[int, int], tuple[int, int]]], negated: bool) -> Piece:
        """Split an equality of rows into its fields, where NULL equals NULL; Spark requires one type on both sides."""
        t, fields = self.t, []
        for (a, b), (c, d) in rows:
            at, left, right = t[a].start, t.slice(a, b), t.slice(c, d)
            if left == right and b - a == 1 and t[a].word.isdigit():
                fields.append(_truth(not negated, at))
            else:
                text = f"{left} <=> {right}"
                fields.append(Piece("", f"NOT ({text})" if negated else text, at))
        part = Part("", rows[0][0][0], rows[-1][1][1])
        return self._or(part, fields) if negated else self._and(part, fields)

    def _is_condition(self, lo: int, hi: int) -> bool:
        """Whether a range is certainly BOOLEAN: ``c = TRUE`` would cast a string."""
        t = self.t
        part = connectives(t, lo, hi)
        if part.kind:
            return all(self._is_condition(p.lo, p.hi) for p in part.parts)
        lo, hi = part.lo, part.hi
        marks = operators(t, lo, hi)
        if marks or (hi - lo == 1 and t[lo].word in ("TRUE", "FALSE")):
            return True
        return any(self._looked_through(lo, hi, negated, True) is not None for negated in (False, True))

    def _opposite(self, lo: int, hi: int) -> str:
        """Negate a leaf: with the opposite comparison, or by toggling NOT of IN, LIKE, BETWEEN, IS."""
        t, text = self.t, self.t.text
        marks = operators(t, lo, hi)
        words = [t[i].word for i in marks]
        start, end = t[lo].start, t[hi - 1].end
        if words and lo < marks[0] and marks[-1] - marks[0] < 2:
            first, last = t[marks[0]], t[marks[-1]]
            match words:
                case [sign] if sign in _OPPOSITE:
                    at, upto, new = first.start, first.end, _OPPOSITE[sign]
                case [word] if word in _TOGGLED:
                    at, upto, new = first.start, first.start, "NOT"
                case ["NOT", word] if word in _TOGGLED:
                    at, upto, new = first.start, last.start, ""
                case ["IS"]:
                    at, upto, new = first.end, first.end, "NOT"
                case ["IS", "NOT"]:
                    at, upto, new = first.end, last.end, ""
                case _:
                    return f"NOT ({text[start:end]})"
            return f"{text[start:at].rstrip()} {new} {text[upto:end].lstrip()}".strip()
        alone = not marks and (hi - lo == 1 or inside(t, lo, hi) != (lo, hi))
        if alone or (words == ["EXISTS"] and marks[0] == lo and t.match.get(lo + 1) == hi - 1):
            return f"NOT {text[start:end]}"
        return f"NOT ({text[start:end]})"


def _is_other_number(text: str, value: str) -> bool:
    return text.isdigit() and value.isdigit() and int(text) != int(value)


def _truth(value: bool, at: int) -> Piece:
    return Piece(str(value).upper(), str(value).upper(), at)


def _enclose(piece: Piece) -> str:
    return f"({piece.text})" if piece.kind == "OR" else piece.text
