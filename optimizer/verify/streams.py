"""Verifies queries over streams: replays all rows that have arrived, and compares the result with a batch query."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from dovetail.executor.state.store import Store
from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.streams.epochs import Planner, Schemas, analyze_schemas, make_epochs, make_request
from dovetail.optimizer.streams.plan import StreamPlan
from dovetail.optimizer.verification import Verification
from dovetail.optimizer.verify.batch import verify
from dovetail.planner.errors import QueryError
from dovetail.planner.expr import quote
from dovetail.planner.logical import Logical, Scan
from dovetail.planner.sql.table_names import name_of
from dovetail.planner.state.spec import StreamJoin

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from dovetail.executor.state.arrivals import Arrivals


def verify_streams(
    opt: Planner,
    plan: StreamPlan,
    scratch: str | Path | None,
    *,
    text: str = "",
    above: Callable[[DataFrame], DataFrame] | None = None,
) -> Verification | None:
    """Run a join on state modules over all rows of its streams, and compare with the batch query over these rows.

    The streams are read from their beginning.  Late rows are left out of the batch, as they are dropped by the join;
    rows without a match are returned at the end, as if no more rows came.  ``above`` computes the result of ``text``
    from the joined rows, if that is another query.  Changes are added up on both sides, unless ``above`` does so.
    ``scratch``: a folder for the rows that Spark reads and writes; None for a temporary folder of this machine.
    Returns None for a query that does not run on state modules.  Raises ``QueryError`` if a comparison is impossible,
    and what Spark raises.
    """
    from dovetail.executor.session.batch import run
    from dovetail.executor.session.compare import compare
    from dovetail.executor.state.arrivals import Arrivals, session_with, with_numbered_columns
    from dovetail.executor.state.changes import current_rows
    from dovetail.executor.state.files import HadoopFolder
    from dovetail.executor.state.paths import read_paths
    from dovetail.executor.state.segments import exact_times
    from dovetail.executor.state.sinks import FunctionOutput
    from dovetail.executor.state.streams import unstorable_column

    if plan.join is None:
        return None
    schemas = analyze_schemas(opt.session, plan.join)
    if isinstance(schemas, str):
        return None
    if odd := unstorable_column(schemas.answer):
        raise QueryError(f"files cannot hold the column {odd}, and verify stores the rows in files; leave it out")
    names = _names_of(opt.session, plan.join)
    with _folder(opt.session, scratch) as folder:
        state = Store(HadoopFolder(opt.session, f"{folder}/checkpoint"))
        state.open(plan.join)
        answers: dict[int, str] = {}

        def store(rows: DataFrame, epoch: int) -> None:
            answers[epoch] = f"{folder}/answers/{epoch}"
            with exact_times(rows.sparkSession):
                with_numbered_columns(rows).write.mode("overwrite").parquet(answers[epoch])

        to = FunctionOutput(store)
        request = make_request(opt, plan.join, schemas, to)
        epochs = make_epochs(opt.session, plan.join, schemas.inputs, state, (request,))
        epochs.for_view = above is not None
        arrivals = Arrivals(epochs, f"{folder}/rows")
        arrivals.run(opt.session, f"{folder}/checkpoint")
        inside = session_with(
            opt.session, {name: partial(_batch_rows, arrivals, n, schemas) for name, n in names.items()}
        )
        none = with_numbered_columns(_returned(inside.createDataFrame([], schemas.answer), plan.join))
        found = read_paths(lambda: inside.read.schema(none.schema), answers.values()) if answers else none
        changes, columns = plan.join.changes, schemas.answer.names
        if above:
            answer = above(found.toDF(*([*columns[:-1], changes] if changes else columns)))
        elif changes:
            answer = current_rows(found, found.columns[-1]).toDF(*columns[:-1])
        else:
            answer = found.toDF(*columns)
        batch = text or (plan.join.text if changes else plan.text)
        expected = _with_versions(opt, inside, batch) if plan.join.as_of else run(inside, batch)
        rows, missing, extra = compare(expected, answer)
        deleted = tuple(_excess_deletes(arrivals, inside, schemas)) if changes and (missing or extra) else ()
        return Verification(
            not missing and not extra, rows, missing, extra, True, late=arrivals.late, excess_deletes=deleted
        )


def _excess_deletes(arrivals: Arrivals, session: SparkSession, schemas: Schemas) -> Iterator[tuple[str, int]]:
    """Yield the changelogs with rows that were deleted more often than inserted, and how many rows these are."""
    from dovetail.executor.state.changes import excess_deletes

    for number, input_ in enumerate(arrivals.epochs.join.inputs):
        if input_.change:
            rows = arrivals.rows(session, number, schemas.inputs[number])
            if count := excess_deletes(rows, input_.change).count():
                yield input_.name, count


def _with_versions(opt: Planner, inside: SparkSession, text: str) -> DataFrame:
    """Run a batch query that joins versions, on a session where the names of streams stand for their rows."""
    batch = type(opt)(inside, opt.options)
    for name, table in opt.declarations.tables.items():
        if table.versions:
            batch.declare_versions(".".join(map(quote, name)), table.versions.key, table.versions.valid_from)
    return batch.plan(text).dataframe()


def _batch_rows(arrivals: Arrivals, number: int, schemas: Schemas, session: SparkSession) -> DataFrame:
    """Return the rows of an input that were not late; of a changelog, its rows after all changes."""
    from dovetail.executor.state.changes import current_rows

    rows, change = arrivals.rows(session, number, schemas.inputs[number]), arrivals.epochs.join.inputs[number].change
    return current_rows(rows, change) if change else rows


def _returned(rows: DataFrame, join: StreamJoin) -> DataFrame:
    """Convert rows of an epoch's statement to the rows that the query returns."""
    from dovetail.executor.state.changes import to_changes

    return to_changes(rows, join.changes) if join.changes else rows


