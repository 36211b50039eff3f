"""The seat belts between a rewritten plan and the user: same words back, same schema out."""

from __future__ import annotations

from planner.logical import Logical
from planner.to_sql import to_sql
from planner.tokens import tokenize


def reads_back(plan: Logical, text: str) -> bool:
    """Whether printing the plan as it was read gives back the very tokens of the text.

    Proves that nothing was lost or moved on the way in: all that a rewriting then changes are the relations it names.
    """
    return _words(to_sql(plan)) == _words(text)


def _words(text: str) -> list[str]:
    words = [t.word or f"{t.kind}:{t.text}" for t in tokenize(text).items]
    while words and words[-1] == ";":
        words.pop()
    return words


def schema_difference(original: object, rewritten: object) -> str | None:
    """What differs between two analysed schemas (names, order, types, nullability), or None."""
    if original == rewritten:
        return None
    before = [(f.name, f.dataType.simpleString(), f.nullable) for f in original.fields]  # type: ignore[attr-defined]
    after = [(f.name, f.dataType.simpleString(), f.nullable) for f in rewritten.fields]  # type: ignore[attr-defined]
    if len(before) != len(after):
        return f"{len(after)} columns instead of {len(before)}"
    for old, new in zip(before, after, strict=True):
        if old != new:
            return f"column {_said(new)} instead of {_said(old)}"
    return "a nested field or its nullability differs"


def _said(field: tuple[str, str, bool]) -> str:
    name, type_, nullable = field
    return f"{name} {type_.upper()}{'' if nullable else ' NOT NULL'}"
