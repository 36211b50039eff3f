"""Reads the text of a join in a physical plan: type, keys and condition."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.optimizer.advise.event_log.plan_nodes import PlanNode, split_top

_BUILD = ("BuildLeft", "BuildRight")


@dataclass(frozen=True)
class JoinText:
    """Type, keys and condition of a join in a plan; ``type`` is empty where Spark does not write it."""

    node: str
    type: str
    keys: tuple[tuple[str, str], ...]
    condition: str

    @property
    def complete_condition(self) -> str:
        """The equalities of the keys and the condition, as one text."""
        equalities = [f"{left} = {right}" for left, right in self.keys]
        return " AND ".join([*equalities, *([self.condition] if self.condition else [])])


def read_join(node: PlanNode) -> JoinText | None:
    """Read a join; None for another node, or one without two inputs."""
    kind = node.join
    if kind is None or len(node.children) < 2:
        return None
    text = " ".join(node.text.split()).removeprefix(node.name).strip()
    match kind:
        case "CartesianProduct":
            return JoinText(kind, "Inner", (), text)
        case "BroadcastNestedLoopJoin":
            _, type_, condition = _first(text, 2)
            return JoinText(kind, type_, (), condition)
        case "SortMergeAsOfJoin":
            left, right, _, _, condition, *_ = [*split_top(text), *[""] * 5]
            return JoinText(kind, split_top(text)[-1], _keys(left, right), condition)
    left, right, rest = _first(text, 2)
    type_, condition = _split_once(rest)
    if condition.startswith(_BUILD):
        _, condition = _split_once(condition)
    return JoinText(kind, type_, _keys(left, right), condition)


def _first(text: str, count: int) -> list[str]:
    """The first pieces of a text, and its rest, in which literals may have brackets and commas of their own."""
    pieces = []
    for _ in range(count):
        piece, text = _split_once(text)
        pieces.append(piece)
    return [*pieces, text]


def _split_once(text: str) -> tuple[str, str]:
    piece = split_top(text)[0]
    return piece, text.lstrip()[len(piece) :].lstrip().removeprefix(",").strip()


def _keys(left: str, right: str) -> tuple[tuple[str, str], ...]:
    lefts, rights = (split_top(keys.removeprefix("[").removesuffix("]")) for keys in (left, right))
    return tuple((a, b) for a, b in zip(lefts, rights, strict=False) if a and b and not a.startswith("..."))
