"""Spark SQL for sqlglot's parser and printer: what is printed is what was read.

sqlglot's own Spark dialect knows hundreds of function names, many of them not Spark's, and prints some as others:
``to_char(v, f)`` as ``CAST(v AS STRING)``.  So every name of a function is hidden from its parser, and a call becomes a
class of sqlglot's only where its name is in ``planner/expr/calls.py``; all others stay ``exp.Anonymous``, with the name
as written.  The printer sets parentheses by Spark's precedence (``planner/expr/precedence.py``).

Reading is proved: a tree is handed out only if it prints back to the words of the text.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product, zip_longest

from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from planner.errors import Unsupported
from planner.expr.calls import GRAMMAR, WORDS, call, said
from planner.expr.precedence import enclosed

HOLE = "__plan_"
_CALL, _LITERAL = "__dt_call_", "__dt_literal_"
BEFORE = "SELECT "
_RAW = "raw"  # in the meta of a literal: its text as written
_COMMAS = "commas"  # in the meta of a call: the words that stand between its arguments
_INFIX = "infix"  # in the meta of a NOT: ``x NOT IN (1)``
# Words before a parenthesis that are no names of functions.
_NO_CALLS = frozenset(
    "ALL AND ANY AS BETWEEN BY CASE CUBE DISTINCT DIV ELSE ESCAPE EXCEPT FROM GROUP ILIKE IN INTERVAL IS LIKE NOT "
    "ON OR ORDER OVER REGEXP RLIKE ROLLUP SELECT SETS SOME THEN USING VALUES WHEN WHERE WITHIN".split()
) | {"GROUPING SETS", *GRAMMAR}
_UNITS = frozenset("MICROSECOND MILLISECOND SECOND MINUTE HOUR DAY WEEK MONTH YEAR".split())
_TYPES = {"INTEGER": "INT", "LONG": "BIGINT", "SHORT": "SMALLINT", "BYTE": "TINYINT", "REAL": "FLOAT"}
_SAME = {"!=": "<>", "==": "=", "!": "NOT", "REGEXP": "RLIKE", "DEC": "DECIMAL", "NUMERIC": "DECIMAL", **_TYPES}
_SUFFIXES = {"L": "BIGINT", "S": "SMALLINT", "Y": "TINYINT", "D": "DOUBLE", "F": "FLOAT", "BD": "DECIMAL"}
_PREDICATES = (exp.In, exp.Between, exp.Is, exp.RegexpLike)
_SIGNS = (TokenType.DASH, TokenType.PLUS)
_TEXTS = (TokenType.STRING, TokenType.RAW_STRING, TokenType.HEX_STRING)
_MOST_NOTS = 4


class _Dialect(Spark):  # type: ignore[misc]
    class Tokenizer(Spark.Tokenizer):  # type: ignore[misc]
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012  'it''s' is one text to Spark since 4.0


_DIALECT = _Dialect()


def tokens(text: str) -> list[Token]:
    """The tokens of Spark SQL.  Raises ``TokenError``; ``1L`` is three tokens over one piece of text."""
    return _DIALECT.tokenize(text)  # type: ignore[no-any-return]


def parse_statement(text: str) -> list[exp.Expr | None]:
    """All of a text as sqlglot's own Spark dialect reads it, for its structure.  Raises ``SqlglotError``."""
    return _DIALECT.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens(text), text)  # type: ignore[no-any-return]


def read(text: str) -> exp.Expr:
    """Parse one expression, a tree that nobody may change.

    Raises ``Unsupported`` where sqlglot cannot read it, or what it reads is not the same expression.
    """
    found = _read(text)
    if isinstance(found, str):
        raise Unsupported(found)
    return found


