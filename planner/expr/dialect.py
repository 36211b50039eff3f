"""Tokenizes and parses Spark SQL with sqlglot's Spark dialect, and defines the metadata of its trees."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.errors import ErrorLevel
from sqlglot.tokenizer_core import Token

RAW = "raw"  # in the meta of a literal: its text as written
COMMAS = "commas"  # in the meta of a call: the words that stand between its arguments
INFIX = "infix"  # in the meta of a NOT: ``x NOT IN (1)``
PREDICATES = (exp.In, exp.Between, exp.Is, exp.RegexpLike)


class _Dialect(Spark):  # type: ignore[misc]
    class Tokenizer(Spark.Tokenizer):  # type: ignore[misc]
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012  'it''s' is one text to Spark since 4.0


_DIALECT = _Dialect()
KEYWORDS = frozenset(word for keyword in Spark.Tokenizer.KEYWORDS for word in keyword.upper().split() if word.isalnum())


def tokens(text: str) -> list[Token]:
    """Tokenize Spark SQL.  Raises ``TokenError``; ``1L`` is three tokens at one position."""
    return _DIALECT.tokenize(text)  # type: ignore[no-any-return]


def parse(words: list[Token], text: str) -> list[exp.Expr | None]:
    """Parse tokens into statements.  Raises ``SqlglotError``."""
    return _DIALECT.parser(error_level=ErrorLevel.IMMEDIATE).parse(words, text)  # type: ignore[no-any-return]


def parse_statement(text: str) -> list[exp.Expr | None]:
    """Parse SQL with sqlglot's own Spark dialect, for its structure.  Raises ``SqlglotError``."""
    return parse(tokens(text), text)


def render_tree(tree: exp.Expr) -> str:
    """Print a tree with sqlglot's own Spark dialect, which may change it.  Raises ``UnsupportedError``."""
    return tree.sql(
        dialect=_DIALECT,
        copy=False,
        comments=False,
        normalize_functions=False,
        unsupported_level=ErrorLevel.IMMEDIATE,
    )


def data_type(name: str) -> exp.DataType:
    """Return a type by its name."""
    return exp.DataType.build(name, dialect=_DIALECT)
