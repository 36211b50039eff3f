"""A statement and its rewriting over a sample of one table, which both read in the place of the table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from sqlglot import exp

from dovetail.optimizer.planning.plan import Plan
from dovetail.planner.conditions.compared import compared
from dovetail.planner.errors import QueryError
from dovetail.planner.expr import quote
from dovetail.planner.logical import Filter, Join, Logical, Scan, hint_name
from dovetail.planner.logical.placeholder import alias_of
from dovetail.planner.physical.base import Spark
from dovetail.planner.tree import Node, transform_up, unwrap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Name = tuple[str, ...]
_PARTS = 1_000_000  # in which shares are counted
_UNHASHED = re.compile(r"\b(map<|variant\b)")


class Sample(NamedTuple):
    """How trees read the sample: ``substitute`` puts it in the place of its table; ``shown`` describes it."""

    substitute: Callable[[Node], Node]
    shown: str


@contextmanager
def sampled(session: SparkSession, plan: Plan, share: float | None, limit: int | None) -> Iterator[Sample]:
    """Sample a table of a plan inside the block.

    It is the largest on the preserved side of an outer, semi or anti join, or the largest of all.  A row is in the
    sample by a hash of the columns that the statement compares with ``=``, or of all its columns, so that both ways
    read the same rows.  Raises ``QueryError`` if the statement and its rewriting read no table by the same name.
    """
    from dovetail.executor.session.temporary_views import temporary_views

    name = _largest(session, plan)
    frame, shown = session.table(_quoted(name)), ".".join(name)
    if limit is not None:
        share = min(1.0, limit / max(frame.count(), 1))
    assert share is not None
    rows = frame.where(_is_in(frame, _key_columns(plan, name), share))
    view = f"__dt_sample_{uuid4().hex}"  # of this call alone
    with temporary_views({view: rows}):

        def substitute(node: Node) -> Node:
            scan = unwrap(node)
            if not isinstance(scan, Scan) or scan.cte or scan.name != name:
                return node
            read = replace(scan, name=(view,), text=view, suffix=alias_of(scan))
            return Spark(read) if isinstance(node, Spark) else read

        yield Sample(lambda tree: transform_up(tree, substitute), f"{share:.3g} of {shown}")


def _largest(session: SparkSession, plan: Plan) -> Name:
    from dovetail.executor.catalog.spark_catalog import SparkCatalog

    assert plan.logical is not None
    assert plan.physical is not None
    inside_views = {
        scan.name for step in plan.trace.steps if step.rule.name == "inline_views" for scan in _scans(step.after)
    }
    scans = [*_scans(plan.logical), *_scans(plan.physical)]
    names = {s.name for s in _scans(plan.logical)} & {s.name for s in _scans(plan.physical)}
    names -= inside_views | {s.name for s in scans if not s.plain}
    if not names:
        raise QueryError(
            "The statement and its rewriting read no table by the same name, since they read views, so there is "
            "nothing to take a sample of; verify it whole, or give the tables in the place of the views"
        )
    found = sorted(names & set(_preserved(plan.logical)) or names)
    sizes = SparkCatalog(session).statistics_all(tuple(f"SELECT * FROM {_quoted(name)}" for name in found))
    return max(zip(found, sizes, strict=True), key=lambda pair: pair[1].rows or 0)[0]


def _preserved(plan: Logical) -> Iterator[Name]:
    """The tables of which a join returns all rows, or some rows and nothing of the other side."""
    for node in plan.walk():
        if isinstance(node, Join) and node.kind in ("left", "semi", "anti", "right"):
            yield from (scan.name for scan in _scans(node.right if node.kind == "right" else node.left))


def _scans(plan: Node) -> Iterator[Scan]:
    return (scan for node in plan.walk() if isinstance(scan := unwrap(node), Scan) and not scan.cte)


def _key_columns(plan: Plan, name: Name) -> set[str]:
    """The columns of a table that conditions of the statement compare with a column by ``=``, in lower case."""
    assert plan.logical is not None
    aliases = {(hint_name(scan) or "").lower() for scan in _scans(plan.logical) if scan.name == name}
    comparisons = (
        comparison
        for node in plan.logical.walk()
        for conjunct in (node.condition if isinstance(node, Join | Filter) else ())
        if (comparison := compared(conjunct)) and comparison.sign == "="
    )
    columns = (o for comparison in comparisons for o in comparison.operands if isinstance(o, exp.Column))
    return {column.name.lower() for column in columns if column.table.lower() in aliases}


def _is_in(frame: DataFrame, keys: set[str], share: float) -> str:
    columns = [f.name for f in frame.schema if f.name.lower() in keys]
    hashed = columns or [f.name for f in frame.schema if not _UNHASHED.search(f.dataType.simpleString())]
    return f"pmod(xxhash64({', '.join(map(quote, hashed))}), {_PARTS}) < {round(share * _PARTS)}"


def _quoted(name: Name) -> str:
    return ".".join(map(quote, name))
