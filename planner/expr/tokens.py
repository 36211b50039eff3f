"""Tokenizes statements with sqlglot's Spark tokenizer, and matches brackets.

Everything that reads structure reads it here, on positions into the user's own text, so that whatever is not
rewritten can be printed back to the letter.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import lru_cache

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from dovetail.planner.errors import Place, UnmatchedBracket, Unsupported
from dovetail.planner.expr import dialect

_OPEN = {TokenType.L_PAREN: TokenType.R_PAREN, TokenType.L_BRACKET: TokenType.R_BRACKET}
_CLOSE = frozenset(_OPEN.values())
_SIGNS = frozenset(("<<", ">>", ">>>", "!>", "!<"))  # signs of Spark's that come in pieces
_TEXTS = frozenset({TokenType.STRING, TokenType.RAW_STRING, TokenType.IDENTIFIER, TokenType.HINT})


@dataclass(frozen=True)
class Token:
    """One token: ``word`` is its text in capitals, empty for strings and quoted names.

    ``start`` and ``end`` are offsets into the statement, ``end`` exclusive.
    """

    word: str
    text: str
    kind: TokenType
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        """Whether this can be an identifier: a quoted name, or a bare word."""
        return self.kind is TokenType.IDENTIFIER or (
            bool(self.word) and (self.word[0].isalpha() or self.word[0] == "_") and self.word not in RESERVED
        )


RESERVED = frozenset(
    "SELECT FROM WHERE GROUP ORDER HAVING JOIN ON USING UNION INTERSECT EXCEPT MINUS LATERAL CROSS INNER NATURAL "
    "LEFT RIGHT FULL SEMI ANTI AND OR NOT CASE WHEN THEN ELSE END BETWEEN IN EXISTS AS".split()
)


_SHORT = 1000  # characters: several rules read the words of one expression, and whole statements are read once


@dataclass(frozen=True)
class Tokens:
    """A tokenized statement: ``match[i]`` is the index of the bracket that closes or opens bracket ``i``."""

    text: str
    items: tuple[Token, ...]
    match: dict[int, int]
    lines: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Token:
        return self.items[index]

    def word(self, index: int, end: int | None = None) -> str:
        """The word at ``index``, or nothing past ``end`` or the last token."""
        return self.items[index].word if index < (len(self.items) if end is None else end) else ""

    def slice(self, lo: int, hi: int) -> str:
        """The user's text from token ``lo`` up to token ``hi`` (exclusive), comments in between included."""
        return self.text[self.items[lo].start : self.items[hi - 1].end] if hi > lo else ""

    def place(self, offset: int) -> Place:
        """Line and column of an offset."""
        line = bisect_right(self.lines, offset)
        return Place(line, offset - self.lines[line - 1] + 1)

    def top(self, lo: int, hi: int) -> list[int]:
        """Indices of the tokens in ``[lo, hi)`` outside any bracket; an opening bracket itself is included."""
        found = []
        i = lo
        while i < hi:
            found.append(i)
            i = self.match.get(i, i) + 1 if self.items[i].kind in _OPEN else i + 1
        return found

    def split(self, lo: int, hi: int) -> list[tuple[int, int]]:
        """Cut ``[lo, hi)`` at every comma outside brackets."""
        cuts = [i for i in self.top(lo, hi) if self.items[i].word == ","]
        return list(zip([lo, *(c + 1 for c in cuts)], [*cuts, hi], strict=True))


def words(text: str) -> list[str]:
    """Return the words of a statement for comparison, without a final semicolon."""
    found = [" ".join(t.word.split()) or f"{t.kind}:{t.text}" for t in tokenize(text).items]
    while found and found[-1] == ";":
        found.pop()
    return found


def exact_words(text: str) -> list[str]:
    """Return the words of SQL in a form that is equal only for equivalent SQL if names are case-insensitive.

    What stands behind a dot or a colon may be a key of a map or a parameter, whose case counts; strings are as written.
    """
    t, found = tokenize(text), []
    for i, token in enumerate(t.items):
        token_text = text[token.start : token.end]
        exact = not token.word or (i and t[i - 1].word in (".", ":", "::")) or "->" in text
        found.append(token_text if exact else token.word)
    return found


def mentioned(text: str) -> frozenset[str]:
    """The words of an expression, the columns that it names among them; ``*`` where it stands for all columns."""
    t = tokenize(text)
    return frozenset(t[i].text for i in range(len(t)) if t[i].word != "*" or _is_star(t, i))


def _is_star(t: Tokens, i: int) -> bool:
    """Whether a ``*`` selects columns, and neither multiplies nor counts rows."""
    if not i or t.word(i - 1) in (".", ",", "SELECT", "ALL", "DISTINCT"):
        return True
    return t.word(i - 1) == "(" and (i < 2 or t.word(i - 2) != "COUNT")


def called(text: str) -> frozenset[str]:
    """The names before a parenthesis, in capitals, without a database before them: functions, if they are any."""
    t = tokenize(text)
    names = (i for i in range(len(t) - 1) if t[i + 1].word == "(" and (not i or t[i - 1].word != "."))
    return frozenset(t[i].text.upper() for i in names if t[i].word or t[i].kind is TokenType.IDENTIFIER)


def tokenize(text: str) -> Tokens:
    """Tokenize Spark SQL.

    Raises ``Unsupported`` for what the tokenizer does not read or for brackets that do not match; Spark decides then.
    """
    return _remembered(text) if len(text) <= _SHORT else _tokenize(text)


@lru_cache(maxsize=1024)
def _remembered(text: str) -> Tokens:
    return _tokenize(text)


def tokenize_unmatched(text: str) -> Tokens:
    """Tokenize a text whose brackets need not match."""
    return _tokenize(text, matched=False)


def _tokenize(text: str, *, matched: bool = True) -> Tokens:
    try:
        raw = dialect.tokens(text)
    except TokenError as error:
        raise Unsupported(f"the tokenizer cannot read it: {str(error).splitlines()[0]}") from error
    items: list[Token] = []
    stack: list[int] = []
    match: dict[int, int] = {}
    lines = (0, *(i + 1 for i, c in enumerate(text) if c == "\n"))
    for t in raw:
        if items and t.start < items[-1].end:
            continue  # 1L comes as three tokens over one piece of text
        word = "" if t.token_type in _TEXTS else text[t.start : t.end + 1].upper()
        if items and t.start == items[-1].end and items[-1].word + word in _SIGNS:
            before = items.pop()
            items.append(replace(before, word=before.word + word, text=before.text + t.text, end=t.end + 1))
            continue
        index = len(items)
        items.append(Token(word, t.text, t.token_type, t.start, t.end + 1))
        if not matched:
            continue
        if t.token_type in _OPEN:
            stack.append(index)
        elif t.token_type in _CLOSE:
            if not stack or _OPEN[items[stack[-1]].kind] is not t.token_type:
                raise _unmatched(items[index], lines, "opens")
            opened = stack.pop()
            match[opened], match[index] = index, opened
    if stack:
        raise _unmatched(items[stack[-1]], lines, "closes")
    return Tokens(text, tuple(items), match, lines)


def _unmatched(bracket: Token, lines: tuple[int, ...], lacks: str) -> UnmatchedBracket:
    place = Tokens("", (), {}, lines).place(bracket.start)
    return UnmatchedBracket(f"its brackets do not match: nothing {lacks} this {bracket.text}", place)
