"""Verify over streams: all that has arrived runs once more as it would have come, and is held against the batch."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from optimizer.plan import Plan
from optimizer.stream_epochs import Planner, Schemas, epochs_of, schemas_of
from optimizer.streams import StreamPlan
from optimizer.verify import Verification, verify
from planner.errors import QueryError
from planner.expr import quote
from planner.logical import Logical, Scan
from planner.sql.table_names import name_of
from planner.state.spec import StreamJoin
from planner.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from planner.runtime.state.arrivals import Arrivals


def verify_streams(
    opt: Planner,
    plan: StreamPlan,
    scratch: str | Path | None,
    *,
    text: str = "",
    above: Callable[[DataFrame], DataFrame] | None = None,
) -> Verification | None:
    """Run a join on state modules over all that its streams have now, and compare with the batch over these rows.

    The streams are read from where they begin; rows that come too late are left out of the batch, as out of the join,
    and rows without a match are returned at the end, as if nothing more came.  ``above`` makes of the rows of the join
    what the ``text`` returns, where that is another query.  Changes that arrive are added up, and so are those that are
    returned, if ``above`` does not see to them.  ``scratch``: a folder that Spark reads and writes, for the rows;
    without one, a temporary folder of this machine.  None for a query that is not on state modules.  Raises
    ``QueryError`` where nothing can be told, and what Spark raises.
    """
    from planner.runtime.batch import run
    from planner.runtime.compare import compare
    from planner.runtime.state.arrivals import Arrivals, numbered, session_with
    from planner.runtime.state.changes import current
    from planner.runtime.state.files import HadoopFolder
    from planner.runtime.state.segments import exact_times
    from planner.runtime.state.sinks import FunctionOutput
    from planner.runtime.state.streams import without_files

    if plan.join is None:
        return None
    known = schemas_of(opt.session, plan.join)
    if isinstance(known, str):
        return None
    if odd := without_files(known.answer):
        raise QueryError(f"files cannot hold the column {odd}, in which the rows are kept; leave it out")
    names = _names_of(opt.session, plan.join)
    with _folder(opt.session, scratch) as folder:
        store = Store(HadoopFolder(opt.session, f"{folder}/checkpoint"))
        store.open(plan.join)
        answers: dict[int, str] = {}

        def keep(rows: DataFrame, epoch: int) -> None:
            answers[epoch] = f"{folder}/answers/{epoch}"
            with exact_times(rows.sparkSession):
                numbered(rows).write.mode("overwrite").parquet(answers[epoch])

        to = FunctionOutput(keep)
        epochs = epochs_of(opt, plan.join, known, store, to, None, of_a_view=above is not None)
        arrivals = Arrivals(epochs, f"{folder}/rows")
        arrivals.run(opt.session, f"{folder}/checkpoint")
        inside = session_with(opt.session, {name: partial(_there, arrivals, n, known) for name, n in names.items()})
        none = numbered(_returned(inside.createDataFrame([], known.answer), plan.join))
        found = inside.read.schema(none.schema).parquet(*answers.values()) if answers else none
        changes, columns = plan.join.changes, known.answer.names
        if above:
            answer = above(found.toDF(*([*columns[:-1], changes] if changes else columns)))
        elif changes:
            answer = current(found, found.columns[-1]).toDF(*columns[:-1])
        else:
            answer = found.toDF(*columns)
        batch = text or (plan.join.text if changes else plan.text)
        expected = _with_versions(opt, inside, batch) if plan.join.as_of else run(inside, batch)
        rows, missing, extra = compare(expected, answer)
        owed = tuple(_owed(arrivals, inside, known)) if changes and (missing or extra) else ()
        return Verification(not missing and not extra, rows, missing, extra, True, late=arrivals.late, owed=owed)


def _owed(arrivals: Arrivals, session: SparkSession, known: Schemas) -> Iterator[tuple[str, int]]:
    """How many rows of each changelog have been deleted more often than inserted."""
    from planner.runtime.state.changes import gone_too_often

    for number, input_ in enumerate(arrivals.epochs.join.inputs):
        if input_.change:
            rows = arrivals.rows(session, number, known.inputs[number])
            if count := gone_too_often(rows, input_.change).count():
                yield input_.name, count


def _with_versions(opt: Planner, inside: SparkSession, text: str) -> DataFrame:
    """What a batch returns that asks for versions of tables, on a session where streams' names stand for their rows."""
    batch = type(opt)(inside, opt.options)
    for name, said in opt.declared.items():
        if said.versions:
            batch.declare_versions(".".join(map(quote, name)), said.versions.key, said.versions.valid_from)
    return batch.plan(text).dataframe()


