"""An extension of Griffe: examples of docstrings become blocks of code, without remarks to the runner of doctests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Rewrites the docstring of every object that is loaded."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = "\n".join(_fenced(obj.docstring.value.splitlines()))


def _fenced(lines: Iterable[str]) -> Iterator[str]:
    """Put a fence around each run of lines that begins with a prompt."""
    inside = False
    for line in lines:
        is_code = line.startswith((">>>", "...")) or (inside and bool(line.strip()))
        if is_code != inside:
            yield "```pycon" if is_code else "```"
        inside = is_code
        yield re.sub(r"\s*# doctest: \+\w+$", "", line) if is_code else line
    if inside:
        yield "```"