@lru_cache(maxsize=4096)
def _read(text: str) -> exp.Expr | str:
    whole = BEFORE + text
    try:
        words = tokens(whole)
        shown, literals = _hidden(words, whole)
        (select,) = _DIALECT.parser(error_level=ErrorLevel.IMMEDIATE).parse(shown, whole)
        if not isinstance(select, exp.Select) or len(select.expressions) != 1 or _has_more(select):
            return f"{text!r} is not one expression"
        found = _meant(select.expressions[0], whole, literals)
        if _is_plain(found) and _prints_back(found, text, _compared(words, whole)):
            return found
    except (SqlglotError, Unsupported):
        pass
    except (ValueError, AttributeError, TypeError, KeyError, IndexError, RecursionError):
        pass  # sqlglot's own faults, over what it does not know
    return f"only Spark reads {' '.join(text.split())}"


def _is_plain(tree: exp.Expr) -> bool:
    """Whether names stand where names should: ``a:b`` is no alias."""
    if not all(isinstance(node.args.get("alias"), exp.Identifier) for node in tree.find_all(exp.Alias)):
        return False
    if not all(isinstance(node.this, exp.Identifier | exp.Star) for node in tree.find_all(exp.Column)):
        return False
    return not any(_is_variable(column) for lam in tree.find_all(exp.Lambda) for column in lam.find_all(exp.Column))


def _is_variable(column: exp.Column) -> bool:
    """Whether a column is a variable of a lambda around it in another case, which sqlglot does not know for one."""
    name, around = column.parts[0].name.lower(), column.find_ancestor(exp.Lambda)
    while around is not None:
        if any(variable.name.lower() == name for variable in around.expressions):
            return True
        around = around.find_ancestor(exp.Lambda)
    return False


def _prints_back(tree: exp.Expr, text: str, words: list[str]) -> bool:
    """Whether a tree prints to these words; finds out where NOT stands in ``x NOT IN (1)`` and ``NOT x IN (1)``."""
    bare = text.replace(" ", "")
    nots = [node for node in tree.find_all(exp.Not) if isinstance(node.this, _PREDICATES)]
    for ways in product((True, False), repeat=min(len(nots), _MOST_NOTS)):
        for node, infix in zip_longest(nots, ways, fillvalue=True):
            node.meta[_INFIX] = infix  # type: ignore[union-attr]
        printed = print_sql(tree)
        if printed.replace(" ", "") == bare or words == _words(BEFORE + printed):
            return True
    return False


def _has_more(select: exp.Select) -> bool:
    return any(value for name, value in select.args.items() if name != "expressions")


def print_sql(tree: exp.Expr) -> str:
    """Print a tree as Spark SQL.  Raises ``Unsupported`` for one that sqlglot cannot say in it."""
    try:
        return _spelt(enclosed(tree)).sql(
            dialect=_DIALECT,
            copy=False,
            comments=False,
            normalize_functions=False,
            unsupported_level=ErrorLevel.IMMEDIATE,
        )
    except SqlglotError as error:
        raise Unsupported(str(error).splitlines()[0]) from error


def plain_spelling(tree: exp.Expr) -> exp.Expr:
    """A copy of a tree without what tells how it was written: names that mean one function, forms of casts, quotes.

    The case of names that are no columns (of parameters, map keys, variables) is left alone.
    """
    root: exp.Expr = tree.copy()
    for node in list(root.walk(bfs=False))[::-1]:
        if isinstance(node, exp.Paren):
            if node is root:
                root = node.this
                root.parent = None
            else:
                node.replace(node.this)
            continue
        said = str(node.meta.get(_RAW, ""))
        kept = isinstance(node, exp.RawString | exp.HexString) or any(c in said[1:-1] for c in "\\'\"\n")
        for key in ("called", "form", _INFIX, *(() if kept else (_RAW,))):
            node.meta.pop(key, None)
        if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc) and isinstance(node.this, str):
            node.set("this", node.this.upper())
    return root


