"""What joins of streams do on Spark Connect alone, as JSON: ``python connect_streams_main.py SCRATCH [bare]``.

``bare``: on a server whose Python has no Dovetail.  Each outcome is ``right``, or what is wrong.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dovetail import Optimizer, OptionError, QueryError, Sink, StateError
from dovetail.executor.state.server_folder import server_folder
from sessions import start
from stream_feeds import START, Feed, Model, arrive, newest, out_of_order, written

BAND = "a.ts BETWEEN b.ts - INTERVAL 3 SECONDS AND b.ts + INTERVAL 1 SECOND"
ITEMS = "a.id, a.k, unix_millis(a.ts) AS at, b.id AS bid, b.k AS bk, unix_millis(b.ts) AS bt"
QUERY = f"SELECT {ITEMS} FROM s a JOIN t b ON {BAND}"
EPOCHS = 4


def expected() -> Counter[tuple[Any, ...]]:
    """The rows of the query after all epochs, by a plain model."""

    def matches(a: Any, b: Any) -> bool:
        return None not in (a[2], b[2]) and -3000 <= a[2] - b[2] <= 1000

    sides = [[[*out_of_order(seed, n, 9), (7, None, None)] for n in range(EPOCHS)] for seed in range(2)]
    pairs = Model(matches, (5000, 5000)).join(sides[0], sides[1])
    return Counter({(*at(a), *at(b)): n for (a, b), n in pairs.items()})


def at(row: Any) -> tuple[Any, ...]:
    return (row[0], row[1], None if row[2] is None else row[2] + START)


class Streams:
    """The streams ``s`` and ``t`` in a folder."""

    def __init__(self, session: Any, folder: Path, epochs: int = EPOCHS):
        self.opt, self.folder = Optimizer(session), folder
        self.feeds = [Feed(session, folder / name, name, delay=5) for name in "st"]
        self.epochs = 0
        self.add(epochs)

    def add(self, epochs: int) -> None:
        """Let so many epochs arrive."""
        for epoch in range(self.epochs, self.epochs + epochs):
            arrive(self.feeds, epoch)
        self.epochs += epochs

    def start(self, **more: Any) -> Any:
        """Start the query on its checkpoint, and wait until all is read."""
        more = {"sink": Sink("parquet", self.folder / "out"), "trigger": "available now", **more}
        query = self.opt.stream(more.pop("query", QUERY), checkpoint=self.folder / "checkpoint", **more)
        query.awaitTermination()
        return query


def compared(found: Counter[tuple[Any, ...]]) -> str:
    wanted = expected()
    return "right" if found == wanted else f"{found.total()} rows, not {wanted.total()}"


def resumed(session: Any, folder: Path) -> str:
    """A query that ends and is started again; the session has the settings and views that it had."""
    streams = Streams(session, folder, 2)
    views = [table.name for table in session.catalog.listTables()]
    session.conf.set("spark.sql.adaptive.enabled", "false")
    streams.start()
    streams.add(EPOCHS - 2)
    streams.start()
    if session.conf.get("spark.sql.adaptive.enabled") != "false":
        return "a setting of the session has changed"
    if views != [table.name for table in session.catalog.listTables()]:
        return "the session has other views"
    if newest(folder).epoch != EPOCHS - 1:
        return f"the last manifest is of epoch {newest(folder).epoch}"
    return compared(written(session, folder))


def function(session: Any, folder: Path) -> str:
    """A function of the user's gets the rows of each epoch, on the server."""
    out = str(folder / "out")

    def write(rows: Any, epoch: int) -> None:
        rows.write.mode("overwrite").parquet(f"{out}/{epoch}")

    Streams(session, folder).start(sink=write)
    return compared(Counter(map(tuple, session.read.parquet(f"{out}/*").collect())))


def raising(session: Any, folder: Path) -> str:
    """The error of such a function reaches the user, and the epoch runs again."""
    streams, out = Streams(session, folder), str(folder / "out")

    def write(rows: Any, epoch: int) -> None:
        if epoch == 1 and not Path(out, "once").exists():
            Path(out, "once").mkdir()
            raise ValueError("no room")
        rows.write.mode("overwrite").parquet(f"{out}/{epoch}")

    try:
        streams.start(sink=write)
    except Exception as error:  # noqa: BLE001
        if "ValueError: no room" not in str(error):
            return f"another error: {error}"
    else:
        return "no error"
    streams.start(sink=write)
    return compared(Counter(map(tuple, session.read.parquet(f"{out}/[0-9]*").collect())))


def hidden_rows(session: Any, folder: Path) -> str:
    """A sink with a log of Spark's own takes no rows of a join: readers would see none of them."""
    streams = Streams(session, folder)
    streams.opt.stream("SELECT id FROM s", checkpoint=folder / "other", sink=Sink("parquet", folder / "out"))
    try:
        streams.start()
    except OptionError as error:
        return "right" if "written by another query" in str(error) else str(error)
    return "no error"


def without_active_session(session: Any, folder: Path) -> str:
    """The session that is active may be another one, or none."""
    streams = Streams(session, folder, 1)
    active = type(session)._active_session
    before = getattr(active, "session", None), type(session)._default_session
    active.session, type(session)._default_session = None, None
    try:
        return "right" if streams.opt.stream_plan(QUERY).join else streams.opt.stream_plan(QUERY).reason
    finally:
        active.session, type(session)._default_session = before


