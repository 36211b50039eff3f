"""Parses SQL to a logical plan: a reader of clauses, on the tokens of the user's own text.

The reader cuts a statement into its queries, a query into its clauses, FROM into its relations and joins; every
expression stays the slice of text it was.  sqlglot tokenizes, and parses single expressions when a rule needs them
(``Scalar.tree``).  A subquery that cannot be carried becomes a ``Verbatim`` leaf with a note; a statement that cannot
be carried raises ``Unsupported``.  ``to_sql`` of the plan gives back the very tokens that came in
(``optimizer/planning/validation.py``).
"""

from __future__ import annotations

from collections.abc import Callable

from dovetail.planner.catalog import Settings
from dovetail.planner.errors import Unsupported
from dovetail.planner.expr import HOLE, Scalar
from dovetail.planner.expr.tokens import Token, Tokens, tokenize
from dovetail.planner.hints.blocks import block_range
from dovetail.planner.logical import (
    Cte,
    Filter,
    Logical,
    OneRow,
    Project,
    SetOp,
    Statement,
    Values,
    Verbatim,
    Windows,
    With,
    Wrapped,
)
from dovetail.planner.sql.from_clause import from_clause
from dovetail.planner.sql.group_by import group_by
from dovetail.planner.sql.order_by import limit, sort
from dovetail.planner.sql.pipes import PipeReaders, pipeline
from dovetail.planner.sql.reader import QUERY_STARTS, Note, Reader
from dovetail.planner.sql.statements import find_query

_ClauseReader = Callable[[Reader, Logical, int, int], Logical]
_TAILS: dict[str, _ClauseReader] = {
    "ORDER BY": sort,
    "SORT BY": sort,
    "CLUSTER BY": sort,
    "DISTRIBUTE BY": sort,
    "LIMIT": limit,
    "OFFSET": limit,
}
_CLAUSES = ("FROM", "WHERE", "GROUP BY", "HAVING", "QUALIFY", "WINDOW")


def from_sql(text: str, settings: Settings | None = None) -> tuple[Logical, tuple[Note, ...]]:
    """Read a statement of Spark SQL, under the settings of a session.

    Returns the logical plan and a note for every piece that was kept as text.  Raises ``Unsupported``, with the place,
    for a statement that is not a query, or that the reader does not understand: Spark gets it as written.
    """
    t = tokenize(text)
    hi = len(t)
    while hi and t[hi - 1].word == ";":
        hi -= 1
    if not hi:
        raise Unsupported("there is no statement")
    if semicolon := next((t[i] for i in range(hi) if t[i].word == ";"), None):
        raise Unsupported("more than one statement; hand over each alone", t.place(semicolon.start))
    if HOLE in text:
        raise Unsupported(f"names that begin with {HOLE} are reserved for Dovetail")
    parts = find_query(t, hi)
    (before, behind), (start, end) = parts.prefix, parts.query
    reader = Reader(t, query, settings or Settings(), prefix=parts.prefix)
    plan = query(reader, start, end, local=False)
    if before < behind:
        offset = t[before].start
        suffix = text[t[end].start : t[hi - 1].end] if end < hi else ""
        plan = Statement(text[offset if before else 0 : t[behind].start], plan, suffix, offset if before else 0)
    return plan, tuple(reader.notes)


def read_again(text: str, settings: Settings, scopes: list[dict[str, str]]) -> Logical:
    """Read a query alone that stands inside WITH definitions of these names.  Raises ``Unsupported``."""
    t = tokenize(text)
    return query(Reader(t, query, settings, list(scopes)), 0, len(t), local=False)


