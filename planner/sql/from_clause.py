"""Parses FROM: relations, joins and lateral views.

Commas are joins like any other, from left to right: ``FROM a, b JOIN c`` is (a × b) ⋈ c, and ON sees a.  Where
``spark.sql.ansi.relationPrecedence`` is set they bind last: a × (b ⋈ c), and ON does not see a.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

from dovetail.planner.expr import Scalar
from dovetail.planner.expr.tokens import Tokens
from dovetail.planner.logical import (
    Derived,
    Join,
    JoinKind,
    LateralView,
    Logical,
    Nested,
    Opaque,
    Scan,
)
from dovetail.planner.logical.nearest_syntax import AsofJoin, NearestByJoin
from dovetail.planner.sql.reader import QUERY_STARTS, Note, Reader

_MODIFIERS = frozenset({"INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL"})


def from_clause(r: Reader, lo: int, hi: int) -> Logical:
    """Read the tokens behind FROM.  What has no place in the algebra (PIVOT) makes the whole clause ``Opaque``."""
    t = r.tokens
    tops = t.top(lo, hi)
    matches = _match_conditions(r, tops, hi)
    if any(
        t[i].word in ("PIVOT", "UNPIVOT", "MATCH_RECOGNIZE", "MATCH_CONDITION", "NEAREST")
        and t.word(i + 1, hi) in ("(", "INCLUDE", "EXCLUDE")
        and i not in matches
        for i in tops
    ):
        r.notes.append(Note("FROM with PIVOT and the like is not supported", t.place(t[lo].start)))
        return Opaque(r.scalar(lo, hi))
    views = [i for i in tops if t[i].word == "LATERAL" and t.word(i + 1, hi) == "VIEW"]
    end = views[0] if views else hi
    (first, *items) = _items(r, lo, end)
    plan = _joined(r, *first)
    last = any(_join_words(r, a, b) for a, b in items) and r.settings.commas_last
    for a, b in items:
        comma = t.place(t[a - 1].start)
        plan = Join(plan, _joined(r, a, b), "cross", ",", comma="last", place=comma) if last else _joined(r, a, b, plan)
    for a, b in zip(views, [*views[1:], hi], strict=False):
        plan = _lateral_view(r, plan, a, b)
    return plan


def _match_conditions(r: Reader, tops: list[int], hi: int) -> list[int | None]:
    """The MATCH_CONDITION of each ASOF JOIN of a FROM."""
    t = r.tokens
    found = {i: find_match_condition(t, i + 1, hi) for i in tops if t[i].word == "ASOF" and t.word(i + 1, hi) == "JOIN"}
    for i, match in found.items():
        if match is None:
            raise r.fail(
                "ASOF JOIN needs MATCH_CONDITION (left.time >= right.time); give an alias ASOF another name", i
            )
    return list(found.values())


def _items(r: Reader, lo: int, hi: int) -> list[tuple[int, int]]:
    """Cut FROM at its commas; those between the rows of VALUES do not count."""
    t = r.tokens
    cuts, rows = [], False
    for i in t.top(lo, hi):
        word = t[i].word
        if word == "VALUES" and (i == lo or t[i - 1].word in (",", "JOIN")):
            rows = True
        elif word == "AS" or t[i].is_name:
            rows = False
        elif word == "," and not rows:
            cuts.append(i)
    return list(zip([lo, *(c + 1 for c in cuts)], [*cuts, hi], strict=True))


def _joined(r: Reader, lo: int, hi: int, before: Logical | None = None) -> Logical:
    """One item between commas: a relation and the joins behind it, from left to right; ``before`` precedes them."""
    joins = _join_words(r, lo, hi)
    plan = _primary(r, lo, joins[0][0] if joins else hi)
    if before:
        plan = Join(before, plan, "cross", ",", comma="left", place=r.tokens.place(r.tokens[lo - 1].start))
    for n, (start, join) in enumerate(joins):
        plan = _join(r, plan, start, join, joins[n + 1][0] if n + 1 < len(joins) else hi)
    return plan


def _join_words(r: Reader, lo: int, hi: int) -> list[tuple[int, int]]:
    """Every JOIN outside brackets: (index of its first modifier, index of JOIN)."""
    t = r.tokens
    found = []
    for i in t.top(lo, hi):
        if t[i].word == "JOIN":
            asof = find_asof(t, i)
            start = i if asof is None else asof
            while start > lo and t[start - 1].word in _MODIFIERS:
                start -= 1
            found.append((start, i))
    return found


def find_asof(t: Tokens, join: int) -> int | None:
    """Find the index of the ASOF of the JOIN at ``join``; None if it has none, so that a word ASOF is an alias."""
    has_asof = join and t[join - 1].word == "ASOF" and find_match_condition(t, join, len(t)) is not None
    return join - 1 if has_asof else None


def find_match_condition(t: Tokens, join: int, hi: int) -> int | None:
    """Find the index of the MATCH_CONDITION of the JOIN at ``join``, before ``hi``; None if it has none."""
    for i in t.top(join + 1, hi):
        if t[i].word in ("JOIN", ")"):
            return None
        if t[i].word == "MATCH_CONDITION" and t.word(i + 1, hi) == "(":
            return i
    return None


def find_nearest_by(t: Tokens, join: int, hi: int) -> tuple[int, int] | None:
    """Find the first tokens of ``EXACT NEAREST 3 BY DISTANCE`` of the JOIN at ``join``, and of its expression.

    None if it has none before ``hi``.  None of its words is reserved, so ``exact`` and ``nearest`` may be aliases.
    """
    for i in t.top(join + 1, hi):
        if t[i].word in ("JOIN", ")"):
            return None
        if t[i].word in ("EXACT", "APPROX") and t.word(i + 1, hi) == "NEAREST":
            by = i + 2 + t.word(i + 2, hi).isdecimal()
            if t.word(by, hi) == "BY" and t.word(by + 1, hi) in ("DISTANCE", "SIMILARITY"):
                return i, by + 2
    return None


def _asof_join(r: Reader, left: Logical, start: int, join: int, hi: int) -> AsofJoin:
    """Read an ASOF JOIN: the relation, MATCH_CONDITION, and ON or USING."""
    t = r.tokens
    keyword = t.slice(start, join + 1)
    words = {t[i].word for i in range(start, join)} - {"OUTER", "ASOF"}
    kind: Literal["inner", "left"] = "left" if words == {"LEFT"} else "inner"
    if kind == "inner" and words - {"INNER"}:
        raise r.fail(f"{keyword} is not a supported join", start)
    match = find_match_condition(t, join, hi)
    assert match is not None  # find_asof has seen it
    end = t.match[match + 1]
    plain = AsofJoin(left, _primary(r, join + 1, match), kind, keyword, r.scalar(match + 2, end))
    if end + 1 == hi:
        return plain
    if t[end + 1].word == "ON":
        return replace(plain, condition=r.conjuncts(end + 2, hi))
    return replace(plain, using=_using(r, end + 1, hi))


def _using(r: Reader, lo: int, hi: int) -> tuple[str, ...]:
    """Read ``USING (a, b)``."""
    t = r.tokens
    if t[lo].word != "USING" or t.word(lo + 1, hi) != "(" or t.match[lo + 1] != hi - 1:
        raise r.fail("this USING is not supported", lo)
    return tuple(t.slice(a, b) for a, b in t.split(lo + 2, hi - 1))


def _nearest_by_join(r: Reader, left: Logical, start: int, join: int, hi: int) -> NearestByJoin | None:
    """Read a join with a NEAREST BY clause: the relation, the words of the clause, and its expression."""
    t, clause = r.tokens, find_nearest_by(r.tokens, join, hi)
    if clause is None:
        return None
    nearest, expression = clause
    words = {t[i].word for i in range(start, join)}
    if words not in (set(), {"INNER"}, {"LEFT"}, {"LEFT", "OUTER"}):
        raise r.fail(f"{t.slice(start, join + 1)} has no NEAREST BY; write JOIN or LEFT JOIN", start)
    if expression >= hi:
        raise r.fail("NEAREST BY has no expression", nearest)
    kind: Literal["inner", "left"] = "left" if "LEFT" in words else "inner"
    right, by = _primary(r, join + 1, nearest), t.slice(nearest, expression)
    number = t[nearest + 2].word
    count = int(number) if number.isdecimal() else 1
    return NearestByJoin(left, right, kind, t.slice(start, join + 1), r.scalar(expression, hi), by, count)


def _join(r: Reader, left: Logical, start: int, join: int, hi: int) -> Join | AsofJoin | NearestByJoin:
    t = r.tokens
    if find_asof(t, join) is not None:
        return _asof_join(r, left, start, join, hi)
    if found := _nearest_by_join(r, left, start, join, hi):
        return found
    words = {t[i].word for i in range(start, join)} - {"OUTER", "NATURAL"}
    kind: JoinKind
    if words <= {"INNER"}:
        kind = "inner"
    elif words <= {"LEFT", "SEMI"} and "SEMI" in words:
        kind = "semi"
    elif words <= {"LEFT", "ANTI"} and "ANTI" in words:
        kind = "anti"
    elif len(words) == 1 and (word := next(iter(words)).lower()) in get_args(JoinKind):
        kind = word  # type: ignore[assignment]
    else:
        raise r.fail(f"{t.slice(start, join + 1)} is not a supported join", start)
    natural = t[start].word == "NATURAL" and start < join
    keyword, place = t.slice(start, join + 1), t.place(t[start].start)
    on = next((i for i in t.top(join + 1, hi) if t[i].word in ("ON", "USING")), hi)
    right = _primary(r, join + 1, on)
    if on == hi:
        cross = kind == "inner" and not natural
        return Join(left, right, "cross" if cross else kind, keyword, natural=natural, place=place)
    if t[on].word == "ON":
        return Join(left, right, kind, keyword, r.conjuncts(on + 1, hi), place=place)
    return Join(left, right, kind, keyword, using=_using(r, on, hi), place=place)


def join_to(r: Reader, left: Logical, lo: int, hi: int) -> Logical:
    """Read one join without its left side, as behind a pipe."""
    joins = _join_words(r, lo, hi)
    if len(joins) != 1 or joins[0][0] != lo:
        raise r.fail("one join behind each pipe is supported", joins[1][0] if len(joins) > 1 else lo)
    return _join(r, left, *joins[0], hi)


def _primary(r: Reader, lo: int, hi: int) -> Logical:
    """One relation: a table, a subquery, joins in parentheses, VALUES, a function."""
    t = r.tokens
    if lo >= hi:
        raise r.fail("a relation is missing", lo)
    lateral = t[lo].word == "LATERAL"
    body = lo + lateral
    word = t.word(body, hi)
    if word == "(":
        return _parenthesized(r, lo, body, hi, lateral=lateral)
    if word == "VALUES":
        end = next((i for i in t.top(body, hi) if t[i].word == "AS" or (t[i].is_name and i > body)), hi)
        alias, renames, _ = _alias(r, end, hi)
        return Opaque(r.scalar(lo, hi), alias, renames)
    if not t[body].is_name:
        raise r.fail(f"{word or 'this'} is not a supported relation", body)
    end = body + 1
    while t.word(end, hi) == "." and end + 1 < hi:
        end += 2
    if t.word(end, hi) == "(" or lateral:
        close = t.match[end] + 1 if t.word(end, hi) == "(" else end
        alias, renames, _ = _alias(r, close, hi)
        return Opaque(r.scalar(lo, hi), alias, renames, lateral)
    name = tuple(t[i].text for i in range(body, end, 2))
    alias, renames, plain = _alias(r, end, hi)
    key = r.cte_key(name[0]) if len(name) == 1 else ""
    as_of = _as_of(r, end, hi, alias)
    return Scan(name, t.slice(body, end), alias or name[-1], renames, t.slice(end, hi), plain, key, as_of)


def _parenthesized(r: Reader, lo: int, opening: int, hi: int, *, lateral: bool) -> Logical:
    """A subquery, or joins in parentheses."""
    t = r.tokens
    close = t.match[opening]
    alias, renames, plain = _alias(r, close + 1, hi)
    if not plain:
        return Opaque(r.scalar(lo, hi), alias, renames, lateral)
    suffix = t.slice(close + 1, hi)
    if alias and (table := _whole_table(r, opening + 1, close)):
        return Nested(table, alias, renames, suffix)
    if _is_query(r, opening):
        return Derived(r.read_query(r, opening + 1, close), alias, renames, suffix, lateral)
    if lateral:
        raise r.fail("LATERAL before joins in parentheses is not supported", lo)
    return Nested(from_clause(r, opening + 1, close), alias, renames, suffix)


def _whole_table(r: Reader, lo: int, hi: int) -> Scan | None:
    """The table of ``TABLE t``; its text keeps the word, which only parentheses with a name may hold."""
    t = r.tokens
    if t.word(lo, hi) != "TABLE" or hi - lo < 2 or (hi - lo) % 2:
        return None
    if not all(t[i].is_name if (i - lo) % 2 else t[i].word == "." for i in range(lo + 1, hi)):
        return None
    name = tuple(t[i].text for i in range(lo + 1, hi, 2))
    return Scan(name, t.slice(lo, hi), name[-1], cte=r.cte_key(name[0]) if len(name) == 1 else "")


def _as_of(r: Reader, lo: int, hi: int, alias: str | None) -> Scalar | None:
    """The time of ``[FOR] SYSTEM_TIME AS OF time [[AS] alias]``; None where the words behind a name are others."""
    t = r.tokens
    start = lo + (t.word(lo, hi) == "FOR")
    if t.word(start, hi) not in ("SYSTEM_TIME", "TIMESTAMP") or t.word(start + 1, hi) != "AS":
        return None
    if t.word(start + 2, hi) != "OF":
        return None
    end = hi
    if alias is not None:
        end = t.match[hi - 1] - 1 if t[hi - 1].word == ")" else hi - 1
        end -= t[end - 1].word == "AS"
    return r.scalar(start + 3, end)


def _is_query(r: Reader, opening: int) -> bool:
    """Whether a parenthesis holds a query rather than joins."""
    t = r.tokens
    i = opening + 1
    while t.word(i) == "(":
        i += 1
    if t.word(i) not in QUERY_STARTS:
        return False
    tops = t.top(opening + 1, t.match[opening])
    if any(t[j].word in ("UNION", "INTERSECT", "EXCEPT", "MINUS") for j in tops):
        return True
    return i == opening + 1 or not any(t[j].word in ("JOIN", ",") or t[j].is_name for j in tops)


def _alias(r: Reader, lo: int, hi: int) -> tuple[str | None, tuple[str, ...], bool]:
    """Read ``[AS] name [(columns)]`` at the end of a relation: name, columns, and whether that is all there is."""
    t = r.tokens
    if lo >= hi:
        return None, (), True
    end = hi
    renames: tuple[str, ...] = ()
    if t[hi - 1].word == ")" and t[t.match[hi - 1] - 1].is_name and t.match[hi - 1] - 1 >= lo:
        opening = t.match[hi - 1]
        if t[opening - 1].word in ("TABLESAMPLE", "OPTIONS"):
            return None, (), False
        renames = tuple(t[a].text for a, b in t.split(opening + 1, hi - 1) if b - a == 1)
        end = opening
    if not t[end - 1].is_name:
        return None, (), False
    before = end - 1
    if before > lo and t[before - 1].word == "AS":
        before -= 1
    plain = before == lo
    if not plain and t[before - 1].word in ("OF", "AS", ".", "WITH"):
        return None, (), False
    return t[end - 1].text, renames, plain


def _lateral_view(r: Reader, child: Logical, lo: int, hi: int) -> LateralView:
    t = r.tokens
    call = lo + 2 + (t.word(lo + 2, hi) == "OUTER")
    if t.word(call + 1, hi) != "(":
        raise r.fail("this LATERAL VIEW is not supported", lo)
    i = t.match[call + 1] + 1
    alias = ""
    if i < hi and t[i].word != "AS":
        alias = t[i].text
        i += 1
    if t.word(i, hi) == "AS":
        i += 1
    columns = tuple(t[a].text for a, b in t.split(i, hi) if b - a == 1) if i < hi else ()
    return LateralView(child, r.scalar(lo, hi), alias, columns)