def _hidden(words: list[Token], text: str) -> tuple[list[Token], list[exp.Expr]]:
    """The tokens as sqlglot's parser is to see them: names of functions hidden, some literals said by number."""
    shown: list[Token] = []
    literals: list[exp.Expr] = []
    types = _types(words)
    words = list(words)
    i = 0
    while i < len(words):
        token, after = words[i], words[i + 1] if i + 1 < len(words) else None
        if literal := _interval(words, i, text) or _typed_number(words, i, text):
            name = _as(token, TokenType.VAR, f"{_CALL}{_LITERAL}{len(literals)}")
            shown += [name, _as(token, TokenType.L_PAREN, "("), _as(token, TokenType.R_PAREN, ")")]
            literals.append(literal[0])
            i = literal[1]
            continue
        if token.token_type is TokenType.MOD:
            token = _as(token, TokenType.LR_ARROW, "<->")  # binds like a product, as % does in Spark
        elif token.token_type is TokenType.DPIPE:
            token = _as(token, TokenType.MOD, "%")  # and || like a sum
        elif token.token_type is TokenType.DCOLON:
            token = _as(token, TokenType.DOTCOLON, ".:")
        elif _starts_number(words, i):
            token, i = _as(words[i + 1], TokenType.NUMBER, f"0.{words[i + 1].text}"), i + 1
        elif after and after.token_type is TokenType.L_PAREN and _is_call(words, i, types):
            quoted = token.token_type is TokenType.IDENTIFIER
            commas = "" if quoted else _comma_words(words, i)
            token = _as(token, TokenType.VAR, f"{_CALL}{commas}{'`' if quoted else ''}{token.text}")
            if i + 2 < len(words) and words[i + 2].token_type is TokenType.ALL:  # sum(ALL v): what it does without
                shown += [token, after]
                i += 3
                continue
        shown.append(token)
        i += 1
    return shown, literals


def _comma_words(words: list[Token], i: int) -> str:
    """Turn the words between the arguments of a call into commas, and tell what they were: ``FROM FOR``."""
    known = WORDS.get(words[i].text.upper(), ())
    found = {place: token for place, token in _inside(words, i + 1).items() if token.text.upper() in known}
    for place, token in found.items():
        words[place] = _as(token, TokenType.COMMA, ",")
    return "".join(f"{token.text.upper()} " for token in found.values())


def _as(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, [])


def _starts_number(words: list[Token], i: int) -> bool:
    """Whether a dot and digits behind it are a number: ``.5``."""
    if words[i].token_type is not TokenType.DOT or i + 1 == len(words):
        return False
    before, after = words[i - 1], words[i + 1]
    if after.token_type is not TokenType.NUMBER or after.start != words[i].end + 1:
        return False
    return before.end + 1 < words[i].start or not (before.text[-1:].isalnum() or before.text[-1:] in "_)]`")


def _is_call(words: list[Token], i: int, types: set[int]) -> bool:
    """Whether the word before a parenthesis names a function."""
    if words[i].token_type is TokenType.IDENTIFIER:
        return True
    upper = words[i].text.upper()
    if not (upper[:1].isalpha() or upper[:1] == "_") or i in types:
        return False
    if upper == "TRIM":
        return not any(token.text.upper() == "FROM" for token in _inside(words, i + 1).values())
    inside = words[i + 2].text.upper() if i + 2 < len(words) else ""
    if upper in ("FILTER", "EXISTS"):
        return inside != "WHERE" and not inside.startswith(HOLE.upper())
    return upper not in _NO_CALLS


def _inside(words: list[Token], opening: int) -> dict[int, Token]:
    """The tokens between a parenthesis and the one that closes it, outside further ones, by their places."""
    depth, found = 0, {}
    for place, token in enumerate(words[opening:], opening):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if not depth:
            break
        if depth == 1:
            found[place] = token
    return found


def _typed_number(words: list[Token], i: int, text: str) -> tuple[exp.Expr, int] | None:
    """``1L``, which the tokenizer makes three tokens over one piece of text."""
    if words[i].token_type is not TokenType.NUMBER or i + 2 >= len(words) or words[i + 1].start != words[i].start:
        return None
    number = exp.Literal.number(words[i].text)
    found = exp.Cast(this=number, to=exp.DataType.build(_SUFFIXES[words[i + 2].text.upper()], dialect="spark"))
    found.meta[_RAW] = text[words[i].start : words[i].end + 1]
    return found, i + 3