def query(r: Reader, lo: int, hi: int, *, local: bool = True) -> Logical:
    """Read ``[lo, hi)`` as a query; when it cannot be carried and ``local``, keep just this one as text."""
    notes = len(r.notes)
    depth = len(r.scopes)
    try:
        return _query(r, lo, hi)
    except Unsupported as reason:
        if not local or hi <= lo:
            raise
        del r.notes[notes:], r.scopes[depth:]
        t = r.tokens
        r.notes.append(Note(reason.reason, reason.place or t.place(t[lo].start)))
        return Verbatim(t.slice(lo, hi), reason.reason)


def _query(r: Reader, lo: int, hi: int) -> Logical:
    if r.tokens.word(lo, hi) == "WITH":
        return _with(r, lo, hi)
    if at := [i for i in r.tokens.top(lo, hi) if r.tokens[i].text == "|>"]:
        return pipeline(r, lo, hi, at, PipeReaders(_query, _select_list, _pipe_tails))
    body_end, tails = _tails(r.tokens, lo, hi)
    plan = _set_operation(r, lo, body_end)
    for read, a, b in tails:
        plan = read(r, plan, a, b)
    return plan


def _with(r: Reader, lo: int, hi: int) -> Logical:
    t = r.tokens
    i = lo + 1
    if t.word(i, hi) == "RECURSIVE":
        raise r.fail("recursive WITH is not supported", i)
    scope: dict[str, str] = {}
    r.scopes.append(scope)
    definitions = []
    while True:
        start, name = i, _name(r, i, hi)
        i += 1
        renames: tuple[str, ...] = ()
        if t.word(i, hi) == "(" and t.word(i + 1, hi) not in QUERY_STARTS and t.word(i + 1, hi) != "(":
            renames = _names(r, i)
            i = t.match[i] + 1
        if t.word(i, hi) == "AS":
            i += 1
        if t.word(i, hi) != "(":
            raise r.fail("this form of WITH is not supported", i)
        head = t.slice(start, i)
        inner = r.read_query(r, i + 1, t.match[i])
        key = name
        while key in r.keys:
            key += "'"
        r.keys.add(key)
        scope[r.settings.fold(name)] = key
        definitions.append(Cte(name, key, head, renames, inner))
        i = t.match[i] + 1
        if t.word(i, hi) != ",":
            break
        i += 1
    if i == r.prefix[0]:  # WITH … INSERT INTO t SELECT …
        i = r.prefix[1]
        if t.word(i, hi) == "WITH":
            raise r.fail("a WITH before INSERT and one behind it are not supported; write one", i)
    child = _query(r, i, hi)
    r.scopes.pop()
    return With(tuple(definitions), child)


def _tails(t: Tokens, lo: int, hi: int) -> tuple[int, list[tuple[_ClauseReader, int, int]]]:
    """Find ORDER BY, LIMIT and the like behind a query; returns where they begin and each one's reader and range."""
    starts = []
    for i in t.top(lo, hi):
        word = " ".join(t[i].word.split())
        if word in _TAILS and i > lo and _is_clause(t, i, hi):
            starts.append((i, word))
        elif starts and word in ("UNION", "INTERSECT", "EXCEPT", "MINUS", "FROM", "WHERE"):
            raise Unsupported(f"{word} behind {starts[-1][1]}", t.place(t[i].start))
    if not starts:
        return hi, []
    ends = [*(i for i, _ in starts[1:]), hi]
    return starts[0][0], [(_TAILS[w], i, e) for (i, w), e in zip(starts, ends, strict=True)]


def _pipe_tails(r: Reader, plan: Logical, lo: int, hi: int) -> Logical:
    """A query with the ORDER BY, LIMIT or the like of a pipe, which begins behind the pipe at ``lo - 1``."""
    for read, a, b in _tails(r.tokens, lo - 1, hi)[1]:
        plan = read(r, plan, a, b)
    return plan


def _is_clause(t: Tokens, i: int, hi: int) -> bool:
    """Distinguish the clause LIMIT from a column of that name."""
    before = t[i - 1].word
    return t[i].word.endswith(" BY") or (
        before not in (".", ",", "AS", "SELECT") and not before.endswith("BY") and _operand(t, i + 1, hi)
    )


