"""Reads the plans of Sail, a server of Spark Connect that runs queries on DataFusion, from the text of EXPLAIN.

Only a plan that names columns of tables and compares them with literals is read.  Anything else stays unknown, as for
any other server.
"""

from __future__ import annotations

import re

from dovetail.planner.catalog.stats import UNKNOWN, Statistics

_ITEM = r"[\w?#.]+(?: AS [\w#]+)*"
_SCAN = re.compile(
    rf"\s*(?:Projection: {_ITEM}(?:, {_ITEM})*|SubqueryAlias: \w+|"
    r"TableScan: [\w?.]+(?: projection=\[[\w, ]*\])?)\s*"
)
# A filter, and one that the optimizer has pushed into a scan.
_FILTER = re.compile(r"\s*(?:Filter: |TableScan: [\w?.]+(?: projection=\[[\w, ]*\])?, partial_filters=)(.*)")
_LITERALS = frozenset("CAST Int8 Int16 Int32 Int64 Float32 Float64 Decimal128 Utf8 Boolean Date32".split())
_BEFORE_PARENTHESIS = re.compile(r"(\w*)\(")
_SIZE = re.compile(r"statistics=\[Rows=(?:Exact|Inexact)\((\d+)\), Bytes=(?:Exact|Inexact)\((\d+)\)")
_OPTIMIZED, _PHYSICAL = "== Optimized Logical Plan ==\n", "== Physical Plan ==\n"


def is_scan(plan: str) -> bool:
    """Whether a logical plan certainly only reads, filters and renames: each read of it returns the same rows."""
    lines = [line for line in plan.splitlines() if line.strip()]
    return (
        bool(lines) and "TableScan:" in lines[-1] and all(_SCAN.fullmatch(line) or _is_filter(line) for line in lines)
    )


def _is_filter(line: str) -> bool:
    """Whether a line is a filter that calls no function."""
    found = _FILTER.fullmatch(line)
    return found is not None and _LITERALS.issuperset(_BEFORE_PARENTHESIS.findall(found[1]))


def parse_datafusion_statistics(explained: str) -> Statistics:
    """Parse the estimate of the root of an EXPLAIN COST text, rows and bytes; unknown where it has none."""
    logical, _, physical = explained.partition(_OPTIMIZED)[2].partition(_PHYSICAL)
    scan, (root, *_) = is_scan(logical), (physical.splitlines() or [""])
    found = _SIZE.search(root)
    if found is None:
        return UNKNOWN
    return Statistics(int(found[1]), int(found[2]), plain=scan, cheap=scan)
