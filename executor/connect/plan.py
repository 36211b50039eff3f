"""The plan of a DataFrame of Spark Connect: the client's relations, as messages of its protocol.

A client has a plan without types, and without the columns of a table: the server has these.  Versions of PySpark differ
in the fields of a message, so each reader lists the fields that it understands.

``spark.table("lines")`` has another plan ID each time, by which columns such as ``lines["id"]`` refer to it.  An
identity numbers these IDs in the order in which they appear, and leaves out where in the program an expression is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dovetail.executor.frame_sql.shape import Kind
from dovetail.planner.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_MARK = "__dovetail_end_of_relation"
_INPUTS = ("input", "left", "right", "left_input", "right_input")
_KINDS: dict[str, Kind] = {
    "subquery_alias": "alias",
    "project": "select",
    "with_columns": "select",
    "with_columns_renamed": "select",
    "drop": "select",
    "to_df": "select",
    "filter": "filter",
    "aggregate": "aggregate",
    "sort": "sort",
    "limit": "limit",
    "deduplicate": "distinct",
    "set_op": "set",
    "join": "join",
}
RELATION = "spark.connect.Relation"
_ORIGIN = "spark.connect.Origin"
_PLAN_ID = "plan_id"


class RelationNode:
    """An operator of a plan; ``message`` is its relation."""

    def __init__(self, message: Any) -> None:
        self.message = message

    @cached_property
    def name(self) -> str:
        """The name of the operator, as ``filter``."""
        return str(self.message.WhichOneof("rel_type"))

    @property
    def operator(self) -> Any:
        """What the operator does: the message of its kind."""
        return getattr(self.message, self.name)

    @cached_property
    def children(self) -> tuple[RelationNode, ...]:
        """The operators below it that return rows to it."""
        fields = self.operator.DESCRIPTOR.fields_by_name
        names = [n for n in _INPUTS if n in fields and fields[n].message_type and self.operator.HasField(n)]
        return tuple(RelationNode(getattr(self.operator, name)) for name in names)

    @cached_property
    def kind(self) -> Kind:
        """What the operator is written as."""
        operator = self.operator
        match self.name:
            case "sort":
                is_written = operator.is_global
            case "deduplicate":
                is_written = operator.all_columns_as_keys and not operator.within_watermark
            case "set_op":
                is_written = not (operator.by_name or operator.allow_missing_columns)
            case "aggregate":
                is_written = enum_name(operator, "group_type") == "GROUP_TYPE_GROUPBY"
            case _:
                is_written = True
        return _KINDS.get(self.name, "unwritten") if is_written else "unwritten"

    @property
    def child(self) -> RelationNode:
        """The first operator below it."""
        return self.children[0]

    @cached_property
    def identity(self) -> bytes:
        """Bytes that are equal only for relations that return the same rows."""
        return identity_of(self.message)

    def frame(self, session: SparkSession) -> DataFrame:
        """Return the DataFrame of the relation."""
        return frame_of(session, self.message)

    def has_rows_of(self, other: RelationNode) -> bool:
        """Whether another relation certainly returns the same rows."""
        return self.identity == other.identity

    @property
    def plan_id(self) -> int | None:
        """The number by which a column such as ``left["id"]`` refers to the operator."""
        common = self.message.common
        return int(common.plan_id) if common.HasField("plan_id") else None

    def walk(self) -> Iterator[tuple[RelationNode, int]]:
        """The relation and all below it, also in expressions, each with its depth."""
        waiting = [(self.message, 0)]
        while waiting:
            message, depth = waiting.pop()
            if message.DESCRIPTOR.full_name == RELATION:
                yield RelationNode(message), depth
                depth += 1
            waiting += ((below, depth) for below in messages_of(message))


def check_fields(message: Any, what: str, *known: str) -> None:
    """Raise ``Refused`` if a message has more than the ``known`` fields; ``what``: the message, for the reason."""
    for field, _ in message.ListFields():
        if field.name not in known:
            raise Refused(f"{what} has {field.name.replace('_', ' ')}, which is not written as SQL")


def enum_name(message: Any, field: str) -> str:
    """Return the name of the value of a field."""
    values = message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number
    number = getattr(message, field)
    return str(values[number].name) if number in values else str(number)


def relation_of(frame: DataFrame) -> Any:
    """Return the relation of a DataFrame, a copy."""
    plan: Any = frame._plan
    return _copy(plan.plan(_client(frame.sparkSession)))


def joins_something(frame: DataFrame) -> bool:
    """Whether the plan of a DataFrame has a join, as the client knows without the server."""
    return any(node.name == "join" for node, _ in RelationNode(relation_of(frame)).walk())


def frame_of(session: SparkSession, relation: Any) -> DataFrame:
    """Return the DataFrame of a relation, with a copy of it."""
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame
    from pyspark.sql.connect.plan import LogicalPlan

    class CarriedRelation(LogicalPlan):
        def __init__(self, message: Any) -> None:
            super().__init__(None)
            self.message = message
            if message.common.HasField("plan_id"):
                self._root_plan_id = message.common.plan_id

        def plan(self, session: Any) -> Any:
            return self.message

    return ConnectFrame(CarriedRelation(_copy(relation)), session)  # type: ignore[arg-type]


def column_names(session: SparkSession, relations: Sequence[Any]) -> list[list[str]]:
    """Return the names of the columns of each relation, in one call to the server.  Raises Spark's errors."""
    joined = None
    for relation in relations:
        mark = type(relation)()
        mark.sql.query = f"SELECT 1 AS {_MARK}"
        for part in (relation, mark):
            joined = _crossed(joined, part) if joined is not None else _copy(part)
    found: list[list[str]] = [[]]
    for name in frame_of(session, joined).schema.names if relations else ():
        if name == _MARK:
            found.append([])
        else:
            found[-1].append(name)
    return found[:-1]


def label(relation: Any, number: int) -> Any:
    """Return a sample of all rows of a relation, which the text of a plan shows with its number, the seed."""
    sample = type(relation)()
    sample.sample.input.CopyFrom(relation)
    sample.sample.lower_bound, sample.sample.upper_bound = 0.0, 1.0
    sample.sample.with_replacement = False
    sample.sample.seed = number
    return sample


def _crossed(left: Any, right: Any) -> Any:
    join = type(left)()
    join.join.left.CopyFrom(left)
    join.join.right.CopyFrom(right)
    join.join.join_type = (
        join.join.DESCRIPTOR.fields_by_name["join_type"].enum_type.values_by_name["JOIN_TYPE_CROSS"].number
    )
    return join


def _copy(relation: Any) -> Any:
    copied = type(relation)()
    copied.CopyFrom(relation)
    return copied


def _client(session: SparkSession) -> Any:
    return session.client


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
