"""Parses Spark SQL with sqlglot, and verifies that the tree prints back to the same SQL.

sqlglot's own Spark dialect knows hundreds of function names, many of them not Spark's, and prints some as others:
``to_char(v, f)`` as ``CAST(v AS STRING)``.  So every name of a function is hidden from its parser
(``planner/expr/mask_functions.py``), and a call becomes a class of sqlglot's only where its name is in
``planner/expr/calls.py``; all others stay ``exp.Anonymous``, with the name as written.

Reading is proved: a tree is handed out only if it prints back to the words of the text.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product, zip_longest

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from dovetail.planner.errors import Unsupported
from dovetail.planner.expr.dialect import INFIX, PREDICATES, parse, tokens
from dovetail.planner.expr.mask_functions import mask_functions, starts_number, unmask
from dovetail.planner.expr.printing import print_sql

BEFORE = "SELECT "
_TYPES = {"INTEGER": "INT", "LONG": "BIGINT", "SHORT": "SMALLINT", "BYTE": "TINYINT", "REAL": "FLOAT"}
_SAME = {"!=": "<>", "==": "=", "!": "NOT", "REGEXP": "RLIKE", "DEC": "DECIMAL", "NUMERIC": "DECIMAL", **_TYPES}
_TEXTS = (TokenType.STRING, TokenType.RAW_STRING, TokenType.HEX_STRING)
_TYPED_LITERALS = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
_MOST_NOTS = 4


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
        if _casts_a_typed_literal(words):
            raise Unsupported("sqlglot casts the text before the type that stands before it")
        shown, literals = mask_functions(words, whole)
        (select,) = parse(shown, whole)
        if not isinstance(select, exp.Select) or len(select.expressions) != 1 or _has_more(select):
            return f"{text!r} is not one expression"
        found = unmask(select.expressions[0], whole, literals)
        if _is_plain(found) and _prints_back(found, text, _compared(words, whole)):
            return found
    except (SqlglotError, Unsupported):
        pass
    except (ValueError, AttributeError, TypeError, KeyError, IndexError, RecursionError):
        pass  # sqlglot's own faults, over what it does not know
    return f"only Spark reads {' '.join(text.split())}"


def _casts_a_typed_literal(words: list[Token]) -> bool:
    """Whether ``DATE '2024-01-01'::STRING`` is among the words."""
    return any(
        words[i].token_type is TokenType.DCOLON
        and words[i - 1].token_type in _TEXTS
        and words[i - 2].text.upper() in _TYPED_LITERALS
        for i in range(2, len(words))
    )


def _is_plain(tree: exp.Expr) -> bool:
    """Whether names stand where names should: ``a:b`` is no alias, ``ROLLUP(x, y)`` no column with two."""
    if any(isinstance(node.this, exp.Column) for node in tree.find_all(exp.Aliases)):
        return False
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
    nots = [node for node in tree.find_all(exp.Not) if isinstance(node.this, PREDICATES)]
    for ways in product((True, False), repeat=min(len(nots), _MOST_NOTS)):
        for node, infix in zip_longest(nots, ways, fillvalue=True):
            node.meta[INFIX] = infix  # type: ignore[union-attr]
        printed = print_sql(tree)
        if printed.replace(" ", "") == bare or words == _words(BEFORE + printed):
            return True
    return False


def _has_more(select: exp.Select) -> bool:
    return any(value for name, value in select.args.items() if name != "expressions")


def _words(text: str) -> list[str]:
    return _compared(tokens(text), text)


def _compared(words: list[Token], text: str) -> list[str]:
    """Normalize the tokens of an expression, so that equivalent spellings are equal.

    AS is left to taste, and so are ALL in ``sum(ALL v)``, and NULLS FIRST or LAST where ORDER BY puts NULL anyway.
    """
    found: list[str] = []
    for i, token in enumerate(words):
        if token.token_type in _TEXTS:
            found.append(text[token.start : token.end + 1])
        elif token.token_type is TokenType.IDENTIFIER:
            found.append(f"`{token.text}")
        elif starts_number(words, i):
            continue
        elif i and starts_number(words, i - 1):
            found.append(f"0.{token.text}")
        elif token.text.upper() != "AS" and (token.text.upper() != "ALL" or found[-1:] != ["("]):
            word = token.text.upper()
            found.append(_SAME.get(word, word))
            if found[-4:] == ["IS", "NOT", "DISTINCT", "FROM"]:
                found[-4:] = ["<=>"]
            elif found[-2:-1] == ["NULLS"] and found[-3] not in ("IGNORE", "RESPECT"):
                default = "LAST" if found[-3] == "DESC" else "FIRST"
                found[-2:] = found[-2:] if word != default else []
    return found
