"""Positional parameters by name: a rewriting may say a condition twice, or elsewhere."""

from __future__ import annotations

from typing import Any

from planner.errors import Unsupported
from planner.expr.tokens import tokenize


def named(text: str, args: Any) -> tuple[str, Any]:
    """Turn ``?`` with a list of arguments into ``:__arg_0`` … with a dict; anything else is returned as it is."""
    if not isinstance(args, list | tuple) or "?" not in text:
        return text, args
    try:
        marks = [t for t in tokenize(text).items if t.word == "?"]
    except Unsupported:
        return text, args
    if len(marks) != len(args):
        return text, args
    parts, at = [], 0
    for number, mark in enumerate(marks):
        parts += [text[at : mark.start], f":__arg_{number}"]
        at = mark.end
    return "".join([*parts, text[at:]]), {f"__arg_{n}": value for n, value in enumerate(args)}
