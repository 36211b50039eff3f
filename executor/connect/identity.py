"""Identifies relations of Spark Connect that return the same rows, although a program made them more than once.

``spark.table("lines")`` has another plan ID each time, by which columns such as ``lines["id"]`` refer to it.  An
identity numbers these IDs in the order in which they appear, and leaves out where in the program an expression is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

RELATION = "spark.connect.Relation"
_ORIGIN = "spark.connect.Origin"
_PLAN_ID = "plan_id"


def identity_of(relation: Any) -> bytes:
    """Return bytes that are equal only for relations that are the same but for their plan IDs."""
    copied = type(relation)()
    copied.CopyFrom(relation)
    ids: dict[int, int] = {}  # negative, so that they differ from IDs outside of the relation, which stay
    for message in _messages_in(copied):
        if message.DESCRIPTOR.full_name == RELATION and message.common.HasField(_PLAN_ID):
            ids.setdefault(message.common.plan_id, -1 - len(ids))
    for message in _messages_in(copied):
        for field, value in message.ListFields():
            if field.name == _PLAN_ID and value in ids:
                setattr(message, _PLAN_ID, ids[value])
            elif field.message_type is not None and field.message_type.full_name == _ORIGIN:
                message.ClearField(field.name)
    return bytes(copied.SerializeToString(deterministic=True))


def messages_of(message: Any) -> Iterator[Any]:
    """The messages in the fields of a message."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            yield from (one for one in value.values() if hasattr(one, "ListFields"))
        elif hasattr(value, "ListFields"):
            yield value
        else:
            yield from value


def _messages_in(message: Any) -> Iterator[Any]:
    """A message and all those in it."""
    waiting = [message]
    while waiting:
        yield (found := waiting.pop())
        waiting += messages_of(found)