def _types(words: list[Token]) -> set[int]:
    """The tokens that are part of a type: behind AS in a CAST, and behind ``::``."""
    found: set[int] = set()
    casts: list[int] = []
    for i, token in enumerate(words):
        if token.token_type is TokenType.L_PAREN:
            casts.append(1 if i and words[i - 1].text.upper() in ("CAST", "TRY_CAST") else 0)
        elif token.token_type is TokenType.R_PAREN and casts:
            casts.pop()
        elif token.text.upper() == "AS" and casts and casts[-1] == 1:
            casts[-1] = 2
        if 2 in casts or (i and words[i - 1].token_type is TokenType.DCOLON):
            found.add(i)
    return found


def _interval(words: list[Token], i: int, text: str) -> tuple[exp.Interval, int] | None:
    """An interval literal whose keyword stands at ``i``, and where it ends; None for anything else."""

    def at(n: int) -> Token | None:
        return words[n] if n < len(words) else None

    def value(n: int) -> tuple[str, int] | None:
        sign, token = "", at(n)
        if token and token.token_type in _SIGNS:
            sign, n = ("-" if token.token_type is TokenType.DASH else ""), n + 1
            token = at(n)
        if token is None or token.token_type not in (TokenType.STRING, TokenType.NUMBER):
            return None
        after = at(n + 1)
        plain = after is None or after.start != token.start  # not 1L
        return (sign + token.text, n + 1) if plain else None

    def unit(n: int) -> str:
        token = at(n)
        word = token.text.upper() if token and token.token_type is not TokenType.STRING else ""
        return word if word.removesuffix("S") in _UNITS else ""

    first = value(i + 1) if words[i].token_type is TokenType.INTERVAL else None
    if first is None:
        return None
    said, end = first
    if not unit(end):
        if words[end - 1].token_type is not TokenType.STRING or end != i + 2:
            return None
        found = exp.Interval(this=exp.Literal.string(said))
    else:
        last = at(end + 1)
        if last is not None and last.text.upper() == "TO" and unit(end + 2):
            span = exp.IntervalSpan(this=exp.var(unit(end)), expression=exp.var(unit(end + 2)))
            found, end = exp.Interval(this=exp.Literal.string(said), unit=span), end + 3
        else:
            parts = [(said, unit(end))]
            end += 1
            while (
                (more := value(end)) and unit(more[1]) and words[end].token_type in (TokenType.STRING, TokenType.NUMBER)
            ):
                parts.append((more[0], unit(more[1])))
                end = more[1] + 1
            if len(parts) == 1:
                found = exp.Interval(this=exp.Literal.string(said), unit=exp.var(parts[0][1]))
            else:
                found = exp.Interval(this=exp.Literal.string(" ".join(f"{v} {u}" for v, u in parts)))
    found.meta[_RAW] = text[words[i].start : words[end - 1].end + 1]
    return found, end


def _meant(tree: exp.Expr, text: str, literals: list[exp.Expr]) -> exp.Expr:
    """The tree with everything that was hidden from the parser back in its place."""
    for node in list(tree.walk(bfs=False))[::-1]:
        new: exp.Expr = node
        if isinstance(node, exp.Anonymous) and isinstance(node.this, str):
            name = node.this.removeprefix(_CALL)
            if name.startswith(_LITERAL):
                new = literals[int(name.removeprefix(_LITERAL))]
            elif name.startswith("`"):
                node.set("this", exp.to_identifier(name[1:], quoted=True))
            else:
                *commas, name = name.split(" ")
                if commas:
                    node.meta[_COMMAS] = commas
                node.set("this", name)
                new = node if isinstance(node.parent, exp.Dot) else call(name, node.expressions, node)
        elif isinstance(node, exp.Distance):
            new = exp.Mod(this=node.this, expression=node.expression)
        elif isinstance(node, exp.Mod):
            new = exp.DPipe(this=node.this, expression=node.expression)
        elif isinstance(node, exp.JSONCast):
            new = exp.Cast(this=node.this, to=node.args["to"])
            new.meta["form"] = "::"
        elif type(node) is exp.Cast and not node.meta:
            node.meta["form"] = "typed"
        elif (node.is_string or isinstance(node, exp.RawString | exp.HexString)) and "start" in node.meta:
            node.meta[_RAW] = text[node.meta["start"] : node.meta["end"] + 1]
        if new is not node:
            if node is tree:
                tree = new
                tree.parent = None
            else:
                node.replace(new)
    return tree