def _operand(t: Tokens, i: int, hi: int) -> bool:
    if i >= hi:
        return False
    token: Token = t[i]
    return token.is_name or token.word in (":", "?", "(", "CASE", "-") or token.word[:1].isdigit() or token.word == ""


_SET_WORDS = frozenset({"UNION", "INTERSECT", "EXCEPT", "MINUS"})


def _set_operation(r: Reader, lo: int, hi: int) -> Logical:
    t = r.tokens
    found: list[tuple[int, int, str]] = []
    for i in t.top(lo, hi):
        if t[i].word in _SET_WORDS and i > lo:
            end = i + 1
            while t.word(end, hi) in ("ALL", "DISTINCT", "BY", "NAME"):
                end += 1
            begin = end
            while t.word(begin, hi) == "(":
                begin += 1  # SELECT * EXCEPT (a): those parentheses hold no query
            if t.word(begin, hi) in QUERY_STARTS:
                found.append((i, end, t[i].word))
    if not found:
        return _primary(r, lo, hi)
    bounds = zip([lo, *(e for _, e, _ in found)], [*(i for i, _, _ in found), hi], strict=True)
    operands = [_primary(r, a, b) for a, b in bounds]
    operators = [(t.slice(i, e), word) for i, e, word in found]
    # INTERSECT binds tighter than the others, which go from left to right.
    terms, joins = [operands[0]], []
    for (keyword, word), operand in zip(operators, operands[1:], strict=True):
        if word == "INTERSECT":
            terms[-1] = SetOp(terms[-1], operand, keyword)
        else:
            terms.append(operand)
            joins.append(keyword)
    plan = terms[0]
    for keyword, term in zip(joins, terms[1:], strict=True):
        plan = SetOp(plan, term, keyword)
    return plan


def _primary(r: Reader, lo: int, hi: int) -> Logical:
    t = r.tokens
    word = t.word(lo, hi)
    if word == "(" and t.match[lo] == hi - 1:
        return Wrapped(_query(r, lo + 1, hi - 1))
    if word == "VALUES":
        return Values(r.scalar(lo, hi))
    if word == "SELECT":
        return _select(r, lo, hi)
    if word == "FROM":
        return _from_first(r, lo, hi)
    raise r.fail(f"a query that begins with {word or 'this'} is not supported", lo)


def _from_first(r: Reader, lo: int, hi: int) -> Logical:
    """Read ``FROM t SELECT a WHERE …``, with INSERT INTO before its SELECT in a statement."""
    t = r.tokens
    insert, behind = r.prefix
    end = insert if lo < insert < hi else next((i for i in t.top(lo, hi) if t[i].word == "SELECT"), hi)
    start = behind if end == insert else end
    if t.word(start, hi) != "SELECT":
        raise r.fail("a FROM without a SELECT behind it is not supported", lo)
    if more := next((i for i in t.top(start + 1, hi) if t[i].word == "SELECT"), None):
        raise r.fail("several SELECTs behind one FROM are not supported; write a query for each, and UNION ALL", more)
    return _select(r, start, hi, (lo, end))


