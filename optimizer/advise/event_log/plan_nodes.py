"""The physical plan of an execution as Spark logs it (``sparkPlanInfo``): nodes, their joins, rows and attributes.

Nodes come from a file that anybody may have written, so every value is checked for its type where it is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

ROWS = "number of output rows"
LONGEST_TEXT = 200_000
"""Characters of a node that are read; Spark cuts lists of columns at 25, but no condition."""

_EXCHANGED = "shuffle records written"
_BOUNDARY = re.compile(r"Exchange")
_KEEPS_ROWS = re.compile(
    r"(Project|Sort|WholeStageCodegen.*|InputAdapter|ColumnarToRow|RowToColumnar|AQEShuffleRead|AdaptiveSparkPlan"
    r"|\w*QueryStage|\w*Exchange|Window|TableCache\w*|Coalesce)( .*)?$"
)
_JOIN = re.compile(r"BroadcastNestedLoopJoin|CartesianProduct|SortMergeAsOfJoin|SortMergeJoin|ShuffledHashJoin")
ATTRIBUTE = re.compile(r"([\w.$]*)#(\d+)L?")
_BIGINT = re.compile(r"#(\d+)L\b")
_CAST = re.compile(r"\bas (\w+(?:\(\d+,\s*\d+\))?)\) AS [\w ]+#(\d+)\b")
_LIST_ATTRIBUTE = re.compile(r"[\[,]\s*([^\[\],#]+)#(\d+)L?")


@dataclass(eq=False)
class PlanNode:
    """A node of a physical plan; ``metrics`` are the IDs of its accumulators by name."""

    name: str
    text: str
    children: list[PlanNode] = field(default_factory=list)
    metrics: dict[str, int] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    parent: PlanNode | None = None
    segment: int = 0

    @property
    def join(self) -> str | None:
        """The kind of join, without the prefix and suffix of an engine; None for another node."""
        found = _JOIN.search(self.name)
        return found[0] if found else None

    @cached_property
    def attributes(self) -> frozenset[int]:
        """The IDs of the attributes that the text of this node has."""
        return frozenset(int(number) for _, number in ATTRIBUTE.findall(self.text))

    @cached_property
    def types(self) -> dict[int, str]:
        """The types of the attributes of which this node shows the type, by ID.

        Scans of files have a schema, a projection may have a cast, and Spark marks each BIGINT: ``x#6L``.
        """
        found = {int(number): "bigint" for number in _BIGINT.findall(self.text)}
        found |= {int(number): kind for kind, number in _CAST.findall(self.text)}
        schema = self.metadata.get("ReadSchema")
        if isinstance(schema, str) and schema.startswith("struct<"):
            types = dict(_fields(schema.removeprefix("struct<").removesuffix(">")))
            names = _LIST_ATTRIBUTE.findall(self.text.partition("]")[0])
            found |= {int(number): types[name] for name, number in names if name in types}
        return found

    def walk(self) -> Iterator[PlanNode]:
        """All nodes from here down, each before its children."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending += reversed(node.children)

    def ancestors(self) -> Iterator[PlanNode]:
        """The nodes above, nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent


def read_plan(info: Any) -> PlanNode | None:
    """Read a plan; None where it is not one.  ``segment`` numbers the pieces that exchanges cut the plan into."""
    if not isinstance(info, dict):
        return None
    root = _node(info, None, 0)
    pending, segments = [(info, root)], 0
    while pending:
        source, node = pending.pop()
        children = source.get("children")
        for child in children if isinstance(children, list) else ():
            if isinstance(child, dict):
                segment = node.segment
                if is_exchange(node):
                    segments += 1
                    segment = segments
                node.children.append(_node(child, node, segment))
                pending.append((child, node.children[-1]))
    return root


def _node(info: dict[str, Any], parent: PlanNode | None, segment: int) -> PlanNode:
    metrics, logged, metadata = {}, info.get("metrics"), info.get("metadata")
    for metric in logged if isinstance(logged, list) else ():
        if isinstance(metric, dict) and (number := whole(metric.get("accumulatorId"))) is not None:
            metrics[str(metric.get("name"))] = number
    return PlanNode(
        " ".join(str(info.get("nodeName", "")).split()),
        str(info.get("simpleString", ""))[:LONGEST_TEXT],
        metrics=metrics,
        metadata=metadata if isinstance(metadata, dict) else {},
        parent=parent,
        segment=segment,
    )


def is_exchange(node: PlanNode) -> bool:
    """Whether other stages run the nodes below a node."""
    return bool(_BOUNDARY.search(node.name))


def rows_metric(node: PlanNode) -> int | None:
    """The accumulator that counts the rows of a node, or of the first one below it with the same rows."""
    while True:
        for name in (ROWS, _EXCHANGED):
            if name in node.metrics:
                return node.metrics[name]
        if len(node.children) != 1 or not _KEEPS_ROWS.match(node.name):
            return None
        node = node.children[0]


def attributes(node: PlanNode) -> set[int]:
    """The IDs of all attributes that are written anywhere from a node down."""
    return {number for below in node.walk() for number in below.attributes}


def attribute_types(node: PlanNode) -> dict[int, str]:
    """The types of the attributes of which the plan shows the type, by ID."""
    return {number: kind for below in node.walk() for number, kind in below.types.items()}


def _fields(text: str) -> Iterator[tuple[str, str]]:
    for piece in split_top(text):
        name, colon, kind = piece.partition(":")
        if colon:
            yield name.strip(), kind.strip()


def split_top(text: str) -> list[str]:
    """Split at the commas outside brackets.

    >>> split_top("[k#1L, j#2], Inner, (x#1 >= f(y#2, 3))")
    ['[k#1L, j#2]', 'Inner', '(x#1 >= f(y#2, 3))']
    """
    pieces, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        if letter in "([<" and text[at : at + 2] not in ("<=", "< ", "<>"):
            depth += 1
        elif letter in ")]" or (letter == ">" and text[at + 1 : at + 2] not in ("=", " ")):
            depth = max(depth - 1, 0)
        elif letter == "," and not depth:
            pieces.append(text[start:at].strip())
            start = at + 1
    return [*pieces, text[start:].strip()]


def whole(value: Any) -> int | None:
    """A number that may be written as a text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | str | float):
        return None
    try:
        return int(value)
    except (ValueError, OverflowError):
        return None