def _spelt(tree: exp.Expr) -> exp.Expr:
    """A tree, which is given away, as sqlglot's printer says it the way it is meant."""
    for node in list(tree.walk(bfs=False))[::-1]:
        new = _said(node)
        if new is None:
            continue
        if node is tree:
            tree = new
        else:
            node.replace(new)
    return tree


def _said(node: exp.Expr) -> exp.Expr | None:
    """What is printed in the place of a node whose operands are as they are printed; None for itself."""
    if _RAW in node.meta:
        return exp.Var(this=node.meta[_RAW])
    match node:
        case exp.Interval() if isinstance(node.this, exp.Literal) and node.args.get("unit") is None:
            return exp.Var(this=f"INTERVAL {_text(node.this)}")
        case exp.CurrentDate() | exp.CurrentTimestamp() if not node.meta:
            return exp.Var(this="current_date" if isinstance(node, exp.CurrentDate) else "current_timestamp")
        case exp.Not() if node.meta.get(_INFIX) and isinstance(node.this, _PREDICATES):
            operand, whole = _text(node.this.this), _text(node.this)
            rest = whole[len(operand) :].strip()
            return exp.Var(
                this=f"{operand} " + (f"IS NOT {rest[3:]}" if isinstance(node.this, exp.Is) else f"NOT {rest}")
            )
        case exp.NullSafeEQ():
            return exp.Var(this=f"{_text(node.this)} <=> {_text(node.expression)}")
        case exp.BitwiseLeftShift() | exp.BitwiseRightShift():
            sign = "<<" if isinstance(node, exp.BitwiseLeftShift) else ">>"
            return exp.Var(this=f"{_text(node.this)} {sign} {_text(node.expression)}")
    if commas := node.meta.get(_COMMAS):
        first, *others = map(_text, node.expressions)
        rest = "".join(f" {word} {argument}" for word, argument in zip(commas, others, strict=False))
        return exp.Var(this=f"{node.name}({first}{rest})") if len(others) == len(commas) else None
    if found := said(node):
        return exp.Anonymous(this=found[0], expressions=found[1])
    if isinstance(node, exp.Cast):
        form, type_ = node.meta.get("form"), _text(node.to)
        if form == "::":
            return exp.Var(this=f"{_text(node.this)}::{type_}")
        return exp.Var(this=f"{type_} {_text(node.this)}") if form == "typed" else None
    return None


def _text(tree: exp.Expr) -> str:
    return tree.sql(dialect=_DIALECT, copy=False, comments=False, normalize_functions=False)


def _words(text: str) -> list[str]:
    return _compared(tokens(text), text)


def _compared(words: list[Token], text: str) -> list[str]:
    """The tokens of an expression in a form in which two that say the same are equal.

    AS is left to taste, and so is ALL in ``sum(ALL v)``.
    """
    found: list[str] = []
    for i, token in enumerate(words):
        if token.token_type in _TEXTS:
            found.append(text[token.start : token.end + 1])
        elif token.token_type is TokenType.IDENTIFIER:
            found.append(f"`{token.text}")
        elif _starts_number(words, i):
            continue
        elif i and _starts_number(words, i - 1):
            found.append(f"0.{token.text}")
        elif token.text.upper() != "AS" and (token.text.upper() != "ALL" or found[-1:] != ["("]):
            said = token.text.upper()
            found.append(_SAME.get(said, said))
            if found[-4:] == ["IS", "NOT", "DISTINCT", "FROM"]:
                found[-4:] = ["<=>"]
    return found
