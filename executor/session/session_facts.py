"""What a report contains of a session: versions, the settings that matter, and Spark's analyzed plan of a query."""

from __future__ import annotations

import re
from contextlib import suppress

from pyspark.sql import SparkSession

from dovetail.executor.session.requests import explanation
from dovetail.executor.session.settings import all_settings

_KEPT = re.compile(
    r"spark\.dovetail\.\w+|spark\.sql\.(ansi\.\w+|adaptive\.enabled|autoBroadcastJoinThreshold|caseSensitive|"
    r"codegen\.wholeStage|crossJoin\.enabled|files\.maxPartitionBytes|join\.\w+(\.\w+)?|legacy\.[\w.]+|"
    r"optimizer\.excludedRules|parser\.\w+|session\.timeZone|shuffle\.partitions|sources\.useV1SourceList|"
    r"timestampType|functionResolution\.\w+|streaming\.(stateStore\.providerClass|join\.\w+))"
)
"""Settings by name: none of them holds an address or a credential."""
_ALWAYS = tuple(
    f"spark.sql.{name}"
    for name in (
        "adaptive.enabled ansi.enabled autoBroadcastJoinThreshold caseSensitive session.timeZone shuffle.partitions "
        "timestampType"
    ).split()
)


def settings_that_matter(session: SparkSession) -> dict[str, str]:
    """The settings that decide what SQL means and how it is planned, by name: these, and others that are set."""
    found = {name: value for name, value in all_settings(session).items() if _KEPT.fullmatch(name)}
    for name in _ALWAYS:
        with suppress(Exception):  # an engine that does not know it
            found[name] = str(session.conf.get(name))
    return dict(sorted(found.items()))


def analyzed_plan(session: SparkSession, query: str) -> str:
    """Spark's analyzed plan of a query, without running it.  Raises what Spark raises."""
    text = explanation(session, query)
    found = re.search(r"(?s)== Analyzed Logical Plan ==\n(.*?)\n== Optimized Logical Plan ==", text)
    return found[1].rstrip() if found else text
