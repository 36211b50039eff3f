"""The request of one round trip: keys, and constants if the source can be fetched by both."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import reduce
from typing import TYPE_CHECKING

from dovetail.executor.connectors.answer import check_schema, key_numbers
from dovetail.executor.connectors.source import LookupSource
from dovetail.executor.connectors.values import convert, drop_unmatched_rows, spark_types
from dovetail.planner.errors import SourceError
from dovetail.planner.logical.lookup_spec import LookupSpec

if TYPE_CHECKING:
    import pyarrow as pa


class FetchRequest:
    """The part of the request that all round trips of a lookup share."""

    def __init__(self, source: LookupSource, spec: LookupSpec, schema: pa.Schema) -> None:
        """Raises ``SourceError`` for a column that ``schema`` lacks, and for keys that the source does not support."""
        import pyarrow as pa

        constants = dict(spec.constants)
        names = list(dict.fromkeys([*spec.columns, *spec.keys, *constants]))
        if lacking := [name for name in names if name not in schema.names]:
            raise SourceError(f"{spec.table} has no column {lacking[0]}; columns: {', '.join(schema.names)}")
        self._source_schema = pa.schema([schema.field(name) for name in names])
        self.schema = spark_types(self._source_schema)
        self._keys = spec.keys
        self._source = source
        scalars = {name: _scalar(self.schema.field(name), value) for name, value in constants.items()}
        self.constants = {name: value for name, value in scalars.items() if value is not None}
        self.finds_nothing = len(self.constants) < len(scalars)
        """Whether a constant is outside the domain of its column."""
        possible = None if source.fetch_keys is None else [frozenset(keys) for keys in source.fetch_keys]
        self._sends_constants = possible is None or frozenset((*spec.keys, *constants)) in possible
        if not self._sends_constants and possible is not None and frozenset(spec.keys) not in possible:
            sets = " or by ".join(", ".join(keys) for keys in source.fetch_keys or ())
            raise SourceError(f"{spec.table} ({source!r}) can be fetched by {sets}, not by {', '.join(spec.keys)}")
        known = {*spec.keys, *constants} if self._sends_constants else {*spec.keys}
        self._unique = any(known.issuperset(keys) for keys in source.unique_keys)

    def encode_keys(self, keys: pa.Table) -> pa.Table:
        """Convert keys to the source's types; a key that its type cannot hold is dropped."""
        import pyarrow as pa

        if self._sends_constants:
            for name, value in self.constants.items():
                keys = keys.append_column(name, pa.repeat(value, keys.num_rows))
        columns = [
            (name, convert(keys.column(name), self._source_schema.field(name).type)) for name in keys.column_names
        ]
        return drop_unmatched_rows(columns, keys.column_names, _no_remedy)

    def check(self, requested: Mapping[Hashable, int]) -> Callable[[pa.Table], tuple[pa.Table, list[int]]]:
        """Return the function that turns an answer into the requested rows and the number of each row's key."""

        def check(answer: pa.Table) -> tuple[pa.Table, list[int]]:
            rows = self._convert(check_schema(answer, self._source_schema))
            numbers = key_numbers(rows, self._keys, requested, unique=self._unique)
            mask = self._mask(rows)
            if mask is None:
                return rows, numbers
            return rows.filter(mask), [number for number, keep in zip(numbers, mask.to_pylist(), strict=True) if keep]

        return check

    def rows(self, share: pa.Table) -> pa.Table:
        """Return the rows of a split that have the constants of the lookup."""
        rows = self._convert(check_schema(share, self._source_schema))
        mask = self._mask(rows)
        return rows if mask is None else rows.filter(mask)

    def _convert(self, rows: pa.Table) -> pa.Table:
        import pyarrow as pa

        columns = [(field.name, convert(rows.column(field.name), field.type)) for field in self.schema]
        table = drop_unmatched_rows(columns, self._keys, self._source.remedy, self.constants)
        return pa.Table.from_arrays(table.columns, schema=self.schema)

    def _mask(self, rows: pa.Table) -> pa.ChunkedArray | None:
        """Mark the rows that have the constants; None if all do."""
        import pyarrow.compute as pc

        masks = [pc.fill_null(pc.equal(rows.column(name), value), False) for name, value in self.constants.items()]
        return reduce(pc.and_, masks) if masks else None


def _scalar(field: pa.Field, value: object) -> pa.Scalar | None:
    """Convert a constant to the type of its column; None if no value of that type equals it."""
    import pyarrow as pa

    try:
        return pa.scalar(value, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _no_remedy(name: str, type_: pa.DataType) -> str:
    raise AssertionError(f"{name} is a key: values that do not fit {type_} are dropped")
