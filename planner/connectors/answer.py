"""Whether what a source answered is what it was asked for."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from planner.connectors.keys import key_values

if TYPE_CHECKING:
    import pyarrow as pa


class WrongAnswer(Exception):
    """A source answered something that it was not asked for; a new attempt may mend it."""


def checked(
    answer: pa.Table, schema: pa.Schema, keys: Sequence[str], asked: Mapping[Hashable, int], *, unique: bool
) -> tuple[pa.Table, list[int]]:
    """Return the rows with the columns of ``schema``, and for each the number of the key that asked for it.

    Raises ``WrongAnswer`` for a column that is missing or has another type, a row that nobody asked for, and a second
    row for one of ``unique`` keys.
    """
    rows = conformed(answer, schema)
    numbers: list[int] = []
    for value in key_values(rows, keys):
        number = asked.get(value) if value is not None else None
        if number is None:
            raise WrongAnswer(f"a row came back that was not asked for: {_shown(keys, value)}")
        numbers.append(number)
    if unique and len(set(numbers)) < len(numbers):
        twice = next(number for number in numbers if numbers.count(number) > 1)
        value = next(value for value, number in asked.items() if number == twice)
        raise WrongAnswer(f"more than one row came back for a unique key: {_shown(keys, value)}")
    return rows, numbers


def conformed(answer: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of ``schema``, in its order; raises ``WrongAnswer`` where there is none or its type differs."""
    import pyarrow as pa

    if not isinstance(answer, pa.Table):
        raise WrongAnswer(f"fetch returned {type(answer).__name__}, not a pyarrow.Table")
    columns = []
    for field in schema:
        where = answer.schema.get_all_field_indices(field.name)
        if len(where) != 1:
            found = ", ".join(answer.column_names) or "none"
            raise WrongAnswer(f"the column {field.name} came back {len(where)} times; columns: {found}")
        column = answer.column(where[0])
        if column.type != field.type:
            if not _same_values(column.type, field.type):
                raise WrongAnswer(f"the column {field.name} came back as {column.type}; it was {field.type}")
            column = column.cast(field.type)
        columns.append(column)
    return pa.table(columns, schema=schema)


def _same_values(found: pa.DataType, expected: pa.DataType) -> bool:
    """Whether one type is another layout of the other: that is no other schema."""
    import pyarrow as pa

    if pa.types.is_null(found):
        return True
    if pa.types.is_dictionary(found):
        found = found.value_type
    texts = (pa.string(), pa.large_string(), pa.string_view())
    bytes_ = (pa.binary(), pa.large_binary(), pa.binary_view())
    return found == expected or any(found in group and expected in group for group in (texts, bytes_))


def _shown(keys: Sequence[str], value: Hashable) -> str:
    return f"{keys[0]} = {value!r}" if len(keys) == 1 else f"({', '.join(keys)}) = {value!r}"