def over_bins(session: Any, folder: Path) -> str:
    """A table is no sink of state modules there, so that Spark's own join runs over bins."""
    streams = Streams(session, folder)
    reason = streams.opt.stream_plan(QUERY).reason
    if reason:
        return reason
    try:
        streams.start(sink="joined")
        found = Counter(map(tuple, session.table("joined").collect()))
    finally:
        session.sql("DROP TABLE IF EXISTS joined")
    return "right" if found and not found - expected() and found.total() > 50 else f"{found.total()} rows"


def one_stream(session: Any, folder: Path) -> str:
    """A stream that is joined with itself is stored once, unless a function may give other values each time."""
    streams = Streams(session, folder)
    session.table("s").selectExpr("*", "rand() AS r").createOrReplaceTempView("random")
    counts = []
    for name in ("s", "random"):
        plan = streams.opt.stream_plan(f"SELECT a.id FROM {name} a JOIN {name} b ON {BAND}", state_modules=True)
        counts.append(len(plan.join.inputs) if plan.join else 0)
    session.catalog.dropTempView("random")
    return "right" if counts == [1, 2] else f"stored {counts} times"


def refused(session: Any, folder: Path) -> str:
    """States that are damaged, or of another query, are found before anything runs."""
    streams = Streams(session, folder)
    streams.start()
    out, link = Sink("parquet", folder / "out"), folder / "link"
    link.symlink_to(folder / "checkpoint")
    pattern = Streams(session, folder / "a[b]", 1)
    segments = sorted((folder / "checkpoint" / "dovetail").glob("rows-*"))
    checks = (
        ("another query", lambda: streams.start(query=QUERY.replace("3 SECONDS", "2 SECONDS")), StateError),
        ("not on state modules", lambda: streams.start(query="SELECT * FROM s"), StateError),
        ("materialize", lambda: streams.opt.materialize(QUERY, "v", state=folder / "view"), QueryError),
        ("verify", lambda: streams.opt.verify(QUERY), QueryError),
        ("ttl", lambda: streams.start(state_ttl=-1), OptionError),
        ("not mounted", lambda: server_folder(session, "http://127.0.0.1:9/x"), OptionError),
        ("bins there", lambda: pattern.start(query=QUERY.replace("ON", "ON a.k = b.k AND", 1), bins=True), QueryError),
        ("a pattern", pattern.start, QueryError),
        (
            "hidden rows",
            lambda: streams.opt.stream("SELECT * FROM s", checkpoint=folder / "other", sink=out),
            OptionError,
        ),
        ("nested", lambda: streams.start(sink=Sink("parquet", link)), OptionError),
        ("lost", lambda: [shutil.rmtree(s) for s in segments] and streams.start(), StateError),
    )
    for name, call, wanted in checks:
        try:
            call()
        except wanted:
            continue
        except Exception as error:  # noqa: BLE001
            return f"{name}: {type(error).__name__}: {error}"
        return f"{name}: no error"
    return "right"


def bare(session: Any, folder: Path) -> str:
    """On a server without Dovetail, Spark's own join runs as written, but on no checkpoint with a state."""
    streams = Streams(session, folder)
    state = folder / "begun" / "dovetail"
    state.mkdir(parents=True)
    (state / "query.json").write_text("{}")
    for wanted, text, checkpoint in (
        (QueryError, QUERY, folder / "needs bins"),
        (StateError, "SELECT * FROM s", folder / "begun"),
    ):
        try:
            streams.opt.stream(text, checkpoint=checkpoint, sink=Sink("noop"))
        except wanted as error:
            if "cannot import Dovetail" not in str(error):
                return str(error)
        else:
            return f"no error for {text}"
    keyed = QUERY.replace(BAND, f"a.k = b.k AND {BAND}")
    plan = streams.opt.stream_plan(keyed)
    if "cannot import Dovetail" not in plan.reason or plan.bins:
        return plan.explain()
    streams.start(query=keyed)
    found, whole = written(session, folder), Counter({row: n for row, n in expected().items() if row[1] == row[4]})
    return "right" if found and not found - whole and found.total() > 9 else f"{found.total()} rows"


def outcomes(session: Any, scratch: Path, which: Sequence[Callable[[Any, Path], str]]) -> Iterator[tuple[str, str]]:
    for scenario in which:
        try:
            yield scenario.__name__, scenario(session, scratch / scenario.__name__)
        except Exception as error:  # noqa: BLE001
            yield scenario.__name__, f"{type(error).__name__}: {error}"[:3000]


SCENARIOS = [
    resumed,
    function,
    raising,
    hidden_rows,
    over_bins,
    one_stream,
    refused,
    without_active_session,
]


def main(scratch: Path, kind: str = "") -> None:
    if kind == "bare":
        python = sys._base_executable  # type: ignore[attr-defined]
        session = start("connect", scratch / "spark", **{"spark.pyspark.python": python})
        found = dict(outcomes(session, scratch, [bare]))
    else:
        session = start("connect", scratch / "spark")
        found = dict(outcomes(session, scratch, SCENARIOS))
    print(json.dumps(found), flush=True)
    os._exit(0)  # the server ends with its process; each session that says goodbye to it afterwards waits for an answer


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
