"""Encodes columns of types that PyArrow lacks: year-month intervals as months, others as strings."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    YearMonthIntervalType,
)

from dovetail.executor.session.pyspark_versions import CalendarIntervalType
from dovetail.planner.expr import quote

Convert = Callable[[Column], Column]


def why_not_in_arrow(type_: DataType) -> str:
    """Why Arrow in Python cannot hold values of a type; nothing where it can."""
    match type_:
        case ArrayType(elementType=NullType(), containsNull=False) | MapType(keyType=NullType()):
            return "elements or keys that have no type"
        case MapType(valueType=NullType(), valueContainsNull=False):
            return "values that have no type"
        case ArrayType():
            return why_not_in_arrow(type_.elementType)
        case MapType():
            return why_not_in_arrow(type_.keyType) or why_not_in_arrow(type_.valueType)
        case StructType():
            if twice := next((name for n, name in enumerate(type_.names) if name in type_.names[:n]), None):
                return f"two fields of the name {twice}"
            if untyped := next((f.name for f in type_ if f.dataType == NullType() and not f.nullable), None):
                return f"a field {untyped} that has no type"
            return next(filter(None, (why_not_in_arrow(field.dataType) for field in type_)), "")
    return ""


def pack(frame: DataFrame) -> DataFrame:
    """Encode the columns that PyArrow cannot hold; the same frame if there are none."""
    return _converted(frame, frame.schema, _packer)


def packed_schema(schema: StructType) -> StructType:
    """Return the schema of the result of ``pack``."""
    return StructType([StructField(f.name, _packed_type(f.dataType), f.nullable, f.metadata) for f in schema])


def unpack(frame: DataFrame, schema: StructType) -> DataFrame:
    """Decode a frame, so that its first columns have the types of ``schema`` again."""
    return _converted(frame, schema, _unpacker)


def _converted(frame: DataFrame, schema: StructType, converter: Callable[[DataType], Convert | None]) -> DataFrame:
    found = [converter(field.dataType) for field in schema]
    if not any(found):
        return frame
    columns = [frame[quote(name)] for name in frame.columns]
    for n, convert in enumerate(found):
        if convert is not None:
            columns[n] = convert(columns[n]).alias(frame.columns[n])
    return frame.select(*columns)


def _packed_type(type_: DataType) -> DataType:
    if isinstance(type_, YearMonthIntervalType):
        return IntegerType()
    if isinstance(type_, CalendarIntervalType):
        return StringType()
    if isinstance(type_, ArrayType):
        return ArrayType(_packed_type(type_.elementType), type_.containsNull)
    if isinstance(type_, MapType):
        return MapType(_packed_type(type_.keyType), _packed_type(type_.valueType), type_.valueContainsNull)
    return packed_schema(type_) if isinstance(type_, StructType) else type_


def _packer(type_: DataType) -> Convert | None:
    if isinstance(type_, YearMonthIntervalType):
        return lambda c: (_part("YEAR", c) * 12 + _part("MONTH", c)).cast("int")
    if isinstance(type_, CalendarIntervalType):
        return lambda c: c.cast("string")
    return _inner(type_, _packer)


def _unpacker(type_: DataType) -> Convert | None:
    if isinstance(type_, YearMonthIntervalType):
        return lambda c: (c * fn.expr("INTERVAL '1' MONTH")).cast(type_)  # not NULL where the months are not
    if isinstance(type_, CalendarIntervalType):
        return lambda c: c.cast("interval")
    return _inner(type_, _unpacker)


def _part(name: str, column: Column) -> Column:
    """Extract the years or the months of a year-month interval of any range."""
    return fn.extract(fn.lit(name), column.cast(YearMonthIntervalType()))


def _inner(type_: DataType, converter: Callable[[DataType], Convert | None]) -> Convert | None:
    """Return the conversion of a nested value; None if no part needs one."""
    if isinstance(type_, ArrayType):
        element = converter(type_.elementType)
        return None if element is None else lambda c: fn.transform(c, element)
    if isinstance(type_, MapType):
        key, value = converter(type_.keyType) or _same, converter(type_.valueType) or _same
        if key is _same and value is _same:
            return None
        return lambda c: fn.map_from_arrays(fn.transform(fn.map_keys(c), key), fn.transform(fn.map_values(c), value))
    if isinstance(type_, StructType):
        parts = [(field.name, converter(field.dataType)) for field in type_]
        if not any(convert for _, convert in parts):
            return None

        def convert(column: Column) -> Column:
            fields = [(convert or _same)(column.getField(name)).alias(name) for name, convert in parts]
            return fn.when(column.isNotNull(), fn.struct(*fields))

        return convert
    return None


def _same(column: Column) -> Column:
    return column
