"""The words of a statement: signs that sqlglot's tokenizer cuts are one word each."""

from __future__ import annotations

import pytest

from dovetail.planner.expr.tokens import tokenize


@pytest.mark.parametrize("sign", ["<<", ">>", ">>>", "!>", "!<", "<=>", "<>", "!=", "=="])
@pytest.mark.parametrize("blank", ["", " "])
def test_a_sign_is_one_word(sign: str, blank: str) -> None:
    found = tokenize(f"a{blank}{sign}{blank}b > 1")
    assert [t.word for t in found.items] == ["A", sign, "B", ">", "1"]
    assert found.slice(1, 2) == sign


def test_signs_apart_stay_apart() -> None:
    assert [t.word for t in tokenize("CAST(a AS array<array<int>>) > > b").items][-3:] == [">", ">", "B"]
