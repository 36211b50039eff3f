"""Masks function names, literals and operators that sqlglot would parse differently than Spark.

``mask_functions`` replaces them in the tokens before parsing, ``unmask`` restores them in the tree.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dovetail.planner.errors import Unsupported
from dovetail.planner.expr.calls import GRAMMAR, WORDS, call
from dovetail.planner.expr.dialect import COMMAS, RAW, data_type

# With a number: a subquery placeholder, which takes the place of a subquery in the text of an expression.
HOLE = "__plan_"
_CALL, _LITERAL = "__dt_call_", "__dt_literal_"
# Words before a parenthesis that are no names of functions.
_NO_CALLS = frozenset(
    "ALL AND ANY AS BETWEEN BY CASE CUBE DISTINCT DIV ELSE ESCAPE EXCEPT FROM GROUP ILIKE IN INTERVAL IS LIKE NOT "
    "ON OR ORDER OVER REGEXP RLIKE ROLLUP SELECT SETS SOME THEN USING VALUES WHEN WHERE WITHIN".split()
) | {"GROUPING SETS", *GRAMMAR}
_UNITS = frozenset("MICROSECOND MILLISECOND SECOND MINUTE HOUR DAY WEEK MONTH YEAR".split())
_SUFFIXES = {"L": "BIGINT", "S": "SMALLINT", "Y": "TINYINT", "D": "DOUBLE", "F": "FLOAT", "BD": "DECIMAL"}
_SIGNS = (TokenType.DASH, TokenType.PLUS)


def mask_functions(words: list[Token], text: str) -> tuple[list[Token], list[exp.Expr]]:
    """Mask function names, and replace some literals by their number."""
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
        elif starts_number(words, i):
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
    """Replace the keywords between the arguments of a call by commas, and return the keywords: ``FROM FOR``."""
    known = WORDS.get(words[i].text.upper(), ())
    found = {place: token for place, token in _inside(words, i + 1).items() if token.text.upper() in known}
    for place, token in found.items():
        words[place] = _as(token, TokenType.COMMA, ",")
    return "".join(f"{token.text.upper()} " for token in found.values())


def _as(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, [])


def starts_number(words: list[Token], i: int) -> bool:
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
    type_ = _SUFFIXES[words[i + 2].text.upper()]
    if type_ == "DECIMAL":  # as many digits as are written
        if "e" in words[i].text.lower():
            raise Unsupported(f"{words[i].text}BD is in exponent notation")
        before, _, behind = words[i].text.partition(".")
        type_ = f"DECIMAL({max(len(before.lstrip('0')) + len(behind), 1)},{len(behind)})"
    found = exp.Cast(this=number, to=data_type(type_))
    found.meta[RAW] = text[words[i].start : words[i].end + 1]
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
    first = _signed_value(words, i + 1) if words[i].token_type is TokenType.INTERVAL else None
    if first is None:
        return None
    value, end = first
    unit = _unit(words, end)
    if not unit:
        if words[end - 1].token_type is not TokenType.STRING or end != i + 2:
            return None
        found = exp.Interval(this=exp.Literal.string(value))
    elif end + 1 < len(words) and words[end + 1].text.upper() == "TO" and (last := _unit(words, end + 2)):
        span = exp.IntervalSpan(this=exp.var(unit), expression=exp.var(last))
        found, end = exp.Interval(this=exp.Literal.string(value), unit=span), end + 3
    else:
        found, end = exp.Interval(this=exp.Literal.string(value), unit=exp.var(unit)), end + 1
        parts = [f"{value} {unit}"]
        while end < len(words) and words[end].token_type not in _SIGNS and (more := _signed_value(words, end)):
            if not (unit := _unit(words, more[1])):
                break
            parts.append(f"{more[0]} {unit}")
            found, end = exp.Interval(this=exp.Literal.string(" ".join(parts))), more[1] + 1
    found.meta[RAW] = text[words[i].start : words[end - 1].end + 1]
    return found, end


def _signed_value(words: list[Token], i: int) -> tuple[str, int] | None:
    """A number or string at ``i`` with its sign, and where it ends; None for anything else, such as ``1L``."""
    sign = ""
    if i < len(words) and words[i].token_type in _SIGNS:
        sign, i = ("-" if words[i].token_type is TokenType.DASH else ""), i + 1
    if i >= len(words) or words[i].token_type not in (TokenType.STRING, TokenType.NUMBER):
        return None
    is_typed = i + 1 < len(words) and words[i + 1].start == words[i].start
    return None if is_typed else (sign + words[i].text, i + 1)


def _unit(words: list[Token], i: int) -> str:
    """The unit of time at ``i``; empty for another word."""
    word = words[i].text.upper() if i < len(words) and words[i].token_type is not TokenType.STRING else ""
    return word if word.removesuffix("S") in _UNITS else ""


def unmask(tree: exp.Expr, text: str, literals: list[exp.Expr]) -> exp.Expr:
    """Restore everything in the tree that was masked."""
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
                    node.meta[COMMAS] = commas
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
            node.meta[RAW] = text[node.meta["start"] : node.meta["end"] + 1]
        if new is not node:
            if node is tree:
                tree = new
                tree.parent = None
            else:
                node.replace(new)
    return tree
