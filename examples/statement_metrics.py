"""Counters of statements in the text format of Prometheus, written where node_exporter's textfile collector reads them.

python examples/statement_metrics.py
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from threading import Lock

from dovetail import Optimizer, StatementEvent
from dovetail.executor.session.session import local_session  # quiet, for this machine; a session of yours does as well


class PrometheusCounters:
    """A listener that counts statements by outcome, declined ones by reason, fallbacks and seconds of planning."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.seconds = 0.0
        self._lock = Lock()  # statements come from any thread

    def __call__(self, event: StatementEvent) -> None:
        with self._lock:
            self.counts[f'dovetail_statements_total{{outcome="{event.outcome}"}}'] += 1
            if event.outcome == "as written":
                for rule in {d.rule for d in event.plan.declined} or {"no rule matched"}:
                    self.counts[f'dovetail_declined_total{{reason="{rule}"}}'] += 1
            self.counts["dovetail_fallbacks_total"] += event.is_fallback
            if event.outcome != "failed":  # planned before
                self.seconds += event.planning_seconds

    def text(self) -> str:
        """The counters, one on a line."""
        with self._lock:
            lines = [f"{name} {count}" for name, count in sorted(self.counts.items())]
            return "\n".join([*lines, f"dovetail_planning_seconds_total {self.seconds:.6f}", ""])

    def write(self, path: Path) -> None:
        """Replace a file of the textfile collector, which never sees a part of it."""
        new = path.with_suffix(".new")
        new.write_text(self.text())
        new.replace(path)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, local_session("statement-metrics") as spark:
        spark.range(60_000).selectExpr("id * 7 % 900000 AS ts").createOrReplaceTempView("events")
        spark.range(6_000).selectExpr("id * 13 AS start", "id * 13 + 60 AS stop").createOrReplaceTempView("sessions")
        counters = PrometheusCounters()
        opt = Optimizer(spark)
        opt.add_listener(counters)
        opt.sql("SELECT count(*) FROM events e JOIN sessions s ON e.ts BETWEEN s.start AND s.stop").show()
        opt.sql("SELECT count(*) FROM events e JOIN sessions s ON e.ts <> s.start").show()
        opt.sql("SELECT count(*) FROM events").show()
        counters.write(Path(folder, "dovetail.prom"))
        print(Path(folder, "dovetail.prom").read_text())


if __name__ == "__main__":
    main()
