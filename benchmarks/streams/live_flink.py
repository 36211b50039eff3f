"""A query of Apache Flink that stays up, and what it has printed of its changing result."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

from benchmarks.streams.children import processor_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CHANGE = re.compile(r"(?:\d+> )?([+-])[IUD](\[.*\])$")
_QUIET, _STEP = 3.0, 0.25  # seconds
_IDLE = 0.1  # of one processor


@dataclass
class LiveQuery:
    """A query that runs in a ``process``, and the rows of its result, as text, that have been printed.

    ``changed``: when the last change was printed; ``jvm``: the number of its JVM's process.
    """

    process: subprocess.Popen[str]
    jvm: int = 0
    changed: float = 0.0
    rows: Counter[str] = field(default_factory=Counter)

    def read(self) -> None:
        """Take in what is printed, until the process ends."""
        for line in self.process.stdout or ():
            if line.startswith("answer "):
                self.jvm = int(json.loads(line.removeprefix("answer "))["jvm"])
            elif found := _CHANGE.match(line.rstrip("\n")):
                self.rows[found[2]] += 1 if found[1] == "+" else -1
                self.changed = perf_counter()

    def settled(self, since: float) -> float:
        """Wait until the query prints nothing and computes nothing; the seconds ``since`` to its last change."""
        while not self.jvm:
            if self.process.poll() is not None:
                raise RuntimeError("Flink ended before its query ran; its output stands above")
            sleep(_STEP)
        quiet, before = perf_counter(), processor_seconds(self.jvm)
        while perf_counter() - max(quiet, self.changed) < _QUIET:
            sleep(_STEP)
            now = processor_seconds(self.jvm)
            if now - before > _IDLE * _STEP:
                quiet = perf_counter()
            before = now
        return self.changed - since

    def result(self) -> Counter[str]:
        """The rows that are there."""
        return Counter({row: n for row, n in self.rows.items() if n})


@contextmanager
def live_query(command: list[str], job: Mapping[str, Any], **more: str) -> Iterator[LiveQuery]:
    """Start a query in a process, with more variables in its environment; end it."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **more}
    )
    assert process.stdin is not None
    found = LiveQuery(process)
    reader = Thread(target=found.read, daemon=True)
    reader.start()
    process.stdin.write(f"{json.dumps(job)}\n")
    process.stdin.flush()
    try:
        yield found
    finally:
        process.stdin.close()
        process.wait()
        reader.join()
