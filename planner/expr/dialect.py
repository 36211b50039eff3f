"""The words of Spark SQL, by sqlglot's dialect for Spark, and the notes that its trees carry here."""

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


def tokens(text: str) -> list[Token]:
    """The tokens of Spark SQL.  Raises ``TokenError``; ``1L`` is three tokens over one piece of text."""
    return _DIALECT.tokenize(text)  # type: ignore[no-any-return]


def parse(words: list[Token], text: str) -> list[exp.Expr | None]:
    """The statements that sqlglot reads in these tokens of a text.  Raises ``SqlglotError``."""
    return _DIALECT.parser(error_level=ErrorLevel.IMMEDIATE).parse(words, text)  # type: ignore[no-any-return]


def parse_statement(text: str) -> list[exp.Expr | None]:
    """All of a text as sqlglot's own Spark dialect reads it, for its structure.  Raises ``SqlglotError``."""
    return parse(tokens(text), text)


def say(tree: exp.Expr) -> str:
    """A tree as sqlglot's own Spark dialect says it, which it may change.  Raises ``UnsupportedError``."""
    return tree.sql(
        dialect=_DIALECT,
        copy=False,
        comments=False,
        normalize_functions=False,
        unsupported_level=ErrorLevel.IMMEDIATE,
    )


def data_type(name: str) -> exp.DataType:
    """A type by its name."""
    return exp.DataType.build(name, dialect=_DIALECT)
