"""Views kept fresh together: their queries share one state, in which each stream is read once and kept once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from optimizer.keeping import folder_of, opened, prepared
from optimizer.kept import KeptView, one_at_a_time
from optimizer.stream_epochs import asked, epochs_with
from planner.errors import QueryError, StateError, Unsupported
from planner.state.shared import Shared, share
from planner.state.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from optimizer.kept import Streams
    from optimizer.streams import StreamPlan
    from planner.runtime.state.epochs import Epochs
    from planner.state.sink import Mode, Target


@dataclass(frozen=True, repr=False)
class KeptViews(Mapping[str, KeptView]):
    """Views by name, with one state in a folder."""

    opt: Streams
    state: str
    views: tuple[KeptView, ...]

    def __getitem__(self, name: str) -> KeptView:
        """A view.  Raises ``KeyError``."""
        return {view.name: view for view in self._own()}[name]

    def __iter__(self) -> Iterator[str]:
        return iter([view.name for view in self.views])

    def __len__(self) -> int:
        return len(self.views)

    def __repr__(self) -> str:
        return f"KeptViews({', '.join(self)}, state={self.state})"

    def refresh(self) -> KeptViews:
        """Take all that has arrived since the last time, in one streaming query, and make all views anew.

        A refresh that was killed goes on where it was.  Of two threads the second waits.  Raises ``QueryError``,
        ``StateError``, and what Spark raises.
        """
        with one_at_a_time(self.state):
            return self._refreshed(*self._shared())

    def _refreshed(self, shared: Shared, plans: list[StreamPlan]) -> KeptViews:
        from planner.runtime.state.arrivals import session_with
        from planner.runtime.state.epochs import start_epochs

        epochs = self._epochs(shared, plans)
        epochs.store.open(shared)
        self._check_all_there(epochs.store)
        for view in self.views:
            view.begin()
        start_epochs(self.opt.session, epochs, self._checkpoint, "available now", None).awaitTermination()
        epochs.catch_up(session_with(self.opt.session, {}))
        for view in self.views:
            try:
                view.tell()
            except Exception as error:
                error.add_note(
                    f"{view.name} could not write to its sink; a call of keep_together without it refreshes the others"
                )
                raise
        for view in self.views:
            view.end()
        return self

    def explain(self) -> str:
        """What is read and kept, and of which views; then what each of them has to say."""
        shared, _ = self._shared()
        lines = []
        for number, input_ in enumerate(shared.inputs):
            of = [v.name for v, j in zip(self.views, shared.joins, strict=True) if number in {s.input for s in j.sides}]
            columns = ", ".join(column.name for column in input_.columns)
            lines.append(f"{input_.name}: {columns}, for {', '.join(of)}")
        said = "\n".join(lines)
        return "\n\n".join((f"the state of all views:\n{said}", *(f"{v.name}:\n\n{v.explain()}" for v in self._own())))

    @property
    def _checkpoint(self) -> str:
        return f"{self.state}/checkpoint"

    def _own(self) -> tuple[KeptView, ...]:
        """The views, each of which refreshes all."""
        return tuple(replace(view, together=self) for view in self.views)

    def _shared(self) -> tuple[Shared, list[StreamPlan]]:
        """What the views read and keep.  Raises ``QueryError`` for one that has to be kept alone."""
        plans = [self.opt.stream_plan(view.query.joined, state_modules=True) for view in self.views]
        joins = []
        for view, plan in zip(self.views, plans, strict=True):
            if plan.join is None:
                why = plan.reason or "it joins no two streams, so that it has no state to share"
                raise QueryError(f"{view.name} cannot be kept together with others: {why}; keep it alone, by opt.keep")
            joins.append(plan.join)
        store = self._store()
        try:
            return share(joins, store.query(), str(store.folder)), plans
        except Unsupported as no:
            raise QueryError(f"these views cannot be kept together: {no}; keep each of them by opt.keep") from no

    def _store(self) -> Store:
        from planner.runtime.state.files import HadoopFolder

        return Store(HadoopFolder(self.opt.session, self._checkpoint))

    def _epochs(self, shared: Shared, plans: list[StreamPlan]) -> Epochs:
        from planner.runtime.state.sinks import FunctionOutput

        opt, joins = self.opt, []
        for view, join, plan in zip(self.views, shared.joins, plans, strict=True):
            assert plan.schemas is not None
            joins.append(asked(opt, join, plan.schemas, FunctionOutput(view.add), view.rows.name))
        schemas = tuple(opt.session.table(i.relation).schema for i in shared.inputs)
        return epochs_with(opt, shared.stored, schemas, self._store(), tuple(joins), of_a_view=True)

    def _check_all_there(self, store: Store) -> None:
        """Raise ``StateError`` for a view with rows of which the state does not know that they are all."""
        epochs = store.epochs()
        answered = store.manifest(epochs[-1]).answered if epochs else ()
        for view in self.views:
            if view.rows.name in answered:
                continue
            if view.rows.refreshed:
                raise StateError(
                    f"{view.name} has not been refreshed when other views on {self.state} were; "
                    f"remove {view.rows.folder}, and it is built again from the state"
                )
            view.rows.clear()


def keep_together(
    opt: Streams,
    queries: Mapping[str, str],
    state: str | Path,
    args: Any,
    sinks: Mapping[str, Target],
    mode: Mode,
) -> KeptViews:
    """Take queries apart and find their rows for the first time, or go on.

    Raises ``QueryError``, ``OptionError``, ``StateError``.
    """
    folder = folder_of(state)
    if not queries:
        raise QueryError("no query is given; give each view's name with its query")
    folded = [name.lower() for name in queries]
    if twice := next((name for n, name in enumerate(queries) if folded[n] in folded[:n]), None):
        raise QueryError(f"two views have the name {twice}, but for capitals; give them other names")
    if odd := next((name for name in sinks if name not in queries), None):
        raise QueryError(f"a sink is given for {odd}, and no query; the queries are {', '.join(queries)}")
    views = tuple(_prepared(opt, text, name, args, folder) for name, text in queries.items())
    together = KeptViews(opt, folder, views)
    with one_at_a_time(folder):
        found = together._shared()
        together = replace(together, views=tuple(opened(view, sinks.get(view.name), mode) for view in views))
        return together._refreshed(*found)


def _prepared(opt: Streams, text: str, name: str, args: Any, folder: str) -> KeptView:
    """A query as one view of several.  Raises ``QueryError``, which names the view."""
    from planner.runtime.state.kept_rows import KeptRows

    own = f"{folder}/views/{quote(name.lower(), safe='')}"
    anew = f"remove {own}, and the view is built again from the state"
    try:
        return prepared(opt, text, name, args, folder, lambda schema: KeptRows(opt.session, own, schema, anew))
    except QueryError as no:
        raise QueryError(f"{name}: {no.reason}", no.place) from no
