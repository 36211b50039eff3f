"""Names in quotes: whatever a column is called, it is read back as that column."""

from __future__ import annotations

from typing import Any

import pytest
from sqlglot import exp
from sqlglot.dialects import Spark

from dovetail.planner.expr import Scalar, quote

WORDS = sorted({word for said in Spark.Tokenizer.KEYWORDS for word in said.split() if word.isidentifier()})


@pytest.mark.parametrize("spelling", [str.lower, str.upper])
def test_every_word_is_a_name(spelling: Any) -> None:
    for word in (*map(spelling, WORDS), "plain", "a b", "a`b", "a.b", "1st", "ü"):
        for text in (quote(word), f"t.{quote(word)}", f"{quote(word)} + {quote(word)}"):
            tree = Scalar(text).tree
            assert [column.name for column in tree.find_all(exp.Column)] == [word] * (2 if "+" in text else 1), text


def test_plain_names_have_none() -> None:
    assert [quote(name) for name in ("id", "ts", "start", "count", "date", "key")] == [
        "id", "ts", "start", "count", "date", "key",
    ]  # fmt: skip