def check_can_copy(session: SparkSession) -> None:
    """Raise ``QueryError`` on Spark Connect, where the rows of streams cannot be read once more."""
    from dovetail.executor.session.batch import classic

    if not classic(session):
        raise QueryError(
            "opt.verify of a join of streams needs a classic session, not Spark Connect: it reads the rows once more "
            "through the driver's JVM. Run it where the driver runs"
        )


def verify_over_copies(session: SparkSession, plan: Plan, scratch: str | Path | None) -> Verification | None:
    """Compare the original and the rewritten text of a query over streams, on a copy of all rows of the streams.

    Returns None for a query that reads no stream.
    """
    from dovetail.executor.session.batch import classic
    from dovetail.executor.state.arrivals import copy_stream, read_copy, session_with
    from dovetail.executor.state.streams import stream_of

    if plan.logical is None or not classic(session):
        return None
    names = dict.fromkeys(scan.name for scan in _scans(plan.logical) if stream_of(session, scan.name))
    if not names:
        return None
    tables: dict[str, Callable[[SparkSession], DataFrame]] = {}
    with _folder(session, scratch) as folder:
        for number, name in enumerate(names):
            view = _view_of(name)
            schema = copy_stream(session, view, f"{folder}/{number}")
            tables[view] = partial(read_copy, schema=schema, folder=f"{folder}/{number}")
        return verify(session_with(session, tables), plan)


def _names_of(session: SparkSession, join: StreamJoin) -> dict[str, int]:
    """Return the input behind each name in the query.  Raises ``QueryError`` if a name stands for two."""
    from dovetail.executor.state.streams import stream_of

    names: dict[str, int] = {}
    for number, input_ in enumerate(join.inputs):
        name = _view_of(name_of(input_.relation))
        other = next((n for known, n in names.items() if known.lower() == name.lower()), None)
        if other is None:
            names[name] = number
        elif join.inputs[other].late != input_.late:
            raise QueryError(
                f"The query reads {name} twice, and drops its late rows on one side only, which no batch query can do; "
                "compare the results yourself"
            )
        elif (stream := stream_of(session, (name,))) and not stream.deterministic:
            raise QueryError(
                f"The query reads {name} twice, and {name} is not deterministic, so that a batch query may return "
                "other rows; compare a query over a deterministic stream"
            )
    return names


def _view_of(name: tuple[str, ...]) -> str:
    if len(name) != 1:
        raise QueryError(
            f"{'.'.join(name)} is a stream in a catalog, whose name a copy cannot take; read it by a temporary view"
        )
    return name[0]


def _scans(plan: Logical) -> Iterator[Scan]:
    return (node for node in plan.walk() if isinstance(node, Scan) and not node.cte)


@contextmanager
def _folder(session: SparkSession, scratch: str | Path | None) -> Iterator[str]:
    """Provide a folder, and remove it afterwards."""
    from dovetail.executor.state.files import HadoopFolder

    if scratch is None:
        made = tempfile.mkdtemp(prefix="dovetail-")
        try:
            yield f"file://{made}"  # Hadoop decodes nothing in a path, and so wants nothing encoded
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return
    folder = HadoopFolder(session, str(scratch))
    if folder.inside():
        raise QueryError(f"The folder {scratch} is not empty; give verify an empty folder")
    try:
        yield str(folder)
    finally:
        folder.delete("")
