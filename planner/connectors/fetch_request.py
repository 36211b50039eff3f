"""What one round trip asks for: keys, and constants beside them where the source can be asked by both."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING

from planner.connectors.answer import checked
from planner.connectors.source import LookupSource
from planner.connectors.spec import LookupSpec
from planner.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa


class FetchRequest:
    """The question that all round trips of a lookup have in common."""

    def __init__(self, source: LookupSource, spec: LookupSpec, schema: pa.Schema) -> None:
        """Raises ``SourceError`` for a column that ``schema`` lacks, and keys that the source is not asked by."""
        import pyarrow as pa

        constants = dict(spec.constants)
        names = list(dict.fromkeys([*spec.columns, *spec.keys, *constants]))
        if lacking := [name for name in names if name not in schema.names]:
            raise SourceError(f"{spec.table} has no column {lacking[0]}; columns: {', '.join(schema.names)}")
        self.schema = pa.schema([schema.field(name) for name in names])
        self._keys = spec.keys
        self._constants = {name: _scalar(schema.field(name), value) for name, value in constants.items()}
        possible = None if source.fetch_keys is None else [frozenset(keys) for keys in source.fetch_keys]
        self._sends_constants = possible is None or frozenset((*spec.keys, *constants)) in possible
        if not self._sends_constants and possible is not None and frozenset(spec.keys) not in possible:
            sets = " or by ".join(", ".join(keys) for keys in source.fetch_keys or ())
            raise SourceError(f"{spec.table} ({source!r}) is asked by {sets}, not by {', '.join(spec.keys)}")
        known = {*spec.keys, *constants} if self._sends_constants else {*spec.keys}
        self._unique = any(known.issuperset(keys) for keys in source.unique_keys)

    def with_constants(self, keys: pa.Table) -> pa.Table:
        """The keys as the source gets them."""
        import pyarrow as pa

        if not self._sends_constants:
            return keys
        for name, value in self._constants.items():
            keys = keys.append_column(name, pa.repeat(value, keys.num_rows))
        return keys

    def check(self, asked: Mapping[Hashable, int]) -> Callable[[pa.Table], tuple[pa.Table, list[int]]]:
        """What makes of an answer the rows that were asked for, and the number of the key of each."""

        def check(answer: pa.Table) -> tuple[pa.Table, list[int]]:
            rows, numbers = checked(answer, self.schema, self._keys, asked, unique=self._unique)
            kept = self._mask(rows)
            if kept is None:
                return rows, numbers
            return rows.filter(kept), [number for number, keep in zip(numbers, kept.to_pylist(), strict=True) if keep]

        return check

    def without_other_constants(self, rows: pa.Table) -> pa.Table:
        """The rows that have the constants of the lookup."""
        kept = self._mask(rows)
        return rows if kept is None else rows.filter(kept)

    def _mask(self, rows: pa.Table) -> pa.ChunkedArray | None:
        """Which rows have the constants; None for all of them."""
        import pyarrow.compute as pc

        masks = [pc.fill_null(pc.equal(rows.column(name), value), False) for name, value in self._constants.items()]
        if not masks:
            return None
        mask = masks[0]
        for other in masks[1:]:
            mask = pc.and_(mask, other)
        return mask


def _scalar(field: pa.Field, value: object) -> pa.Scalar:
    import pyarrow as pa

    try:
        return pa.scalar(value, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise SourceError(f"the constant {value!r} does not fit the column {field.name}, {field.type}") from None