def _there(arrivals: Arrivals, number: int, known: Schemas, session: SparkSession) -> DataFrame:
    """The rows of an input that were not late; of a changelog, those that are there after all its changes."""
    from planner.runtime.state.changes import current

    rows, change = arrivals.rows(session, number, known.inputs[number]), arrivals.epochs.join.inputs[number].change
    return current(rows, change) if change else rows


def _returned(rows: DataFrame, join: StreamJoin) -> DataFrame:
    """Rows of an epoch's statement as they are returned."""
    from planner.runtime.state.changes import as_changes

    return as_changes(rows, join.changes) if join.changes else rows


def verify_over_copies(session: SparkSession, plan: Plan, scratch: str | Path | None) -> Verification | None:
    """Compare both texts of a rewritten query over streams, on a copy of all that the streams have now.

    None for a query that reads no stream.
    """
    from planner.runtime.batch import classic
    from planner.runtime.state.arrivals import copied, read_copy, session_with
    from planner.runtime.state.streams import stream_of

    if plan.logical is None or not classic(session):
        return None
    names = dict.fromkeys(scan.name for scan in _scans(plan.logical) if stream_of(session, scan.name))
    if not names:
        return None
    tables: dict[str, Callable[[SparkSession], DataFrame]] = {}
    with _folder(session, scratch) as folder:
        for number, name in enumerate(names):
            view = _view_of(name)
            schema = copied(session, view, f"{folder}/{number}")
            tables[view] = partial(read_copy, schema=schema, folder=f"{folder}/{number}")
        return verify(session_with(session, tables), plan)


def _names_of(session: SparkSession, join: StreamJoin) -> dict[str, int]:
    """The input that each name in the query stands for.  Raises ``QueryError`` where it stands for two."""
    from planner.runtime.state.streams import stream_of

    names: dict[str, int] = {}
    for number, input_ in enumerate(join.inputs):
        name = _view_of(name_of(input_.relation))
        other = next((n for known, n in names.items() if known.lower() == name.lower()), None)
        if other is None:
            names[name] = number
        elif join.inputs[other].late != input_.late:
            raise QueryError(f"{name} stands twice, and its late rows count on one side; no batch is the same")
        elif (stream := stream_of(session, (name,))) and not stream.deterministic:
            raise QueryError(f"{name} stands twice, and is not deterministic; no batch is the same")
    return names


def _view_of(name: tuple[str, ...]) -> str:
    if len(name) != 1:
        raise QueryError(
            f"{'.'.join(name)} is a stream in a catalog, which no copy can stand for; give it a temporary view"
        )
    return name[0]


def _scans(plan: Logical) -> Iterator[Scan]:
    return (node for node in plan.walk() if isinstance(node, Scan) and not node.cte)


@contextmanager
def _folder(session: SparkSession, scratch: str | Path | None) -> Iterator[str]:
    """A folder for a while."""
    from planner.runtime.state.files import HadoopFolder

    if scratch is None:
        made = tempfile.mkdtemp(prefix="dovetail-")
        try:
            yield Path(made).as_uri()
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return
    folder = HadoopFolder(session, str(scratch))
    if folder.inside():
        raise QueryError(f"{scratch} is not empty; give verify an empty folder")
    try:
        yield str(folder)
    finally:
        folder.delete("")
