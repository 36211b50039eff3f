"""Materialized views that share one state: each stream is read once and stored once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from dovetail.executor.state.store import Store
from dovetail.optimizer.streams.epochs import make_epochs, make_request
from dovetail.optimizer.views.materialization import ViewDefinition, open_view, prepare_view
from dovetail.optimizer.views.materialized_view import MaterializedView
from dovetail.optimizer.views.refresh import (
    await_end,
    check_checkpoint,
    check_epochs,
    end_refresh,
    finish_interrupted,
    refresh_lock,
    write_sinks,
)
from dovetail.planner.errors import OptionError, QueryError, StateError, Unsupported
from dovetail.planner.state.shared import Shared, share

if TYPE_CHECKING:
    from dovetail.executor.state.epochs import Epochs
    from dovetail.optimizer.streams.plan import StreamPlan
    from dovetail.optimizer.views.materialized_view import Streams
    from dovetail.planner.state.sink import Mode, Target


@dataclass(frozen=True, repr=False)
class MaterializedViews(Mapping[str, MaterializedView]):
    """Materialized views by name, with one state in a folder."""

    opt: Streams
    state: str
    views: tuple[MaterializedView, ...]

    def __getitem__(self, name: str) -> MaterializedView:
        """Return a view by name.  Raises ``KeyError``."""
        return {view.name: view for view in self._with_group()}[name]

    def __iter__(self) -> Iterator[str]:
        return iter([view.name for view in self.views])

    def __len__(self) -> int:
        return len(self.views)

    def __repr__(self) -> str:
        return f"MaterializedViews({', '.join(self)}, state={self.state})"

    def refresh(self) -> MaterializedViews:
        """Read all rows that have arrived since the last refresh, in one streaming query, and update all views.

        A refresh that was killed resumes.  A second thread waits for the first.  Raises ``QueryError``, ``StateError``,
        and what Spark raises.
        """
        with refresh_lock(self.opt.session, self.state):
            return self._refresh(*self._plan_shared())

    def _refresh(self, shared: Shared, plans: list[StreamPlan]) -> MaterializedViews:
        from dovetail.executor.state.arrivals import session_with
        from dovetail.executor.state.epochs import start_epochs

        epochs = self._epochs(shared, plans)
        check_checkpoint(epochs.store, self.views)
        epochs.store.open(shared)
        self._check_answered(epochs.store)
        check_epochs(epochs.store, self.views)
        finish_interrupted(self.views, epochs.store)
        for view in self.views:
            view.begin()
        query = start_epochs(self.opt.session, epochs, self._checkpoint, "available now", None)
        await_end(query, epochs.store, ", ".join(self))
        epochs.catch_up(session_with(self.opt.session, {}))
        write_sinks(self.views)
        end_refresh(self.views, epochs.store)
        return self

    def explain(self) -> str:
        """Describe what is stored, and for which views; then each view."""
        shared, _ = self._plan_shared()
        lines = []
        for number, input_ in enumerate(shared.inputs):
            of = [v.name for v, j in zip(self.views, shared.joins, strict=True) if number in {s.input for s in j.sides}]
            columns = ", ".join(column.name for column in input_.columns)
            lines.append(f"{input_.name}: {columns}, for {', '.join(of)}")
        inputs = "\n".join(lines)
        views = (f"{v.name}:\n\n{v.explain()}" for v in self._with_group())
        return "\n\n".join((f"the state of all views:\n{inputs}", *views))

    @property
    def _checkpoint(self) -> str:
        return f"{self.state}/checkpoint"

    def _with_group(self) -> tuple[MaterializedView, ...]:
        """Return the views, each of which refreshes all."""
        return tuple(replace(view, group=self) for view in self.views)

    def _plan_shared(self) -> tuple[Shared, list[StreamPlan]]:
        """Plan what the views read and store.  Raises ``QueryError`` for a view that cannot share a state."""
        plans = [self.opt.stream_plan(view.query.joined, state_modules=True) for view in self.views]
        joins = []
        for view, plan in zip(self.views, plans, strict=True):
            if plan.join is None:
                why = plan.reason or "it joins no two streams, so that it has no state to share"
                raise QueryError(f"{view.name} cannot share a state with other views: {why}; materialize it alone")
            joins.append(replace(plan.join, given=view.given if view.given.arguments else None))
        store = self._store()
        try:
            return share(joins, store.query(), str(store.folder)), plans
        except Unsupported as no:
            raise QueryError(f"these views cannot share one state: {no}; materialize each of them alone") from no

    def _store(self) -> Store:
        from dovetail.executor.state.files import HadoopFolder

        return Store(HadoopFolder(self.opt.session, self._checkpoint))

    def _epochs(self, shared: Shared, plans: list[StreamPlan]) -> Epochs:
        from dovetail.executor.state.sinks import FunctionOutput

        opt, joins = self.opt, []
        for view, join, plan in zip(self.views, shared.joins, plans, strict=True):
            assert plan.schemas is not None
            joins.append(make_request(opt, join, plan.schemas, FunctionOutput(view.add), view.rows.name))
        schemas = tuple(opt.session.table(i.relation).schema for i in shared.inputs)
        epochs = make_epochs(opt.session, shared.stored, schemas, self._store(), tuple(joins))
        epochs.for_view = True
        return epochs

    def _check_answered(self, store: Store) -> None:
        """Raise ``StateError`` for a view that has rows but was left out of a refresh of the other views."""
        epochs = store.epochs()
        answered = store.manifest(epochs[-1]).answered if epochs else ()
        for view in self.views:
            if view.rows.name in answered:
                continue
            if view.rows.refreshed:
                raise StateError(
                    f"{view.name} was not refreshed when other views on {self.state} were; {view.rows.restart_remedy}"
                )
            view.rows.clear()


def materialize_all(
    opt: Streams, definitions: Sequence[ViewDefinition], sinks: Mapping[str, Target], mode: Mode
) -> MaterializedViews:
    """Make or reopen materialized views on one state, and refresh them.

    Raises ``QueryError``, ``OptionError``, ``StateError``.
    """
    if not definitions:
        raise QueryError("no query is given; pass a mapping from the name of each view to its query")
    folder, names = definitions[0].folder, [view.name for view in definitions]
    folded = [name.lower() for name in names]
    if twice := next((name for n, name in enumerate(names) if folded[n] in folded[:n]), None):
        raise QueryError(f"two views have the name {twice}, but for capitals; give them other names")
    if odd := next((name for name in sinks if name not in names), None):
        raise QueryError(f"there is a sink for {odd}, but no query; the queries are {', '.join(names)}")
    _check_own_folders(opt, sinks)
    views = tuple(_prepare_view(opt, definition) for definition in definitions)
    group = MaterializedViews(opt, folder, views)
    with refresh_lock(opt.session, folder):
        shared, plans = group._plan_shared()
        group = replace(group, views=tuple(open_view(view, sinks.get(view.name), mode) for view in views))
        return group._refresh(shared, plans)


def _check_own_folders(opt: Streams, sinks: Mapping[str, Target]) -> None:
    """Raise ``OptionError`` if two views write files to one folder, where their changes would be indistinguishable."""
    from dovetail.executor.state.sink_places import folder_of_sink

    owners: dict[str, str] = {}
    for name, sink in sinks.items():
        folder = folder_of_sink(opt.session, sink)
        if folder and (other := owners.setdefault(str(folder), name)) != name:
            raise OptionError(f"The views {other} and {name} write to one folder, {folder.public}. Give each its own")


def _prepare_view(opt: Streams, view: ViewDefinition) -> MaterializedView:
    """Prepare one view of several.  Raises ``QueryError``, which names the view."""
    from dovetail.executor.state.stored_rows import StoredRows

    place = f"{view.folder}/views/{quote(view.name.lower(), safe='')}"
    try:
        return prepare_view(opt, view, lambda schema: StoredRows(opt.session, place, schema, shared=True))
    except QueryError as no:
        raise QueryError(f"{view.name}: {no.reason}", no.place) from no
