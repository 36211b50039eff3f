"""Reads a Catalyst expression from the JSON that Spark writes: all nodes in preorder, each with its fields."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Catalyst:
    """A node of a Catalyst expression: the name of its class, its fields and its children."""

    name: str
    fields: Mapping[str, Any]
    children: tuple[Catalyst, ...]

    @property
    def child(self) -> Catalyst:
        """The first child."""
        return self.children[0]

    @property
    def id(self) -> int:
        """The ID of a named expression, by which others refer to it."""
        return int(self.fields["exprId"]["id"])

    def references(self) -> Iterator[int]:
        """The IDs of the attributes within."""
        if self.name == "AttributeReference":
            yield self.id
        for child in self.children:
            yield from child.references()

    def parameters(self) -> tuple[Catalyst, ...]:
        """The arguments of a function that Spark replaces by others: its fields that are expressions."""
        nested = (value for name, value in self.fields.items() if name != "replacement")
        return tuple(node for value in nested if isinstance(value, list) for node in _expressions(value))


def read_catalyst(document: str) -> Catalyst:
    """Read an expression from its JSON."""
    return _tree(json.loads(document))


def _expressions(value: list[Any]) -> Iterator[Catalyst]:
    if value and isinstance(value[0], dict) and "class" in value[0]:
        yield _tree(value)
    else:
        yield from (_tree(item) for item in value if isinstance(item, list))


def _tree(nodes: list[dict[str, Any]]) -> Catalyst:
    rest = iter(nodes)

    def read() -> Catalyst:
        fields = next(rest)
        children = tuple(read() for _ in range(fields["num-children"]))
        return Catalyst(fields["class"].rpartition(".")[2].rstrip("$"), fields, children)

    return read()