def _select(r: Reader, lo: int, hi: int, from_first: tuple[int, int] | None = None) -> Logical:
    at = _clauses(r, lo + 1, hi)
    starts = list(at.values())
    ranges = {word: (start, end) for (word, start), end in zip(at.items(), [*starts[1:], hi], strict=False)}
    plan: Logical = OneRow()
    if from_first:
        if "FROM" in ranges:
            raise r.fail("a second FROM is not where it is expected", ranges["FROM"][0])
        ranges["FROM"] = from_first
    if "FROM" in ranges:
        plan = from_clause(r, ranges["FROM"][0] + 1, ranges["FROM"][1])
    if "WHERE" in ranges:
        plan = Filter(plan, r.conjuncts(ranges["WHERE"][0] + 1, ranges["WHERE"][1]), "WHERE")
    if "GROUP BY" in ranges:
        plan = group_by(r, plan, ranges["GROUP BY"][0] + 1, ranges["GROUP BY"][1])
    if "HAVING" in ranges:
        plan = Filter(plan, r.conjuncts(ranges["HAVING"][0] + 1, ranges["HAVING"][1]), "HAVING")
    if "WINDOW" in ranges:
        plan = Windows(plan, r.scalar(ranges["WINDOW"][0] + 1, ranges["WINDOW"][1]))
    if "QUALIFY" in ranges:
        plan = Filter(plan, r.conjuncts(ranges["QUALIFY"][0] + 1, ranges["QUALIFY"][1]), "QUALIFY")
    items, quantifier, hint = _select_list(r, lo + 1, next(iter(at.values()), hi))
    return Project(plan, items, quantifier, hint, from_first=from_first is not None)


def _select_list(r: Reader, lo: int, hi: int) -> tuple[tuple[Scalar, ...], str, Scalar | None]:
    """The items of a select list, DISTINCT or ALL where written, and its blocks of hints."""
    t, i = r.tokens, lo
    hint, quantifier = None, ""
    if i < hi and t.text.startswith("/*+", t[i].start):
        hint = _hints(t, i)
        i += 1
    if t.word(i, hi) in ("DISTINCT", "ALL"):
        quantifier = t.slice(i, i + 1)
        i += 1
    return tuple(r.scalar(a, b) for a, b in t.split(i, hi)), quantifier, hint


def _hints(t: Tokens, i: int) -> Scalar:
    """The blocks of hints from token ``i`` on: a second one is no token, but a comment to the tokenizer."""
    start, end = t[i].start, t[i + 1].start if i + 1 < len(t) else t[i].end
    lo, hi = block_range(t.text[start:end]) or (0, end - start)
    return Scalar(t.text[start + lo : start + hi], (), t.place(start))


def _clauses(r: Reader, lo: int, hi: int) -> dict[str, int]:
    """Where each clause of a SELECT begins; they must come in SQL's order (WINDOW and QUALIFY in either)."""
    at: dict[str, int] = {}
    for i in r.tokens.top(lo, hi):
        word = " ".join(r.tokens[i].word.split())
        if word not in _CLAUSES or not _begins_clause(r.tokens, word, i, lo, hi):
            continue
        if word in at or any(_CLAUSES.index(w) > _CLAUSES.index(word) for w in at if w not in ("QUALIFY", "WINDOW")):
            raise r.fail(f"{word} is not where it is expected", i)
        at[word] = i
    if "WINDOW" in at and "QUALIFY" in at and at["WINDOW"] < at["QUALIFY"]:
        raise r.fail("WINDOW before QUALIFY is not supported", at["WINDOW"])
    return at


def _begins_clause(t: Tokens, word: str, i: int, lo: int, hi: int) -> bool:
    """Whether the word of a clause begins it here: it may be a column's name, and stands in IS DISTINCT FROM."""
    before = t[i - 1].word
    if word == "FROM" and before == "DISTINCT":
        return i - 1 <= lo
    if word == "WINDOW" and not (t.word(i + 2, hi) == "AS" and t.word(i + 3, hi) == "("):
        return False
    if word == "QUALIFY" and (i == lo or before in (",", "AS") or not _operand(t, i + 1, hi)):
        return False
    return before != "."


def _name(r: Reader, i: int, hi: int) -> str:
    if i >= hi or not r.tokens[i].is_name:
        raise r.fail("a name was expected", i)
    return r.tokens[i].text


def _names(r: Reader, opening: int) -> tuple[str, ...]:
    """Names in parentheses."""
    t = r.tokens
    return tuple(_name(r, a, b) for a, b in t.split(opening + 1, t.match[opening]))
