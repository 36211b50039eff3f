"""Gives the columns of a rewriting what they have in the original beside names and types: metadata and qualifiers.

Spark marks the name of ``count(*)`` as generated, and the alias of a DataFrame qualifies its columns.  A rewriting says
``AS `count(1)```, and reads other relations.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from dovetail.executor.connect.plan import RelationNode, relation_of
from dovetail.executor.session.batch import classic
from dovetail.executor.session.pyspark_versions import dataset_class

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_KEEPS_QUALIFIERS = ("filter", "sort", "limit", "offset", "deduplicate")


def with_metadata_of(frame: DataFrame, schema: StructType) -> DataFrame:
    """Return a DataFrame whose columns have the metadata of a schema with the same columns; not of a stream."""
    fields = list(zip(frame.schema, schema, strict=True))
    if all(field.metadata == wanted.metadata for field, wanted in fields) or frame.isStreaming:
        return frame
    if not classic(frame.sparkSession):
        names = [f"c{n}" for n in range(len(fields))]
        renamed = frame.toDF(*names)
        pairs = zip(names, schema, strict=True)
        return renamed.select(*(renamed[name].alias(f.name, metadata=f.metadata) for name, f in pairs))
    jvm: Any = frame.sparkSession._jvm
    metadata = jvm.org.apache.spark.sql.types.Metadata
    output = frame._jdf.queryExecution().analyzed().output()
    attributes = [output.apply(n).withMetadata(metadata.fromJson(json.dumps(f.metadata))) for n, f in enumerate(schema)]
    return _select(frame, attributes)


def with_columns_of(frame: DataFrame, original: DataFrame) -> DataFrame:
    """Return a DataFrame whose columns have the metadata and qualifiers of another with the same columns.

    On Spark Connect the alias of the other DataFrame qualifies all columns; aliases below its joins are lost.
    """
    if not classic(frame.sparkSession):
        frame = with_metadata_of(frame, original.schema)
        alias = _connect_alias(original)
        return frame.alias(alias) if alias else frame
    found, wanted = (f._jdf.queryExecution().analyzed().output() for f in (frame, original))
    pairs = [(found.apply(n), wanted.apply(n)) for n in range(found.size())]
    if all(a.qualifier().equals(b.qualifier()) and a.metadata().equals(b.metadata()) for a, b in pairs):
        return frame
    return _select(frame, [a.withQualifier(b.qualifier()).withMetadata(b.metadata()) for a, b in pairs])


def _select(frame: DataFrame, attributes: list[Any]) -> DataFrame:
    """Select columns of a classic DataFrame by their IDs, so that Spark's optimizer removes the operator."""
    session: Any = frame.sparkSession
    listed = session._jvm.PythonUtils.toSeq(attributes)
    analyzed = frame._jdf.queryExecution().analyzed()
    plan = session._jvm.org.apache.spark.sql.catalyst.plans.logical.Project(listed, analyzed)
    return DataFrame(dataset_class(session).ofRows(session._jsparkSession, plan), session)


def _connect_alias(frame: DataFrame) -> str:
    """Return the alias that all columns of a DataFrame of Spark Connect have; empty if there is none."""
    node = RelationNode(relation_of(frame))
    while node.name in _KEEPS_QUALIFIERS:
        node = node.child
    return str(node.operator.alias) if node.name == "subquery_alias" else ""
