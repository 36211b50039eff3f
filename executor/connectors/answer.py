"""Validates the answer of a source against the request."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from dovetail.executor.connectors.keys import format_sample, key_values

if TYPE_CHECKING:
    import pyarrow as pa


class WrongAnswer(Exception):
    """An answer that does not fit the request; a new attempt may succeed."""


def key_numbers(rows: pa.Table, keys: Sequence[str], requested: Mapping[Hashable, int], *, unique: bool) -> list[int]:
    """Return for each row the number of the key that it was requested by.

    Raises ``WrongAnswer`` for a row that was not requested, and for a second row of a key if keys are ``unique``.
    """
    numbers: list[int] = []
    for row, value in enumerate(key_values(rows, keys)):
        number = requested.get(value) if value is not None else None
        if number is None:
            raise WrongAnswer(f"a row came back that was not requested: {_format_key(rows, keys, row)}")
        numbers.append(number)
    if unique and len(set(numbers)) < len(numbers):
        row = next(row for row, number in enumerate(numbers) if numbers.count(number) > 1)
        raise WrongAnswer(f"more than one row came back for a unique key: {_format_key(rows, keys, row)}")
    return numbers


def check_schema(answer: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of ``schema`` in its order.  Raises ``WrongAnswer`` for a missing column or another type."""
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
    """Whether the two types differ in their memory layout only, so that the schema is the same."""
    import pyarrow as pa

    if pa.types.is_null(found):
        return True
    if pa.types.is_dictionary(found):
        found = found.value_type
    texts = (pa.string(), pa.large_string(), pa.string_view())
    bytes_ = (pa.binary(), pa.large_binary(), pa.binary_view())
    return found == expected or any(found in group and expected in group for group in (texts, bytes_))


def _format_key(rows: pa.Table, keys: Sequence[str], row: int) -> str:
    return format_sample(rows.select(list(keys)).slice(row, 1))
